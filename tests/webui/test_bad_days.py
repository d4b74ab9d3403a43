"""Open pages on bad days: the broker restarts, files do not come, clocks differ, users change."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from base64 import b64encode
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.webui.browsing import HANDS, Tab, Watch
from tests.webui.example import Api
from tests.webui.pages import PAGES

from leporid.management.admission import LIVE_MAX
from leporid.testing.process import BrokerProcess

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = sync_api.expect
pytestmark = pytest.mark.slow

HOUR_MS = 3600_000
OF_ONE_USER = LIVE_MAX // 2
"""Pages with live figures."""


@pytest.fixture
def context(browser: Any, broker: Any, api: Api) -> Iterator[Any]:
    """The tabs of one browser, in which nobody has logged in."""
    context = browser.new_context(base_url=f"http://127.0.0.1:{broker.http_port}")
    yield context
    context.close()


def log_in(tab: Tab, name: str, password: str) -> None:
    hands = HANDS[0](tab)
    hands.type(tab.page.get_by_label("User"), name)
    hands.type(tab.page.get_by_label("Password"), password)
    hands.press(tab.page.get_by_role("button", name="Log in"))


def test_a_page_outlives_a_restart_of_the_broker(browser: Any, tmp_path: Path):
    with BrokerProcess(tmp_path / "data") as process:
        port = process.http_port
        api = Api(process.http_port)
        api.put("queues", "/", "orders", body={"durable": True})
        api.close()
        context = browser.new_context(base_url=f"http://127.0.0.1:{process.http_port}")
        tab = Tab(context.new_page())
        tab.page.goto("/#/queues/%2F/orders?range=hour")
        log_in(tab, "guest", "guest")
        expect(tab.page.get_by_role("heading", name="orders")).to_be_visible()
        process.stop()
        expect(tab.page.locator(".lost")).to_contain_text("has not answered since")
        # What was shown stays, and a page whose file does not come says what to do.
        expect(tab.page.get_by_role("heading", name="orders")).to_be_visible()
        tab.page.evaluate("location.hash = '#/policies'")
        expect(tab.notice("The broker does not answer")).to_be_visible()
        expect(tab.button("Reload")).to_be_visible()
        with BrokerProcess(tmp_path / "data", options=("--http-port", str(port))):
            # Sessions are in memory: the page finds by itself that it has to log in again.
            expect(tab.page.get_by_text("Your session has ended.")).to_be_visible(timeout=30_000)
            log_in(tab, "guest", "guest")
            # By then the file comes.
            expect(tab.button("Add policy").first).to_be_visible()
            tab.page.go_back()
            expect(tab.page.get_by_role("heading", name="orders")).to_be_visible()
            expect(tab.page.locator(".lost")).to_have_count(0)
            assert "range=hour" in tab.page.url
        context.close()


# Nobody has an exabyte, so this alarm is on until the setting is another.
ALARM = "disk_free_min = 1000000000000000000\n"


def test_an_alarm_is_told_on_every_page_until_it_ends(browser: Any, tmp_path: Path):
    with BrokerProcess(tmp_path / "data", config=ALARM) as process:
        api = Api(process.http_port)
        user = {"password": "secret-carl", "tags": "management"}
        api.put("users", "carl", body=user)
        api.close()
        context = browser.new_context(base_url=f"http://127.0.0.1:{process.http_port}")
        tab = Tab(context.new_page())
        with Watch(tab.page):
            tab.page.goto("/#/queues")
            log_in(tab, "carl", "secret-carl")
            banner = tab.page.get_by_role("alert").filter(has_text="alarm")
            for place in PAGES:
                tab.go(*place)
                expect(banner).to_have_count(1)
                expect(banner).to_contain_text("The disk alarm is on: publishers are blocked.")
                expect(banner).to_contain_text("Consumers go on")
                expect(banner).to_contain_text("let consumers take messages")
                expect(banner.get_by_role("link", name="Overview")).to_have_count(int(place != ()))
            banner.get_by_role("link", name="Overview").click()
            expect(tab.page.locator("h1")).to_have_text("Overview")
            expect(banner).to_be_visible()
            tab.go("users")
            (tmp_path / "data.toml").write_text("disk_free_min = 1\n")
            os.kill(process.pid, signal.SIGHUP)
            expect(banner).to_have_count(0)
        context.close()


def test_a_page_that_may_not_listen_says_so_until_it_may(context: Any, broker: Any, api: Api):
    tab = Tab(context.new_page())
    login = b64encode(b"alice:secret-alice").decode()
    with contextlib.ExitStack() as listening:
        for _ in range(OF_ONE_USER):
            client = HTTPConnection("127.0.0.1", broker.http_port, timeout=60)
            listening.callback(client.close)
            client.request("GET", "/api/live", headers={"Authorization": f"Basic {login}"})
            assert client.getresponse().status == 200
        tab.page.goto("/#/users")
        log_in(tab, "alice", "secret-alice")
        expect(tab.page.locator(".lost")).to_contain_text("As many pages are open as may have")
        expect(tab.row("carl")).to_be_visible()
    expect(tab.page.locator(".lost")).to_have_count(0)


def test_tabs_of_one_browser_have_one_user(context: Any):
    first, second = Tab(context.new_page()), Tab(context.new_page())
    first.page.goto("/#/users")
    log_in(first, "alice", "secret-alice")
    expect(first.button("User alice")).to_be_visible()
    second.open("queues")
    expect(second.button("User alice")).to_be_visible()
    second.button("User alice").click()
    second.button("Log out").click()
    expect(first.page.get_by_label("Password")).to_be_visible()
    log_in(second, "carl", "secret-carl")
    expect(first.button("User carl")).to_be_visible()
    expect(first.button("Add user").first).to_have_attribute(
        "title", re.compile('the tag "administrator"')
    )


@pytest.mark.parametrize("hours", [-5, 5])
def test_ages_and_times_to_come_are_by_the_clock_of_the_broker(context: Any, api: Api, hours: int):
    page = context.new_page()
    tab = Tab(page)
    with Watch(page):
        # A page whose clock is wrong by hours.
        page.add_init_script(f"const now = Date.now; Date.now = () => now() + {hours * HOUR_MS};")
        page.goto("/#/delays?vhost=%2F&exchange=reminders")
        log_in(tab, "alice", "secret-alice")
        due = tab.row("m0").locator("td").first
        expect(due).to_have_text(re.compile(r"^(1 h|\d\d min)"))
        tab.go("streams", vhost="/")
        expect(tab.row("flights")).to_contain_text(re.compile(r"(just now|\d (s|min)[^h]* ago)"))
        expect(tab.row("flights")).not_to_contain_text(re.compile(r"\d h"))


@pytest.mark.parametrize(
    ("address", "heading"),
    [
        ("queues/%2F/orders", "orders"),
        ("queues/%2F/flights", "flights stream"),
        ("exchanges/%2F/departures", "departures"),
        ("exchanges/%2F/amq.default", "(default)"),
        ("users/carl", "User carl"),
        ("vhosts/%2F", "Virtual host /"),
        ("policies/%2F/short", "Policy short"),
        ("operator-policies", "Operator policies"),
        ("nodes/rabbit%40here", "Overview"),
        ("feature-flags", "Features"),
        ("deprecated-features", "Features"),
        ("cluster-name", "Features"),
        ("limits", "Limits"),
        ("#/", "No such page"),
    ],
)
def test_addresses_of_rabbitmq_are_known(tab: Tab, address: str, heading: str):
    tab.page.goto(f"/#/{address}")
    expect(tab.page.locator("h1")).to_contain_text(heading)
    tab.page.reload()
    expect(tab.page.locator("h1")).to_contain_text(heading)


@pytest.mark.parametrize("tags", ["management", "policymaker", "monitoring"])
def test_each_kind_of_user_sees_each_page_without_an_error(
    browser: Any, broker: Any, api: Api, tags: str
):
    """What a user may not see is told, as a reason; nothing is empty without a word."""
    name = f"tagged-{tags}"
    api.put("users", name, body={"password": "secret", "tags": tags})
    api.put("permissions", "/", name, body={"configure": "", "write": "", "read": ".*"})
    context = browser.new_context(base_url=f"http://127.0.0.1:{broker.http_port}")
    tab = Tab(context.new_page())
    with Watch(tab.page):
        tab.page.goto("/#/queues")
        log_in(tab, name, "secret")
        expect(tab.row("orders")).to_be_visible()
        for place in PAGES:
            tab.go(*place)
            expect(tab.page.locator("main h1")).not_to_have_text("This page does not work")
            said = tab.page.locator("main .notice.bad").all_inner_texts()
            assert all(re.search("Not |not authorised|lacks the tag", one) for one in said), (
                place,
                said,
            )
    context.close()


def test_what_a_user_may_not_watch_is_no_silence_of_the_broker(context: Any, api: Api):
    api.put("vhosts", "closed")
    tab = Tab(context.new_page())
    watched: list[tuple[str, int]] = []

    def note(answer: Any) -> None:
        if "/api/live" in answer.url:
            watched.append((urlsplit(answer.url).query, answer.status))

    tab.page.on("response", note)
    tab.page.goto("/#/queues/closed/orders")
    log_in(tab, "carl", "secret-carl")
    expect(tab.page.locator("main")).to_contain_text("not authorised")
    # The rest of the broker is watched instead.
    while [status < 400 for _, status in watched[-2:]] != [False, True]:
        tab.page.wait_for_event("response")
    assert "closed" in watched[-2][0]
    assert watched[-1][0] == ""
    expect(tab.page.locator(".lost")).to_have_count(0)
    tab.go("queues", "/", "late")
    expect(tab.page.locator(".figure").first).to_be_visible()
    expect(tab.page.locator(".lost")).to_have_count(0)


def test_who_has_no_tag_is_told_so(context: Any):
    tab = Tab(context.new_page())
    tab.page.goto("/#/queues")
    log_in(tab, "dora", "secret-dora")
    expect(tab.page.get_by_role("alert")).to_contain_text(re.compile("Not management user|tag"))
    expect(tab.page.get_by_label("Password")).to_be_visible()
