"""Logging in to the web UI and out, sessions that end, and what a hidden tab does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.webui.browsing import HANDS, Hands, Tab, Watch
from tests.webui.example import Api

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = sync_api.expect
pytestmark = pytest.mark.slow

HIDDEN = """hidden => {
  Object.defineProperty(document, "visibilityState",
    { configurable: true, get: () => (hidden ? "hidden" : "visible") });
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
LONG_MS = 10 * 60_000
FETCHED = "() => new Promise((done) => { fetch('/ui/icon.svg').then(done); })"


@pytest.fixture
def stranger(browser: Any, broker: Any, api: Api) -> Iterator[Tab]:
    """A tab of somebody who has not logged in."""
    context = browser.new_context(base_url=f"http://127.0.0.1:{broker.http_port}")
    tab = Tab(context.new_page())
    with Watch(tab.page):
        yield tab
    context.close()


@pytest.fixture(params=HANDS, ids=["mouse", "keyboard"])
def their_hands(request: pytest.FixtureRequest, stranger: Tab) -> Hands:
    made: Hands = request.param(stranger)
    return made


def log_in(hands: Hands, name: str, password: str) -> None:
    page = hands.tab.page
    hands.type(page.get_by_label("User"), name)
    hands.type(page.get_by_label("Password"), password)
    hands.press(page.get_by_role("button", name="Log in"))


def test_somebody_logs_in_and_out(stranger: Tab, their_hands: Hands):
    page = stranger.page
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto("/#/users")
    expect(page.get_by_label("Password")).to_be_visible()
    assert said == []
    log_in(their_hands, "alice", "wrong")
    expect(page.get_by_role("alert")).to_be_visible()
    log_in(their_hands, "alice", "secret-alice")
    expect(page.get_by_role("heading", name="Users", exact=True)).to_be_visible()
    assert "secret" not in page.url
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    their_hands.press(page.get_by_role("button", name="User alice"))
    their_hands.press(page.get_by_role("button", name="Log out"))
    expect(page.get_by_label("Password")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Password")).to_be_visible()


def test_who_may_less_sees_why(stranger: Tab):
    page = stranger.page
    page.goto("/#/vhosts")
    log_in(HANDS[0](stranger), "carl", "secret-carl")
    add = page.get_by_role("button", name="Add virtual host")
    expect(add).to_have_attribute(
        "title", 'This needs the tag "administrator", which your user does not have.'
    )
    add.click(force=True)
    expect(stranger.dialog).to_have_count(0)


def test_a_range_that_a_user_may_not_see_says_why(stranger: Tab):
    page = stranger.page
    refused: list[str] = []
    page.on(
        "response",
        lambda answer: (
            refused.append(answer.url)
            if answer.status >= 400 and "/api/samples" in answer.url
            else None
        ),
    )
    page.goto("/#/?range=hour")
    log_in(HANDS[0](stranger), "carl", "secret-carl")
    ranges = page.get_by_role("group", name="Range of Backlog")
    expect(ranges.get_by_role("button", name="Minute")).to_have_attribute("aria-pressed", "true")
    hour = ranges.get_by_role("button", name="Hour")
    expect(hour).to_have_attribute("aria-disabled", "true")
    expect(hour).to_have_attribute("title", re.compile('the tag "monitoring".*longer ranges'))
    # The pages that the reason names have them.
    stranger.go("queues", "/", "late")
    page.get_by_role("group", name="Range of Messages").get_by_role("button", name="Hour").click()
    page.wait_for_url(re.compile("range=hour"))
    stranger.go("dead-letters", vhost="/")
    expect(page.locator("main")).to_contain_text('users with the tag "monitoring"')
    expect(page.get_by_role("figure", name="Died in the whole broker")).to_have_count(0)
    stranger.button("Chart of orders").click()
    expect(page.get_by_role("figure", name="Died in orders")).to_be_visible()
    assert refused == []


def test_what_permissions_exclude_is_disabled_and_says_why(stranger: Tab, api: Api):
    page = stranger.page
    page.goto("/#/queues/%2F/letters")
    log_in(HANDS[0](stranger), "carl", "secret-carl")
    refused = 'This needs the permission to configure "letters" in "/", which your user does'
    for name in ("Delete", "Pause"):
        expect(stranger.button(name)).to_have_attribute("title", re.compile(re.escape(refused)))
    stranger.button("Delete").click(force=True)
    expect(stranger.dialog).to_have_count(0)
    # Reading is allowed, so purging is: what is not refused stays as it is.
    stranger.button("Purge").click()
    expect(stranger.dialog).to_have_count(1)
    page.keyboard.press("Escape")
    stranger.go("exchanges", "/", "departures", tab="publish")
    expect(stranger.button("Publish")).to_have_attribute(
        "title", re.compile('permission to write "departures"')
    )
    stranger.go("delays", vhost="/", exchange="reminders")
    cancel = page.get_by_role("button", name=re.compile("^Cancel "))
    expect(cancel.first).to_have_attribute("title", re.compile('to configure "reminders"'))
    cancel.first.click(force=True)
    expect(stranger.dialog).to_have_count(0)
    stranger.go("streams", "/", "flights", show="readers")
    for name in ("Move", "Forget"):
        expect(stranger.button(f"{name} reader archive")).to_have_attribute(
            "title", re.compile('to configure "flights"')
        )
    stranger.go("filters", vhost="/", queue="orders", filter="n > 1")
    stranger.button("Bind with this…").click()
    stranger.dialog.get_by_label("Exchange").fill("departures")
    stranger.dialog.get_by_label("Queue").fill("letters")
    expect(stranger.button("Bind")).to_have_attribute("title", re.compile('to write "letters"'))
    page.keyboard.press("Escape")
    stranger.go("queues", vhost="shop")
    stranger.button("Declare a queue").first.click()
    stranger.field("Name").fill("new")
    expect(stranger.button("Declare")).to_be_enabled()
    stranger.dialog.get_by_label("Virtual host").select_option(label="/")
    expect(stranger.button("Declare")).to_have_attribute("aria-disabled", "true")


def test_a_page_of_one_virtual_host_begins_with_one_that_the_user_may_enter(
    stranger: Tab, api: Api
):
    api.put("vhosts", "workshop")
    api.put("users", "dora", body={"password": "secret-dora", "tags": "management"})
    every = {"configure": ".*", "write": ".*", "read": ".*"}
    api.put("permissions", "workshop", "dora", body=every)
    page = stranger.page
    page.goto("/#/topology")
    log_in(HANDS[0](stranger), "dora", "secret-dora")
    expect(page.get_by_role("heading", name="Topology of workshop")).to_be_visible()
    page.goto("/#/dead-letters")
    expect(page.get_by_role("heading", name="Dead letters in workshop")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_session_that_has_ended_asks_for_the_password_again(stranger: Tab, api: Api):
    page = stranger.page
    api.put("users", "fred", body={"password": "first", "tags": "administrator"})
    page.goto("/#/users")
    log_in(HANDS[0](stranger), "fred", "first")
    expect(stranger.row("fred")).to_be_visible()
    # A new password ends the sessions; the page finds out by itself.
    api.put("users", "fred", body={"password": "second", "tags": "administrator"})
    expect(page.get_by_label("Password")).to_be_visible(timeout=20_000)
    log_in(HANDS[0](stranger), "fred", "second")
    expect(page.get_by_role("heading", name="Users", exact=True)).to_be_visible()


def test_an_administrator_ends_the_logins_of_a_user(tab: Tab, stranger: Tab, api: Api):
    api.put("users", "gail", body={"password": "secret", "tags": "management"})
    stranger.page.goto("/#/queues")
    log_in(HANDS[0](stranger), "gail", "secret")
    expect(stranger.page.get_by_role("heading", name="Queues", exact=True)).to_be_visible()
    tab.open("users", "gail").settled()
    expect(tab.row("127.0.0.1")).to_be_visible()
    tab.button("End all logins").click()
    tab.button("End them").click()
    expect(tab.notice("The logins of gail have ended.")).to_be_visible()
    expect(stranger.page.get_by_label("Password")).to_be_visible()
    assert api.get("users", "gail", "sessions") == []


def test_the_pages_stand_below_a_path_of_a_proxy(stranger: Tab):
    page = stranger.page
    asked: list[str] = []

    def strip(route: Any) -> None:
        asked.append(urlsplit(route.request.url).path)
        route.continue_(url=route.request.url.replace("/mq/", "/", 1))

    page.route("**/*", strip)
    page.goto("/mq/#/queues")
    with page.expect_request("**/api/live*"):
        log_in(HANDS[0](stranger), "alice", "secret-alice")
    expect(stranger.row("parcels")).to_be_visible()
    page.get_by_text("Do the same elsewhere").click()
    expect(page.locator(".same")).to_contain_text("/mq/api/queues")
    page.get_by_role("link", name="parcels").click()
    expect(page.locator("h1")).to_contain_text("parcels")
    assert [path for path in asked if not path.startswith("/mq/")] == []
    assert "/mq/api/session" in asked


def test_a_hidden_tab_asks_nothing(stranger: Tab):
    page = stranger.page
    login = {"username": "alice", "password": "secret-alice"}
    answer = page.context.request.post("/api/session", headers={"X-Leporid-Page": "1"}, data=login)
    assert answer.ok
    page.clock.install()
    stranger.open("queues").settled()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_request("**/api/queues*"):
        page.clock.fast_forward(10_000)
    page.evaluate(HIDDEN, True)
    page.evaluate(FETCHED)  # requests of the moment before are known by then
    asked.clear()
    page.clock.fast_forward(LONG_MS)
    page.evaluate(FETCHED)
    assert [url for url in asked if "/api/" in url] == []
    with page.expect_request("**/api/queues*"):
        page.evaluate(HIDDEN, False)
