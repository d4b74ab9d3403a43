"""The pages of metrics: what may be asked, and what they take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.server.client import PATIENCE_S
from tests.server.stack import Stack
from tests.server.test_metrics import counted, metrics, page_of

from leporid.limits.refusals import Refusals
from leporid.limits.shares import address_key
from leporid.management.admission import PROBE, SCRAPE, Admission
from leporid.server.counts import Count
from leporid.server.http import metrics_application
from leporid.server.metrics_pages import GIVEN_A_ROUND, MetricsPages, Scrapes

PER_OBJECT, DETAILED = "/metrics/per-object", "/metrics/detailed"


@pytest.fixture
def admission() -> Admission:
    return Admission(Refusals())


@pytest.fixture
async def client(stack: Stack, admission: Admission) -> AsyncIterator[httpx.AsyncClient]:
    pages = MetricsPages(Scrapes(metrics()), stack.broker, admission).routes()
    transport = httpx.ASGITransport(metrics_application(pages))
    async with httpx.AsyncClient(transport=transport, base_url="http://x", verify=False) as client:
        yield client


def names(text: str) -> set[str]:
    found = [family.name for family in text_string_to_metric_families(text)]
    assert len(found) == len(set(found)), "a metric stands on the page twice"
    return set(found)


async def test_totals(client: httpx.AsyncClient):
    answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "rabbitmq_queue_messages_ready 50.0\n" in answer.text


async def test_each_object_stands_instead_of_the_sum(stack: Stack, client: httpx.AsyncClient):
    peer = await stack.client()
    await peer.declare("q", auto_delete=False)
    answer = await client.get(PER_OBJECT)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'rabbitmq_queue_messages_ready{vhost="/",queue="q"} 0\n' in answer.text
    assert "rabbitmq_queue_messages_ready 50" not in answer.text
    assert "rabbitmq_queues 3.0\n" in answer.text
    assert 'rabbitmq_endpoint="per-object"' in answer.text
    totals = names((await client.get("/metrics")).text)
    assert totals <= names(answer.text)


async def test_families_are_asked_for(stack: Stack, client: httpx.AsyncClient):
    peer = await stack.client()
    await peer.declare("q", auto_delete=False)
    infos = {"rabbitmq_build_info", "rabbitmq_identity_info"}
    assert names((await client.get(DETAILED)).text) == infos
    assert names((await client.get(DETAILED + "?family=nonsense")).text) == infos
    asked = DETAILED + "?family=queue_coarse_metrics&family=queue_consumer_count"
    answer = await client.get(asked)
    assert names(answer.text) - infos == {
        "rabbitmq_detailed_queue_messages_ready",
        "rabbitmq_detailed_queue_messages_unacked",
        "rabbitmq_detailed_queue_messages",
        "rabbitmq_detailed_queue_consumers",
    }
    assert 'rabbitmq_detailed_queue_consumers{vhost="/",queue="q"} 0\n' in answer.text
    assert 'queue="q"' in (await client.get(asked + "&vhost=%2F&vhost=none")).text
    assert 'queue="q"' not in (await client.get(asked + "&vhost=none")).text


async def test_the_word_in_front_may_be_chosen(client: httpx.AsyncClient):
    for path in ("/metrics", PER_OBJECT):
        answer = await client.get(path + "?prefix=lavinmq")
        assert any(name.startswith("lavinmq_") for name in names(answer.text))
        assert not any(name.startswith("rabbitmq_") for name in names(answer.text))
        for bad in ("", "a b", "9", "x" * 33, "a%0A"):
            answer = await client.get(f"{path}?prefix={bad}")
            assert (answer.status_code, answer.json()["parameter"]) == (400, "prefix"), bad


async def test_a_page_of_objects_is_made_in_pieces(stack: Stack, client: httpx.AsyncClient):
    vhost = stack.broker.vhosts["/"]
    for number in range(2000):
        vhost.create_queue(f"q{number}", durable=False, auto_delete=False, arguments={}, owner=None)
    rounds = 0

    async def count_rounds() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_rounds())
    answer = await client.get(DETAILED + "?family=queue_coarse_metrics")
    counting.cancel()
    assert answer.text.count('queue="q') == 3 * 2000
    assert rounds > 3 * 2000 // 500


async def test_so_many_pages_of_objects_are_made_at_a_time(
    client: httpx.AsyncClient, admission: Admission
):
    share = admission.shares.scrapes
    slots = [share.take(address_key("127.0.0.1")) for _ in range(share.slots // 2)]
    for path in (PER_OBJECT, DETAILED):
        answer = await client.get(path)
        assert (answer.status_code, answer.json()["limit"]) == (429, "http_scrapes")
        assert answer.json()["value"] == share.slots
    others = [share.take(f"other {number}") for number in range(share.slots - len(slots))]
    answer = await client.get(PER_OBJECT)
    assert (answer.status_code, answer.json()["limit"]) == (503, "http_scrapes")
    assert (await client.get("/metrics")).status_code == 200, "the totals are always answered"
    for slot in (*slots, *others):
        slot.release()
    assert (await client.get(PER_OBJECT)).status_code == 200
    assert share.used == 0


def test_each_page_says_what_it_costs(stack: Stack, admission: Admission):
    routes = MetricsPages(Scrapes(metrics()), stack.broker, admission).routes()
    costs = {route.path: route.cost for route in routes}
    assert costs == {"/metrics": PROBE, PER_OBJECT: SCRAPE, DETAILED: SCRAPE}


async def test_who_asks_for_totals_in_one_round_gets_one_page():
    made: list[Count] = []

    def count() -> Count:
        made.append(counted(connections=len(made)))
        return made[-1]

    scrapes = Scrapes(metrics(count))
    pages = await asyncio.gather(*(scrapes.next() for _ in range(20)))
    assert len(made) == 1
    assert len(set(pages)) == 1
    assert b"rabbitmq_connections 0.0" in pages[0]
    assert b"rabbitmq_connections 1.0" in await scrapes.next()


async def test_who_asks_for_totals_again_and_again_leaves_time_for_others():
    made: list[Count] = []
    now = 0.0

    def count() -> Count:
        nonlocal now
        now += 0.02
        made.append(counted(connections=len(made)))
        return made[-1]

    scrapes = Scrapes(metrics(count), lambda: now)
    assert b"rabbitmq_connections 0.0" in await scrapes.next()
    asked = []
    for _ in range(5):
        asked.append(asyncio.ensure_future(scrapes.next()))
        await asyncio.sleep(0)
    pages = await asyncio.gather(*asked)
    assert len(made) == 2
    assert b"rabbitmq_connections 1.0" in pages[0]


async def test_others_are_served_while_totals_are_made():
    """All at once took 7 ms, and 28 ms on a slow machine."""
    made: list[Count] = []

    def count() -> Count:
        made.append(counted())
        return made[-1]

    page = asyncio.ensure_future(Scrapes(metrics(count)).next())
    while not made:
        await asyncio.sleep(0)
    rounds = 0
    while not page.done():
        await asyncio.sleep(0)
        rounds += 1
    assert rounds > 5
    assert page.result() == page_of(metrics())


async def test_who_asks_while_totals_are_made_gets_the_next_page():
    made: list[Count] = []

    def count() -> Count:
        made.append(counted(connections=len(made)))
        return made[-1]

    scrapes = Scrapes(metrics(count))
    first = asyncio.ensure_future(scrapes.next())
    while not made:
        await asyncio.sleep(0)
    assert not first.done()
    assert b"rabbitmq_connections 1.0" in await scrapes.next()
    assert b"rabbitmq_connections 0.0" in first.result()
    assert len(made) == 2


async def test_a_page_that_cannot_be_made_is_made_the_next_time():
    broken = [True]

    def count() -> Count:
        if broken:
            broken.pop()
            raise ZeroDivisionError
        return counted()

    scrapes = Scrapes(metrics(count))
    caught: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, facts: caught.append(facts))
    with pytest.raises(ZeroDivisionError):
        await scrapes.next()
    assert b"rabbitmq_connections 1.0" in await scrapes.next()
    assert len(caught) == 1


async def test_a_crowd_is_given_a_page_a_few_in_a_round():
    scrapes = Scrapes(metrics())
    loop = asyncio.get_running_loop()
    given = 0
    before: list[int] = []

    async def scrape() -> None:
        nonlocal given
        await scrapes.next()
        given += 1

    def begin_round() -> None:
        before.append(given)
        if given < 99:
            loop.call_soon(begin_round)

    begin_round()
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        crowd = [group.create_task(scrape()) for _ in range(100)]
        await asyncio.sleep(0)
        crowd[50].cancel()
    assert given == 99
    assert max(map(int.__sub__, before[1:], before)) <= GIVEN_A_ROUND
