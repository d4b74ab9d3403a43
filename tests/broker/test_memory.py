"""What definitions and consumers are charged, and when they are refused."""

from __future__ import annotations

import pytest
from tests.broker.at_once import drop_vhost
from tests.broker.definitions.given import queue, run
from tests.broker.peer import SECRET, Peer, World
from tests.broker.recording import Recording

from leporid.amqp.methods import (
    BasicCancel,
    BasicConsume,
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDelete,
)
from leporid.amqp.tables import Value
from leporid.broker.access.access import User
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import EVERYTHING
from leporid.broker.events.actor import acting
from leporid.broker.memory import BINDING_BYTES, QUEUE_BYTES, table_bytes
from leporid.broker.registry import finished

WATERMARK = 4_000_000
BIG: dict[str, Value] = {f"key {at}": "x" * 1000 for at in range(100)}


SHARE = WATERMARK // 2


# What events call the broker; an administrator, or an issuer of tokens, may name a user so.
NAMED_AS_BROKER = "rmq-internal"


@pytest.fixture
def world() -> World:
    users = (
        User(name, salted_sha256(name, SECRET), permissions={"/": EVERYTHING})
        for name in ("ann", NAMED_AS_BROKER)
    )
    return World(*users, memory_bytes_max=WATERMARK)


def ann_in(world: World) -> Peer:
    return world.peer(user="ann", password="ann")


def flood(world: World, user: str = "guest") -> str:
    """Declare exchanges until one is refused; returns why."""
    peer = world.peer(user=user, password=user)
    for at in range(1000):
        method = ExchangeDeclare(exchange=f"{user}{at}", type="direct", arguments=BIG)
        answer = peer.call(method)
        if answer != ExchangeDeclareOk():
            assert isinstance(answer, ChannelClose)
            return answer.reply_text
    raise AssertionError("nothing was refused")


def defined(world: World) -> dict[str, int]:
    return {name: size for name, _, size in world.broker.memory.by_user() if size}


@pytest.mark.parametrize("user", ["guest", NAMED_AS_BROKER])
def test_one_user_defines_four_fifths_of_what_all_may(world: World, user: str) -> None:
    text = flood(world, user)
    assert text.startswith(f"PRECONDITION_FAILED - cannot make exchange '{user}")
    assert "what the user has defined keeps" in text
    assert SHARE * 3 / 4 < world.broker.memory.definitions.bytes < SHARE * 4 / 5
    assert world.broker.refusals.by_kind["memory_definitions"] == 1
    other = world.peer(user=user, password=user)
    assert "the user has defined" in other.refused(QueueDeclare(queue="q", arguments=BIG))


def test_whoever_comes_later_finds_room(world: World) -> None:
    flood(world)
    ann = ann_in(world)
    ann.call(QueueDeclare(queue="q", arguments=BIG))
    ann.call(QueueBind(queue="q", exchange="amq.topic", routing_key="k"))
    assert set(defined(world)) == {"guest", "ann"}


def test_all_users_together_fill_their_share_and_no_more(world: World) -> None:
    flood(world)
    definitions = world.broker.memory.definitions
    definitions.add(SHARE - definitions.bytes - 1000)
    refused = ann_in(world).refused(QueueDeclare(queue="q"))
    assert f"definitions keeps {definitions.bytes} bytes, and may keep {SHARE}" in refused


def test_each_user_is_charged_for_what_it_made_until_that_goes(world: World) -> None:
    guest, ann = world.peer(), ann_in(world)
    guest.call(ExchangeDeclare(exchange="x", type="topic"))
    guest.call(QueueDeclare(queue="q"))
    before = defined(world)
    ann.call(QueueBind(queue="q", exchange="x", routing_key="k"))
    assert defined(world) == before | {"ann": BINDING_BYTES + 1}
    guest.call(QueueBind(queue="q", exchange="x", routing_key="k"))  # changes nothing
    assert defined(world) == before | {"ann": BINDING_BYTES + 1}
    guest.call(ExchangeDelete(exchange="x"))
    guest.call(QueueDelete(queue="q"))
    assert defined(world) == {}


def test_nobody_is_charged_for_what_went_with_a_connection_or_a_virtual_host(world: World) -> None:
    guest, ann = world.peer(), ann_in(world)
    ann.call(QueueDeclare(queue="own", exclusive=True))
    guest.call(ExchangeDeclare(exchange="x", type="topic"))
    guest.call(QueueDeclare(queue="q"))
    for peer in (guest, ann):
        peer.call(QueueBind(queue="q", exchange="x", routing_key=peer.session.user.name))
    ann.call(QueueBind(queue="own", exchange="x", routing_key="k"))
    ann.say(ConnectionClose(reply_code=200), 0)
    assert defined(world)["ann"] == BINDING_BYTES + len("ann")
    drop_vhost(world.broker, "/")
    assert defined(world) == {}


def test_what_is_imported_is_charged_to_who_imports(world: World) -> None:
    with acting("ann"):
        run(world, queues=[queue("q")])
    assert defined(world) == {"ann": QUEUE_BYTES + 1}


def test_what_a_restart_finds_is_nobodys(world: World) -> None:
    world.peer().call(QueueDeclare(queue="q", durable=True))
    again = World(memory_bytes_max=WATERMARK)
    again.broker.restore(Recording(["/"]).snapshot())
    empty = again.broker.memory.definitions.bytes
    again = World(memory_bytes_max=WATERMARK)
    again.broker.restore(Recording(["/"], world.changes).snapshot())
    assert again.broker.memory.definitions.bytes == empty + QUEUE_BYTES + 1
    assert defined(again) == {}


