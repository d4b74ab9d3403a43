"""Every page of the web UI for everybody: axe-core finds nothing, in both themes and narrow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

import pika
import pytest
from tests.webui.browsing import Tab, Watch
from tests.webui.example import Api
from tests.webui.pages import DIALOGS, PAGES, Place, titled

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
)
expect = sync_api.expect
pytestmark = pytest.mark.slow

NARROW: Any = {"width": 360, "height": 740}
WIDE: Any = {"width": 1440, "height": 900}
STANDARD = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"]}
}
CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}


@pytest.fixture(scope="module")
def shared(browser: Any, broker: Any, logged_in: dict[str, Any], api: Api) -> Iterator[Tab]:
    """One tab for all pages: axe-core, which is large, is loaded once."""
    context = browser.new_context(
        base_url=f"http://127.0.0.1:{broker.http_port}",
        storage_state=logged_in,
        viewport=WIDE,
        reduced_motion="reduce",
    )
    tab = Tab(context.new_page())
    with Watch(tab.page):
        tab.open()
        tab.page.evaluate(axe.Axe().axe_script)
        yield tab
    context.close()


def violations(tab: Tab, options: dict[str, Any]) -> list[str]:
    found: list[dict[str, Any]] = tab.page.evaluate(
        "async options => (await axe.run(document, options)).violations", options
    )
    return [
        f"{each['id']}: {node['html'][:200]} {node['any'][0]['message'] if node['any'] else ''}"
        for each in found
        for node in each["nodes"][:3]
    ]


@pytest.mark.parametrize("place", PAGES, ids=titled)
def test_a_page_is_accessible_in_both_themes_and_narrow(shared: Tab, place: Place):
    shared.go(*place)
    assert violations(shared, STANDARD) == []
    shared.page.emulate_media(color_scheme="dark")
    assert violations(shared, CONTRAST) == []
    shared.page.emulate_media(color_scheme="light")
    shared.page.set_viewport_size(NARROW)
    try:
        shared.check_fits()
    finally:
        shared.page.set_viewport_size(WIDE)


def test_a_page_with_more_tabs_than_fit_begins_at_its_top(shared: Tab):
    shared.go("feature-flags")
    shared.page.set_viewport_size(NARROW)
    try:
        shared.go("queues", "/", "orders")
        shared.page.locator(".topology [role=tab]").first.wait_for()
        assert shared.page.evaluate("scrollY") == 0
    finally:
        shared.page.set_viewport_size(WIDE)


def test_pages_of_a_connection_and_its_channel_are_accessible(shared: Tab, broker: Any, api: Api):
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, heartbeat=0)
    with pika.BlockingConnection(parameters) as client:
        client.channel().basic_consume("late", lambda *_: None)
        (channel,) = api.get("channels")
        for place in (
            ("connections", channel["connection_details"]["name"]),
            ("channels", channel["name"]),
        ):
            test_a_page_is_accessible_in_both_themes_and_narrow(shared, place)
        shared.go("queues", "/", "late", tab="consumers")
        expect(shared.row(channel["name"])).to_have_count(1)
        assert violations(shared, STANDARD) == []


@pytest.mark.parametrize(
    ("place", "button", "query"), DIALOGS, ids=lambda value: titled((str(value),))
)
def test_a_dialog_is_opened_by_keyboard_and_accessible(
    shared: Tab, place: Place, button: str, query: str
):
    shared.go("feature-flags")
    shared.go(*place, **dict(parse_qsl(query)))
    opening = shared.page.get_by_role("button", name=re.compile(f"^{button}")).first
    shared.focus(opening)
    shared.page.keyboard.press("Enter")
    shared.dialog.wait_for()
    assert violations(shared, STANDARD) == []
    shared.page.keyboard.press("Escape")
    expect(shared.dialog).to_have_count(0)
    expect(opening).to_be_focused()


def test_the_theme_is_chosen_and_remembered(shared: Tab):
    shared.page.emulate_media(color_scheme="dark")
    dark = ground(shared)
    shared.page.emulate_media(color_scheme="light")
    light = ground(shared)
    assert dark != light
    shared.button("User guest").click()
    shared.page.get_by_role("radio", name="Dark", exact=True).check()
    assert ground(shared) == dark
    shared.page.reload()
    shared.settled()
    assert ground(shared) == dark
    shared.button("User guest").click()
    shared.page.get_by_role("radio", name="Light", exact=True).check()
    shared.page.emulate_media(color_scheme="dark")
    assert ground(shared) == light
    shared.page.get_by_role("radio", name="Like the system", exact=True).check()
    assert ground(shared) == dark
    shared.page.emulate_media(color_scheme="light")


def test_a_page_prints_its_contents_dark_on_light(shared: Tab):
    shared.page.emulate_media(color_scheme="light")
    shared.go("queues")
    light = ground(shared)
    try:
        shared.page.emulate_media(color_scheme="dark", media="print")
        assert ground(shared) == light
        expect(shared.row("orders")).to_be_visible()
        expect(shared.page.get_by_role("heading", name="Queues", exact=True)).to_be_visible()
        for what in ("nav", ".top", ".list-head", ".page-actions", ".same"):
            expect(shared.page.locator(what).first).to_be_hidden()
    finally:
        shared.page.emulate_media(color_scheme="light", media="screen")


def ground(tab: Tab) -> str:
    """Return the colour of the page's ground."""
    found: str = tab.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    return found
