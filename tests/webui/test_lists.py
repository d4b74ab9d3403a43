"""Lists of the web UI: order, filter and page stand in the address, and survive a reload."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pika
import pytest
from tests.webui.browsing import Hands, Tab
from tests.webui.example import Api

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = sync_api.expect
pytestmark = pytest.mark.slow

# A column that each list can be sorted by, and a name that there is.
LISTS = (
    ("users", "User", "carl"),
    ("vhosts", "Virtual host", "shop"),
    ("policies", "Name", "short"),
    ("queues", "Name", "orders"),
    ("exchanges", "Name", "departures"),
    ("parameters", "Name", "motd"),
    ("pipelines", "Reader", "archive"),
)

FIRST_CELLS = "main tbody tr td:first-child"


def names(tab: Tab) -> list[str]:
    return tab.page.locator(FIRST_CELLS).all_inner_texts()


@pytest.mark.parametrize(("page", "column", "wanted"), LISTS, ids=[each[0] for each in LISTS])
def test_a_list_is_sorted_and_filtered_by_its_address(
    tab: Tab, page: str, column: str, wanted: str
):
    tab.open(page).settled()
    head = tab.page.get_by_role("columnheader", name=column)
    with tab.page.expect_response(re.compile("sort=")):
        head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", re.compile("ascending|descending"))
    tab.page.wait_for_url(re.compile("sort="))
    once = names(tab.settled())
    head.get_by_role("button").click()
    expect(tab.page.locator(FIRST_CELLS)).to_have_text(once[::-1], use_inner_text=True)
    tab.page.get_by_role("searchbox", name="Filter by name").fill(wanted)
    tab.page.wait_for_url(re.compile(f"name={wanted}"))
    expect(tab.row(wanted).first).to_be_visible()
    tab.page.reload()
    expect(tab.page.get_by_role("searchbox", name="Filter by name")).to_have_value(wanted)
    expect(tab.row(wanted).first).to_be_visible()
    tab.page.get_by_role("searchbox", name="Filter by name").fill("there is no such name")
    expect(tab.page.locator("main")).to_contain_text("Nothing matches.")


def test_a_list_is_narrowed_by_what_its_objects_are(tab: Tab, hands: Hands):
    tab.open("queues", vhost="/").settled()
    hands.choose(tab.page.get_by_role("combobox", name="Type"), "Type: quorum")
    tab.page.wait_for_url(re.compile("type=quorum"))
    expect(tab.page.locator(FIRST_CELLS)).to_have_text(["parcels"])
    hands.choose(tab.page.get_by_role("combobox", name="Messages"), "Messages: some ready")
    expect(tab.page.locator("main")).to_contain_text("Nothing matches.")
    expect(tab.page.locator(".list-count")).to_contain_text("0 of ")
    # What the address says, the list shows; what it does not know, it leaves out.
    tab.go("queues", vhost="/", type="classic", state="broken", consumers="0")
    expect(tab.page.get_by_role("link", name="letters", exact=True)).to_be_visible()
    expect(tab.row("parcels")).to_have_count(0)
    expect(tab.page.get_by_role("combobox", name="State")).to_have_value("")
    for page, query, shown, hidden in (
        ("exchanges", {"type": "topic"}, "departures", "amq.fanout"),
        ("policies", {"apply-to": "all"}, "short", "bounded"),
        ("pipelines", {"with": "lag"}, "archive", "nobody"),
    ):
        tab.go(page, vhost="/", **query)
        expect(tab.row(shown).first).to_be_visible()
        expect(tab.row(hidden)).to_have_count(0)


def test_back_and_forward_go_through_pages_and_orders(tab: Tab, hands: Hands):
    tab.open("users").settled()
    hands.press(tab.page.get_by_role("columnheader", name="User").get_by_role("button"))
    tab.page.wait_for_url(re.compile("sort=name"))
    hands.press(tab.page.get_by_role("link", name="carl", exact=True))
    expect(tab.page.get_by_role("heading", name="User carl")).to_be_visible()
    tab.page.go_back()
    expect(tab.page.get_by_role("heading", name="Users", exact=True)).to_be_visible()
    assert "sort=name" in tab.page.url
    tab.page.go_back()
    tab.page.wait_for_url(re.compile("#/users$"))
    tab.page.go_forward()
    tab.page.go_forward()
    expect(tab.page.get_by_role("heading", name="User carl")).to_be_visible()


def test_a_long_list_is_paged_by_the_broker(tab: Tab, hands: Hands, api: Api):
    vhost = f"many-{type(hands).__name__}"
    api.put("vhosts", vhost)
    queues = [
        {"name": f"q{number:03}", "durable": True, "auto_delete": False} for number in range(130)
    ]
    api.post("definitions", vhost, body={"queues": queues})
    tab.open("queues", vhost=vhost, sort="name").settled()
    expect(tab.page.locator(".pages-at")).to_have_text("1–100 of 130")
    hands.press(tab.button("Next page"))
    expect(tab.page.locator(".pages-at")).to_have_text("101–130 of 130")
    assert "page=2" in tab.page.url
    expect(tab.row("q129")).to_be_visible()
    tab.page.get_by_role("searchbox", name="Filter by name").fill("q00")
    expect(tab.page.locator(".list-count")).to_have_text("10 of 130")


def test_groups_of_a_stream_are_listed_and_one_is_looked_at(
    tab: Tab, hands: Hands, broker: Any, api: Api
):
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, heartbeat=0)
    name = f"fleet-{type(hands).__name__}"
    with pika.BlockingConnection(parameters) as client:
        channel = client.channel()
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(
            "flights", lambda *_: None, consumer_tag="truck", arguments={"x-group": name}
        )
        tab.open("streams", "/", "flights", show="readers").settled()
        hands.press(tab.button(f"Look at group {name}"))
        table = tab.page.get_by_role("region", name=f"Partitions of group {name}")
        expect(table).to_contain_text("truck")
        assert f"group={name}" in tab.page.url
        tab.go("streams", "/", "flights", show="readers", **{"groups-name": "no such group"})
        expect(tab.page.get_by_role("button", name=re.compile("^Look at group"))).to_have_count(0)
        assert [each["group"] for each in api.get("groups", "/")].count(name) == 1


@pytest.mark.parametrize(
    ("place", "query", "table", "column"),
    [
        ("feature-flags", {}, "Feature flags", "Feature flag"),
        ("topology", {"vhost": "/"}, "Bindings, dead-letter and alternate exchanges", "From"),
    ],
    ids=["flags", "topology"],
)
def test_the_order_of_a_short_table_stands_in_the_address(
    tab: Tab, place: str, query: dict[str, str], table: str, column: str
):
    tab.open(place, **query).settled()
    if place == "topology":
        tab.page.get_by_role("tab", name="List").click()
    box = tab.page.get_by_role("region", name=table)
    head = box.get_by_role("columnheader", name=column)
    head.get_by_role("button").click()
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    rows = box.locator("tbody tr td:first-child")
    shown = rows.all_inner_texts()
    assert re.search("sort=.*reverse=1", tab.page.url)
    assert shown == sorted(shown, reverse=True)
    assert len(set(shown)) > 1
    tab.page.reload()
    tab.settled()
    if place == "topology":
        tab.page.get_by_role("tab", name="List").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    assert rows.all_inner_texts() == shown


def test_consumers_of_a_channel_are_paged_by_the_broker(tab: Tab, broker: Any, api: Api):
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, heartbeat=0)
    with pika.BlockingConnection(parameters) as client:
        channel = client.channel()
        for number in range(110):
            channel.basic_consume("letters", lambda *_: None, consumer_tag=f"c{number:03}")
        with client.channel().connection.channel() as other:
            other.basic_consume("letters", lambda *_: None, consumer_tag="other")
            (found,) = (each for each in api.get("channels") if each["consumer_count"] == 110)
            tab.open("channels", found["name"], sort="consumer_tag").settled()
            expect(tab.page.locator(".pages-at")).to_have_text("1–100 of 110")
            tab.button("Next page").click()
            expect(tab.row("c109")).to_be_visible()
            expect(tab.row("other")).to_have_count(0)


def test_dead_letters_are_sorted_and_filtered_by_the_address(tab: Tab):
    tab.open("dead-letters", vhost="/", **{"deaths-reason": "rejected"}).settled()
    expect(tab.row("orders")).to_have_count(1)
    tab.page.get_by_role("columnheader", name="Died in").get_by_role("button").click()
    tab.page.wait_for_url(re.compile("deaths-sort=queue"))
    tab.page.get_by_role("combobox", name="Reason").first.select_option(label="Reason: expired")
    expect(tab.page.locator("main")).to_contain_text("Nothing matches.")


CHARTED: Sequence[tuple[tuple[str, ...], dict[str, str]]] = (
    ((), {}),
    (("exchanges", "/", "departures"), {}),
    (("queues", "/", "orders"), {}),
    (("vhosts", "shop"), {}),
    (("streams", "/", "flights"), {"show": "rates"}),
    (("streams", "/", "flights"), {"show": "readers"}),
    (("dead-letters",), {"vhost": "/"}),
    (("dead-letters",), {"vhost": "/", "chart": "orders"}),
)


@pytest.mark.parametrize(
    ("place", "query"),
    CHARTED,
    ids=["-".join([*place, *query.values()]).replace("/", "root") for place, query in CHARTED],
)
def test_the_range_of_charts_stands_in_the_address(
    tab: Tab, place: tuple[str, ...], query: dict[str, str]
):
    tab.open(*place, **query)
    ranges = tab.page.locator("main figure.chart .switch")
    ranges.first.get_by_role("button", name="Hour").click()
    tab.page.wait_for_url(re.compile("range=hour"))
    tab.page.reload()
    expect(ranges.first).to_be_visible()
    chosen = ranges.locator("[aria-pressed=true]")
    expect(chosen.first).to_have_text("Hour")
    assert set(chosen.all_inner_texts()) == {"Hour"}
    ranges.first.get_by_role("button", name="Minute").click()
    tab.page.wait_for_url(lambda url: "range=" not in url)