def test_what_goes_makes_room(world: World) -> None:
    flood(world)
    before = world.broker.memory.definitions.bytes
    peer = world.peer()
    peer.call(ExchangeDelete(exchange="guest0"))
    assert world.broker.memory.definitions.bytes < before - table_bytes(BIG)
    peer.call(ExchangeDeclare(exchange="guest_", type="direct", arguments=BIG))
    assert world.broker.memory.definitions.bytes == before


def test_all_that_is_declared_is_charged_until_it_goes(world: World) -> None:
    peer = world.peer()
    empty = world.broker.memory.definitions.bytes
    peer.call(QueueDeclare(queue="q", arguments={"x-max-length": 5}))
    peer.call(ExchangeDeclare(exchange="x", type="fanout"))
    kept = world.broker.memory.definitions.bytes
    assert peer.call(QueueBind(queue="q", exchange="x", routing_key="k")) == QueueBindOk()
    assert world.broker.memory.definitions.bytes > kept > empty
    peer.call(QueueBind(queue="q", exchange="x", routing_key="k"))  # changes nothing
    peer.call(QueueDelete(queue="q"))
    peer.call(ExchangeDelete(exchange="x"))
    assert world.broker.memory.definitions.bytes == empty


def test_above_the_watermark_nothing_is_declared_and_all_may_go(world: World) -> None:
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    world.broker.set_alarm("memory", True)
    assert "memory_watermark" in peer.refused(QueueDeclare(queue="r"))
    peer = world.peer()
    peer.call(BasicConsume(queue="q", consumer_tag="c"))
    assert peer.say(QueueDelete(queue="q"))
    world.broker.set_alarm("memory", False)
    peer.call(QueueDeclare(queue="r"))


def test_priorities_are_charged(world: World) -> None:
    peer = world.peer()
    definitions = world.broker.memory.definitions
    before = definitions.bytes
    peer.call(QueueDeclare(queue="q", arguments={"x-max-priority": 1}))
    few = definitions.bytes - before
    peer.call(QueueDeclare(queue="r", arguments={"x-max-priority": 255}))
    assert definitions.bytes - before - few > few + 12_000
    peer.call(QueueDelete(queue="r"))
    assert definitions.bytes - before == few


def test_consumers_are_charged_to_their_connection(world: World) -> None:
    peer = world.peer()
    account = peer.session.account
    user = world.broker.memory.user("guest")
    peer.call(QueueDeclare(queue="q"))
    before = account.bytes
    peer.call(BasicConsume(queue="q", consumer_tag="c"))
    assert account.bytes > before
    assert user.bytes == account.bytes
    text = ""
    peer.call(ChannelOpen(), 2)
    for at in range(2000):
        method = BasicConsume(queue="q", consumer_tag=f"d{at}", arguments=BIG)
        answer = peer.call(method, 2)
        if isinstance(answer, ChannelClose):
            text = answer.reply_text
            break
    assert "the connection keeps" in text
    assert f"may keep {WATERMARK // 4}" in text
    assert account.bytes < before + 10_000  # the channel's consumers went with it
    peer.call(ConnectionClose(200, "bye"), 0)
    assert (account.bytes, user.bytes) == (0, 0)


def test_small_values_take_many_times_their_size() -> None:
    assert table_bytes({"k": [None] * 1000}) > 50_000
    assert table_bytes({"k": {"l": b"x" * 5000}}) > 5000


@pytest.mark.parametrize(
    ("arguments", "measured_bytes"),
    [
        ({}, 659),
        ({"x-filter-sql": "a = 'v10000' AND b > 5"}, 5710),
        ({"x-filter-sql": "a LIKE '%v10000'"}, 5396),
        ({"x-filter-sql": " OR ".join(f"h{at} LIKE '%v10000'" for at in range(20))}, 9370),
        ({"x-filter-sql": " OR ".join(f"a{at}=1000" for at in range(30))}, 17_801),
        ({"x-filter-sql": "a IN (" + ",".join(f"'1000x{at}'" for at in range(30)) + ")"}, 11_757),
        ({"x-filter-tags": " || ".join(f"1000x{at}" for at in range(100))}, 36_972),
    ],
)
def test_a_consumer_is_charged_what_it_takes(
    world: World, arguments: dict[str, Value], measured_bytes: int
) -> None:
    """As a broker's resident memory grew by each of some thousand of them."""
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    before = world.broker.memory.total.bytes
    peer.call(BasicConsume(queue="q", consumer_tag="c", arguments=arguments))
    charged = world.broker.memory.total.bytes - before
    assert measured_bytes <= charged < 4 * measured_bytes
    peer.call(BasicCancel(consumer_tag="c"))
    assert world.broker.memory.total.bytes == before


def test_a_binding_is_charged_for_its_filter(world: World) -> None:
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    before = world.broker.memory.definitions.bytes
    arguments: dict[str, Value] = {"x-filter-sql": "a = 'v10000' AND b > 5"}
    method = QueueBind(queue="q", exchange="amq.fanout", arguments=arguments)
    assert peer.call(method) == QueueBindOk()
    assert world.broker.memory.definitions.bytes - before >= 5474  # as measured


def test_another_watermark_holds_for_accounts_that_are_there(world: World) -> None:
    peer = world.peer()
    assert peer.session.account.limit == WATERMARK // 4
    finished(world.broker.setting_memory_bytes_max(WATERMARK * 2))
    user = world.broker.memory.user(peer.session.user.name)
    found = (peer.session.account.limit, user.limit, world.broker.memory.total.limit)
    assert found == (WATERMARK // 2, WATERMARK, WATERMARK * 2)
    assert world.peer().session.account.limit == WATERMARK // 2
    flood(world)
    assert SHARE < world.broker.memory.definitions.bytes < SHARE * 2
