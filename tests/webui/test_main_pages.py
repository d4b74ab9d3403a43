"""Queues, exchanges, connections, streams and delays in the web UI: the main act of each page.

By mouse and by keyboard alone, as those of administration (`test_admin_pages`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pika
import pytest
from tests.webui.browsing import ByKeyboard, Hands, Tab
from tests.webui.example import Api

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = sync_api.expect
pytestmark = pytest.mark.slow


def name_for(hands: Hands, begin: str) -> str:
    """A name of its own for each way to act, as both use one broker."""
    return f"{begin}-{type(hands).__name__.lower()}"


def queue_with(api: Api, name: str, count: int, **arguments: Any) -> str:
    """Make a queue with messages `n: 0` to `n: count - 1`."""
    api.put("queues", "/", name, body={"durable": True, "arguments": arguments})
    for number in range(count):
        api.publish("/", "amq.default", name, f'{{"n": {number}}}', headers={"n": number})
    return name


def publish_to(api: Api, name: str, first: int, count: int) -> None:
    for number in range(first, first + count):
        api.publish("/", "amq.default", name, f'{{"n": {number}}}')


def stream_with(api: Api, name: str, count: int) -> str:
    """Make a stream with messages `{"n": 0}` to `{"n": count - 1}`."""
    api.put("queues", "/", name, body={"durable": True, "arguments": {"x-queue-type": "stream"}})
    publish_to(api, name, 0, count)
    return name


DAY_MS = 86_400_000
# What a field for a time holds, in the browser's zone.
LOCAL = """(ms) => {
  const zone = new Date(ms).getTimezoneOffset() * 60_000;
  return new Date(ms - zone).toISOString().slice(0, 19);
}"""


def typed_of(local: str) -> tuple[str, str]:
    """The keys for a time in the field of an American browser: month first, twelve hours."""
    at = datetime.fromisoformat(local)
    return at.strftime("%m%d%Y"), at.strftime("%I%M%S%p")


def test_the_overview_says_what_needs_attention_and_leads_on(tab: Tab, hands: Hands):
    tab.open().settled()
    rates = tab.page.get_by_role("figure", name="Message rates")
    expect(rates).to_be_visible()
    expect(rates).to_contain_text("Unroutable, dropped")
    expect(tab.page.locator("main")).to_contain_text("File descriptors")
    hands.press(tab.page.get_by_role("navigation").get_by_role("link", name="Queues"))
    expect(tab.page.get_by_role("heading", name="Queues", exact=True)).to_be_visible()


def test_a_chart_of_what_did_not_happen_says_so(tab: Tab):
    """Such as how long syncs took, of a broker that had nothing to sync."""
    samples = re.compile(r"/api/samples\?")
    times = [1_795_000_000_000 + 10_000 * number for number in range(5)]
    values = {"sync_ms": [None] * 5, "memory": [1, 2, 3, 4, 5]}
    answer = {"range": "hour", "every_s": 10, "times_ms": times, "values": values, "rates": {}}
    tab.page.route(samples, lambda route: route.fulfill(json=answer))
    try:
        tab.open(range="hour")
        syncs = tab.page.get_by_role("figure", name="Sync to disk")
        expect(syncs).to_contain_text("Nothing was measured in this time.")
        memory = tab.page.get_by_role("figure", name="Memory")
        expect(memory.locator(".chart-none")).to_have_count(0)
    finally:
        tab.page.unroute(samples)


def test_a_name_that_is_looked_for_leads_to_its_page(tab: Tab):
    tab.open()
    finder = tab.page.get_by_role("combobox", name="Go to a queue, stream or exchange")
    tab.page.keyboard.press("/")
    expect(finder).to_be_focused()
    tab.page.keyboard.type("parc")
    expect(tab.page.get_by_role("option").first).to_contain_text("parcels")
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("h1")).to_contain_text("parcels")


def test_a_queue_is_declared_published_to_looked_at_and_purged(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "made")
    tab.open("queues", vhost="/")
    hands.press(tab.button("Declare a queue").first)
    hands.type(tab.field("Name"), name)
    hands.press(tab.dialog.locator("button[type=submit]"))
    expect(tab.dialog).to_have_count(0)
    tab.open("queues", "/", name, tab="publish").settled()
    hands.type(tab.field("Body"), '{"price": 12}')
    hands.type(tab.field("Headers, as JSON"), '{"region": "eu"}')
    hands.press(tab.button("Publish"))
    expect(tab.notice("The message is in its queue.")).to_be_visible()
    tab.go("queues", "/", name, tab="look")
    hands.press(tab.page.get_by_role("button", name=re.compile("^Message ")).first)
    expect(tab.page.locator(".message")).to_contain_text("price")
    expect(tab.page.locator(".message")).to_contain_text("region")
    assert api.get("queues", "/", name)["messages_ready"] == 1
    hands.press(tab.button("Purge"))
    hands.type(tab.dialog.get_by_role("textbox"), name)
    hands.press(tab.button("Purge", within=tab.dialog))
    expect(tab.dialog).to_have_count(0)
    assert api.get("queues", "/", name)["messages"] == 0


def test_messages_are_searched_by_a_filter(tab: Tab, hands: Hands, api: Api):
    name = queue_with(api, name_for(hands, "sought"), 6)
    tab.open("queues", "/", name, tab="look").settled()
    hands.type(tab.field("Filter (SQL)"), "n >= 4")
    hands.press(tab.button("Look"))
    rows = tab.page.get_by_role("button", name=re.compile("^Message "))
    expect(rows).to_have_count(2)
    row = tab.page.locator(".messages tbody tr").first
    box, preview = row.bounding_box(), row.locator(".preview").bounding_box()
    assert box is not None
    assert preview is not None
    assert preview["height"] == pytest.approx(box["height"], abs=1)
    hands.type(tab.field("Filter (SQL)"), "n >= >= 4")
    hands.press(tab.button("Look"))
    expect(tab.page.get_by_role("alert").first).to_be_visible()


def test_a_queue_is_paused_and_resumed_and_deleted(tab: Tab, hands: Hands, api: Api):
    name = queue_with(api, name_for(hands, "paused"), 1)
    tab.open("queues", "/", name, tab="get").settled()
    hands.press(tab.button("Pause"))
    expect(tab.button("Resume")).to_be_visible()
    assert api.get("queues", "/", name)["state"] == "paused"
    hands.press(tab.page.locator("main form button[type=submit]").first)
    expect(tab.notice("The queue is paused: it gives no messages.")).to_be_visible()
    hands.press(tab.button("Resume"))
    expect(tab.button("Pause")).to_be_visible()
    hands.press(tab.button("Delete"))
    hands.type(tab.dialog.get_by_role("textbox"), name)
    hands.press(tab.button("Delete", within=tab.dialog))
    expect(tab.page.get_by_role("heading", name="Queues", exact=True)).to_be_visible()
    assert name not in [each["name"] for each in api.get("queues", "/")]


def test_messages_are_got_and_moved(tab: Tab, hands: Hands, api: Api):
    name = queue_with(api, name_for(hands, "from"), 3)
    other = queue_with(api, name_for(hands, "to"), 0)
    tab.open("queues", "/", name, tab="get").settled()
    hands.press(tab.page.locator("main form button[type=submit]").first)
    expect(tab.page.locator("main")).to_contain_text('"n"')
    tab.go("queues", "/", name, tab="move")
    hands.type(tab.field("Queue"), other)
    hands.press(tab.button("Move"))
    expect(tab.notice(re.compile("messages? moved"))).to_be_visible()
    left = api.get("queues", "/", name)["messages"]
    assert api.get("queues", "/", other)["messages"] + left == 3
    assert left == 0


def test_an_exchange_is_declared_bound_published_to_and_deleted(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "exchange")
    to = queue_with(api, name_for(hands, "bound-to"), 0)
    tab.open("exchanges", vhost="/")
    hands.press(tab.button("Declare an exchange").first)
    tab.field("Type").select_option("x-random")
    expect(tab.dialog.get_by_text("One binding, by chance")).to_be_visible()
    tab.field("Type").select_option("direct")
    hands.type(tab.field("Name"), name)
    hands.press(tab.dialog.locator("button[type=submit]"))
    expect(tab.dialog).to_have_count(0)
    tab.open("exchanges", "/", name, tab="bindings").settled()
    hands.type(tab.field("Name"), to)
    hands.type(tab.field("Routing key"), "k")
    hands.press(tab.button("Bind"))
    expect(tab.row(to).first).to_be_visible()
    expect(tab.page.locator(".list-count").first).to_have_text("1 in all")
    tab.go("exchanges", "/", name, tab="publish")
    hands.type(tab.field("Routing key"), "k")
    hands.type(tab.field("Body"), "hello")
    hands.press(tab.button("Publish"))
    expect(tab.notice("The message is in its queue.")).to_be_visible()
    assert api.get("queues", "/", to)["messages"] == 1
    hands.press(tab.button("Delete"))
    hands.type(tab.dialog.get_by_role("textbox"), name)
    hands.press(tab.button("Delete", within=tab.dialog))
    expect(tab.page.get_by_role("heading", name="Exchanges", exact=True)).to_be_visible()


def wait_until_closed(client: pika.BlockingConnection) -> None:
    while True:
        client.process_data_events(time_limit=1)


@pytest.fixture
def client(broker: Any) -> Iterator[pika.BlockingConnection]:
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, heartbeat=0)
    connection = pika.BlockingConnection(parameters)
    yield connection
    if connection.is_open:
        try:
            connection.close()
        except pika.exceptions.AMQPError:
            return  # the page has closed it


def test_a_connection_is_closed_with_a_reason(
    tab: Tab, hands: Hands, api: Api, client: pika.BlockingConnection
):
    channel = client.channel()
    channel.basic_consume("letters", lambda *_: None, consumer_tag="reading")
    tab.open("connections").settled()
    hands.press(tab.page.locator("main tbody a").first)
    hands.press(tab.button("Close the connection"))
    hands.type(tab.dialog.get_by_role("textbox"), "no longer needed")
    hands.press(tab.button("Close it"))
    expect(tab.page.get_by_role("heading", name="Connections", exact=True)).to_be_visible()
    with pytest.raises(pika.exceptions.ConnectionClosed, match="no longer needed"):
        wait_until_closed(client)


def test_a_connection_a_channel_and_a_virtual_host_have_charts(
    tab: Tab, api: Api, client: pika.BlockingConnection
):
    client.channel().basic_publish("", "letters", b"x")
    (connection,) = api.get("connections")
    name = connection["name"]
    for place, title, column in (
        (("connections", name), "Data", "From client"),
        (("channels", f"{name} (1)"), "Rates", "Published"),
        (("vhosts", "/"), "Messages", "Ready"),
    ):
        tab.open(*place).settled()
        ranges = tab.page.get_by_role("group", name=f"Range of {title}")
        ranges.get_by_role("button", name="Hour").click()
        tab.page.wait_for_url(re.compile("range=hour"))
        tab.button(f"{title} as a table").click()
        table = tab.page.get_by_role("region", name=f"{title}, values")
        expect(table.get_by_role("columnheader", name=column)).to_be_visible()
        expect(table.locator("tbody tr").first).to_be_visible()
    tab.go("vhosts")
    expect(tab.page.get_by_role("columnheader", name="Deliver")).to_be_visible()


def test_a_stream_is_read_from_an_offset(tab: Tab, hands: Hands):
    tab.open("streams", "/", "flights", tab="messages").settled()
    offset = tab.page.get_by_label("Offset", exact=True)
    hands.type(offset, "17")
    hands.press(tab.page.locator("form").filter(has=offset).get_by_role("button", name="Go"))
    tab.page.wait_for_url(re.compile("from=17"))
    expect(tab.row("17").first).to_be_visible()
    expect(tab.row("19").first).to_be_visible()
    expect(tab.page.get_by_role("cell", name="16", exact=True)).to_have_count(0)


def test_a_stream_is_read_from_a_time(tab: Tab, hands: Hands, api: Api):
    name = stream_with(api, name_for(hands, "timed"), 2)
    came = api.get("streams", "/", name, "browse")["messages"][0]["timestamp_ms"]
    tab.open("streams", "/", name).settled()
    field = tab.page.get_by_label("Time", exact=True)
    form = tab.page.locator("form").filter(has=field)
    for days, offset, shown in ((1, 2, "Nothing here"), (-1, 0, '{"n": 0}')):
        local = tab.page.evaluate(LOCAL, came + days * DAY_MS)
        if isinstance(hands, ByKeyboard):
            tab.focus(field)
            day, clock = typed_of(local)
            tab.page.keyboard.type(day)
            tab.page.keyboard.press("Tab")
            tab.page.keyboard.type(clock)
        else:
            field.fill(local)
        hands.press(tab.button("Go", within=form))
        tab.page.wait_for_url(re.compile(f"from={offset}"))
        expect(tab.page.locator("main")).to_contain_text(shown)
    hands.press(tab.button("Newest"))
    hands.press(tab.button("5 min ago"))
    expect(tab.row('{"n": 1}')).to_be_visible()


def test_a_stream_is_followed_live(tab: Tab, hands: Hands, api: Api):
    name = stream_with(api, name_for(hands, "followed"), 2)
    tab.open("streams", "/", name).settled()
    hands.press(tab.button("Live tail"))
    expect(tab.page.locator("main")).to_contain_text("Waiting for messages")
    publish_to(api, name, 2, 2)
    rows = tab.page.locator(".message-rows tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text('{"n": 3}')
    hands.press(tab.button("Stop"))
    publish_to(api, name, 4, 3)
    expect(tab.page.locator(".tail-bar")).to_contain_text("Stopped. 3 new")
    expect(rows).to_have_count(2)
    hands.press(tab.button("Go on"))
    expect(rows).to_have_count(5)
    hands.press(tab.button("Live"))
    expect(tab.row('{"n": 0}')).to_be_visible()


def test_a_stream_has_what_a_queue_has_and_is_not_purged(tab: Tab, hands: Hands, api: Api):
    name = stream_with(api, name_for(hands, "whole"), 1)
    tab.open("streams", "/", name, show="bindings").settled()
    hands.type(tab.field("From the exchange"), "departures")
    hands.press(tab.button("Bind"))
    expect(tab.row("departures")).to_be_visible()
    tab.go("streams", "/", name, show="publish")
    hands.type(tab.field("Body"), "one more")
    hands.press(tab.button("Publish"))
    expect(tab.notice("The message is in its queue.")).to_be_visible()
    tab.go("streams", "/", name, show="consumers")
    expect(tab.page.locator("main")).to_contain_text("No consumers")
    tab.go("streams", "/", name, show="settings")
    expect(tab.row("queue-type")).to_contain_text("stream")
    for absent in ("Purge", "Get messages", "Move"):
        expect(tab.button(absent)).to_have_count(0)
    hands.press(tab.button("Pause"))
    expect(tab.button("Resume")).to_be_visible()
    hands.press(tab.button("Delete"))
    hands.type(tab.dialog.get_by_role("textbox"), name)
    hands.press(tab.button("Delete", within=tab.dialog))
    expect(tab.page.get_by_role("heading", name="Streams", exact=True)).to_be_visible()
    assert name not in [each["name"] for each in api.get("queues", "/")]


def test_an_exchange_that_is_missing_is_told_where_it_is_named(tab: Tab, api: Api):
    queue_with(api, "to-nowhere", 0, **{"x-dead-letter-exchange": "nowhere"})
    tab.open("queues", "/", "to-nowhere").settled()
    expect(
        tab.notice("There is no exchange nowhere: dead letters for it are dropped.")
    ).to_be_visible()
    body = {"type": "fanout", "arguments": {"alternate-exchange": "nobody"}}
    api.put("exchanges", "/", "astray", body=body)
    tab.go("exchanges", "/", "astray")
    expect(tab.notice("There is no exchange nobody: unroutable messages")).to_be_visible()
    tab.go("queues", "/", "orders")
    expect(tab.notice("There is no exchange")).to_have_count(0)


def test_a_filter_is_tried_before_anything_is_bound(tab: Tab, hands: Hands, api: Api):
    name = queue_with(api, name_for(hands, "tried"), 10)
    tab.open("filters", vhost="/", queue=name).settled()
    hands.type(tab.field("Expression (SQL)"), "n > 6")
    result = tab.page.get_by_label("Result", exact=True)
    expect(result).to_contain_text("3")
    expect(result).to_contain_text("7")
    hands.type(tab.field("Expression (SQL)"), "n > >")
    expect(tab.page.locator("main")).to_contain_text(re.compile("character", re.IGNORECASE))
    assert api.get("queues", "/", name)["messages"] == 10


def test_a_delayed_message_is_cancelled(tab: Tab, hands: Hands, api: Api):
    identifier = name_for(hands, "later")
    headers = {"x-delay": 7200_000}
    api.publish("/", "reminders", "mail", "x", headers=headers, message_id=identifier)
    tab.open("delays", vhost="/", exchange="reminders").settled()
    hands.type(tab.field("Filter"), f"p.message_id = '{identifier}'")
    hands.press(tab.button("Apply"))
    tab.page.wait_for_url(re.compile("filter=p"))
    expect(tab.page.locator("main")).to_contain_text("1 message of this exchange match")
    row = tab.row(identifier)
    hands.press(row.get_by_role("button", name=re.compile("^Cancel")))
    hands.press(tab.button("Cancel the message"))
    expect(tab.row(identifier)).to_have_count(0)
    found = api.get("delays", "/", "reminders")["messages"]
    assert identifier not in [each.get("message_id") for each in found]


def test_dead_letters_are_sent_back_after_a_preview(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "died")
    grave = queue_with(api, name_for(hands, "grave"), 0)
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    queue_with(api, name, 2, **dead)
    body = {"count": 2, "ackmode": "reject_requeue_false", "encoding": "auto"}
    api.post("queues", "/", name, "get", body=body)
    tab.open("dead-letters", vhost="/", queue=grave).settled()
    hands.press(tab.button("Send all back…"))
    send = tab.dialog.get_by_role("button", name=re.compile("^Send 2"))
    expect(send).to_be_visible()
    assert api.get("queues", "/", grave)["messages"] == 2
    hands.press(send)
    expect(tab.dialog).to_contain_text("2 messages sent.")
    assert api.get("queues", "/", name)["messages"] == 2


def test_the_topology_is_walked_with_arrow_keys(tab: Tab):
    tab.open("topology", vhost="/").settled()
    # No edge is drawn over what stands at another.
    assert tab.page.evaluate(
        """() => {
          const drawn = [...document.querySelectorAll(".edges path, .edges text")];
          const names = drawn.map((each) => each.tagName);
          return names.includes("text") && names.lastIndexOf("path") < names.indexOf("text");
        }"""
    )
    node = tab.page.locator(".node").filter(has_text="departures")
    node.focus()
    tab.page.keyboard.press("ArrowRight")
    focused = tab.page.locator(".node:focus")
    expect(focused).to_have_count(1)
    expect(focused).to_contain_text(re.compile("orders|flights"))
    # Zoomed out until names would be dust, and back to where all of it is in sight.
    name = tab.page.locator(".node:focus .node-name")
    for _ in range(12):
        tab.page.keyboard.press("-")
    expect(name).to_be_hidden()
    tab.page.keyboard.press("0")
    expect(name).to_be_visible()
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("h1")).to_contain_text(re.compile("orders|flights"))
