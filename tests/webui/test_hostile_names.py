"""Names that are HTML, addresses or templates are shown as they are, and never more than text.

On a narrow screen, which none of them makes wider.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.webui.browsing import Tab, Watch, fragment
from tests.webui.example import HOSTILE, HOSTILE_CLASSES, Api, connected, fill_hostile
from tests.webui.pages import PAGES, Place, titled

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = sync_api.expect
pytestmark = pytest.mark.slow

# What the document has beside text: nothing that a name has brought along.
BROUGHT = """() => [
  ...document.querySelectorAll("script:not([src]), [onerror], [onload], iframe, object, #brought"),
  ...[...document.querySelectorAll("img")].filter((each) => each.getAttribute("src") === "x"),
  ...[...document.querySelectorAll("a[href]")].filter((each) => each.protocol === "javascript:"),
].map((each) => each.outerHTML.slice(0, 200))"""

OBJECTS: tuple[Place, ...] = tuple(
    place
    for name in HOSTILE
    for place in (
        ("queues", "/", name),
        ("exchanges", "/", name),
        ("streams", "/", f"s {name}"),
        ("users", name),
        ("vhosts", name),
        ("policies", "/", name),
    )
)
NARROW: Any = {"width": 390, "height": 844}
LISTS = tuple(place for place in PAGES if len(place) < 2)
SHOWING = ("queues", "exchanges", "streams", "users", "vhosts", "policies", "parameters")
"""Lists that show all of the names."""


@pytest.fixture(scope="module")
def shared(browser: Any, broker: Any, logged_in: dict[str, Any], api: Api) -> Iterator[Tab]:
    """One tab for all pages, which is watched to the end."""
    fill_hostile(api)
    connection = connected(broker.amqp_port)
    context = browser.new_context(
        base_url=f"http://127.0.0.1:{broker.http_port}",
        storage_state=logged_in,
        viewport=NARROW,
    )
    tab = Tab(context.new_page())
    with Watch(tab.page):
        tab.open()
        yield tab
    context.close()
    connection.close()


def go(tab: Tab, /, *place: str, **query: str) -> None:
    tab.go(*place, **query)
    assert tab.page.evaluate(BROUGHT) == []
    tab.check_fits()


@pytest.mark.parametrize("place", LISTS, ids=titled)
def test_lists_show_hostile_names_as_text(shared: Tab, place: Place):
    go(shared, *place)
    if place and place[0] in SHOWING:
        for name in HOSTILE:
            found = shared.page.locator("main").get_by_text(name).locator("visible=true")
            expect(found.first).to_be_visible()


@pytest.mark.parametrize("place", OBJECTS, ids=lambda place: f"{place[0]}-{place[-1]}")
def test_pages_of_objects_show_hostile_names_as_text(shared: Tab, place: Place):
    go(shared, *place)
    expect(shared.page.locator("h1")).to_contain_text(place[-1].strip())
    assert fragment(*place) == shared.page.evaluate("location.hash")


def test_messages_are_shown_as_text(shared: Tab):
    name = HOSTILE[1]
    go(shared, "queues", "/", name, tab="browse")
    expect(shared.page.locator("main")).to_contain_text(name)
    # The tab that is shown is in sight, though there are more of them than fit.
    go(shared, "queues", "/", name, tab="move")
    expect(shared.page.get_by_role("tab", name="Move")).to_be_in_viewport()
    go(shared, "delays")
    go(shared, "topology", vhost="/")
    go(shared, "filters", queue=name)


def test_connections_and_consumers_are_shown_as_text(shared: Tab, api: Api):
    (connection,) = api.get("connections")
    go(shared, "connections")
    expect(shared.page.locator("main")).to_contain_text(HOSTILE[0])
    go(shared, "connections", connection["name"])
    expect(shared.page.locator("main")).to_contain_text(HOSTILE[0])
    one, other = sorted(each["name"] for each in api.get("channels"))
    for place, query in (
        (("channels", one), {}),
        (("channels", other), {}),
        (("queues", "/", HOSTILE[1]), {"tab": "consumers"}),
        (("streams", "/", "flights"), {"show": "readers"}),
    ):
        go(shared, *place, **query)
        for tag in HOSTILE:
            expect(shared.page.locator("main").get_by_text(tag).first).to_be_visible()


def test_pipelines_and_filter_classes_are_shown_as_text(shared: Tab):
    go(shared, "pipelines", vhost="/", tab="runs")
    for name in HOSTILE:
        expect(shared.page.locator("main").get_by_text(name).first).to_be_visible()
    shared.button(f"Runs of {HOSTILE[0]}").click()
    expect(shared.dialog).to_contain_text(HOSTILE[0])
    assert shared.page.evaluate(BROUGHT) == []
    shared.page.keyboard.press("Escape")
    go(shared, "filter-classes")
    for name in HOSTILE_CLASSES:
        expect(shared.page.locator("main").get_by_text(name).first).to_be_visible()
    go(shared, "filter-classes", HOSTILE_CLASSES[0])
    expect(shared.page.locator("h1")).to_contain_text(HOSTILE_CLASSES[0])


def test_what_is_searched_for_and_refused_is_text(shared: Tab):
    name = HOSTILE[1]
    go(shared, "queues", name=name)
    go(shared, "queues", name="(", regex="1")
    go(shared, "queues", "/", f"missing {name}")
    expect(shared.page.locator("main")).to_contain_text(f"missing {name}")
    go(shared, name, name)
    go(shared, "definitions", vhost=name)


def test_dialogs_ask_for_hostile_names_as_they_are(shared: Tab, api: Api):
    name = HOSTILE[2]
    go(shared, "users", name)
    shared.button("Delete user").click()
    expect(shared.dialog).to_contain_text(name)
    shared.dialog.get_by_role("textbox").fill(name)
    shared.button("Delete user", within=shared.dialog).click()
    expect(shared.page.get_by_role("heading", name="Users", exact=True)).to_be_visible()
    assert name not in [user["name"] for user in api.get("users")]
