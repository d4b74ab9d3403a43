"""Declarations that differ from what is there, as the setting `redeclare` has it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.broker.at_once import set_policy
from tests.broker.peer import Peer, World, user
from tests.broker.recording import Recording, puts

from leporid.amqp.methods import (
    BasicCancel,
    BasicConsume,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
)
from leporid.amqp.tables import Value, decode_table
from leporid.broker.policy.policies import make_policy
from leporid.broker.settings.redeclaring import Redeclare
from leporid.broker.stored import StoredExchange

TITLE = "queue 'q' in vhost '/'"
QUORUM = "the value 'quorum' of type 'longstr' but current is none"
DURABLE = "'false' but current is 'true'"
FOREVER = "; that cannot change in place"


def declaration(arguments: dict[str, Value] | None = None, **flags: Any) -> QueueDeclare:
    return QueueDeclare(queue="q", arguments=arguments or {}, **({"durable": True} | flags))


def exchange(arguments: dict[str, Value] | None = None, **flags: Any) -> ExchangeDeclare:
    changed: dict[str, Any] = {"exchange": "e", "type": "topic", "durable": True} | flags
    return ExchangeDeclare(arguments=arguments or {}, **changed)


def test_the_setting_is_of_a_virtual_host():
    world = World(redeclare="warn")
    for vhost in ("/", "other"):
        world.peer(vhost=vhost).call(declaration())
    changed = declaration({"x-max-length": 1})
    assert world.peer().call(changed) == QueueDeclareOk("q", 0, 0)
    assert world.peer(vhost="other").refused(changed).startswith("PRECONDITION_FAILED - ineq")


# ---------------------------------------------------------------------- warn


def test_warned_of_and_left_as_it_is(caplog: pytest.LogCaptureFixture):
    world = World(redeclare="warn")
    peer = world.peer()
    peer.call(declaration({"x-max-length": 5, "x-max-priority": 2}))
    limits, world.changes[:] = dict(world.queue("q").limits), []
    with caplog.at_level(logging.WARNING):
        answer = peer.call(declaration({"x-max-length": 6}, auto_delete=True))
    assert answer == QueueDeclareOk("q", 0, 0)
    assert (world.queue("q").limits, world.changes) == (limits, [])
    [record] = caplog.records
    assert record.message == (
        f"test declares {TITLE} otherwise, and gets what is there: "
        "auto_delete: received 'true' but current is 'false'; "
        "x-max-length: received '6' but current is '5'; "
        "x-max-priority: received none but current is the value '2' of type 'long'"
    )
    peer.call(declaration({"x-max-length": 5, "x-max-priority": 2}))
    assert len(caplog.records) == 1


# ---------------------------------------------------------------------- adopt


def test_adopted_at_once_and_recorded():
    world = World(redeclare="adopt")
    peer = world.peer()
    peer.call(declaration({"x-max-length": 5, "x-message-ttl": 3, "x-unknown": 1}))
    queue = world.broker.vhosts["/"].queue("q")
    arguments: dict[str, Value] = {
        "x-max-length": 6,
        "x-dead-letter-exchange": "amq.fanout",
        "x-expires": 100,
        "x-overflow": "reject-publish",
    }
    assert peer.call(declaration(arguments)) == QueueDeclareOk("q", 0, 0)
    assert world.queue("q").limits == {
        "max_length": 6,
        "max_bytes": None,
        "overflow": "reject-publish",
        "ttl_ms": None,
    }
    assert queue.engine.dead_letters is not None
    recording = Recording(["/", "other"], world.changes)
    again = World()
    again.broker.restore(recording.snapshot())
    restored = again.broker.vhosts["/"].queue("q")
    assert (restored.id, restored.arguments) == (queue.id, arguments)
    world.broker.unused.run(0)
    world.broker.unused.run(100)
    assert world.broker.vhosts["/"].find_queue("q") is None


def test_the_log_says_all_that_is_adopted(caplog: pytest.LogCaptureFixture):
    world = World(redeclare="adopt")
    peer = world.peer()
    long = "e" * 200
    peer.call(declaration({"x-dead-letter-exchange": long, "x-message-ttl": 3, "other": 1}))
    with caplog.at_level(logging.INFO):
        peer.call(declaration(auto_delete=True))
        peer.call(exchange())
        peer.call(exchange({"alternate-exchange": "x"}, auto_delete=True))
    cut = f"the value '{long}"[:100]
    assert [record.message for record in caplog.records] == [
        (
            f"test declares {TITLE} otherwise, which is adopted: "
            "auto_delete: received 'true' but current is 'false'; "
            "x-message-ttl: received none but current is the value '3' of type 'long'; "
            f"x-dead-letter-exchange: received none but current is {cut}…"
        ),
        (
            "test declares exchange 'e' in vhost '/' otherwise, which is adopted: "
            "auto_delete: received 'true' but current is 'false'; "
            "alternate-exchange: received the value 'x' of type 'longstr' but current is none"
        ),
    ]
    assert world.broker.vhosts["/"].queue("q").arguments == {}


def test_auto_delete_is_adopted():
    world = World(redeclare="adopt")
    peer = world.peer()
    peer.call(declaration())
    peer.call(declaration(auto_delete=True))
    peer.call(BasicConsume(queue="q", consumer_tag="t"))
    peer.call(BasicCancel(consumer_tag="t"))
    assert world.broker.vhosts["/"].find_queue("q") is None


def test_a_stream_adopts_how_much_it_keeps():
    world = World(redeclare="adopt")
    stream: dict[str, Value] = {"x-queue-type": "stream"}
    world.peer().call(declaration(stream))
    world.peer().call(declaration(stream | {"x-max-length-bytes": 9}))
    assert world.stream("q").retention["max_bytes"] == 9


def test_what_is_adopted_counts_together_with_the_policies():
    world = World(redeclare="adopt")
    vhost = world.broker.vhosts["/"]
    set_policy(vhost, make_policy("p", "", {"max-length": 3}))
    peer = world.peer()
    peer.call(declaration({"x-max-length": 5}))
    assert vhost.queue("q").effective("max-length") == 3
    peer.call(declaration({"x-max-length": 2}))
    assert world.queue("q").limits["max_length"] == 2


# ---------------------------------------------------------------------- what stays refused


@pytest.mark.parametrize("mode", ["warn", "adopt"])
@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            declaration(durable=False),
            f"inequivalent arg 'durable' for {TITLE}: received {DURABLE}{FOREVER}",
        ),
        (
            declaration({"x-queue-type": "quorum"}),
            f"inequivalent arg 'x-queue-type' for {TITLE}: received {QUORUM}{FOREVER}",
        ),
        (
            declaration({"x-max-length": "much"}),
            f"invalid arg 'x-max-length' for {TITLE}: " + '"expected integer, got longstr"',
        ),
    ],
)
def test_refused_in_any_case(mode: Redeclare, changed: QueueDeclare, text: str):
    world = World(redeclare=mode)
    world.peer().call(declaration())
    world.changes.clear()
    assert world.peer().refused(changed) == f"PRECONDITION_FAILED - {text}"
    assert world.changes == []


@pytest.mark.parametrize(
    "argument",
    [
        {"x-max-priority": 2},
        {"x-single-active-consumer": True},
        {"x-message-deduplication": True},
    ],
    ids=str,
)
def test_what_is_built_into_a_queue_is_not_adopted(argument: dict[str, Value]):
    world = World(redeclare="adopt")
    peer = world.peer()
    peer.call(declaration())
    assert peer.refused(declaration({**argument, "x-max-length": 1})).endswith(FOREVER)
    assert world.broker.vhosts["/"].queue("q").arguments == {}


@pytest.mark.parametrize("mode", ["warn", "adopt"])
def test_an_exclusive_queue_stays_its_connections(mode: Redeclare):
    world = World(redeclare=mode)
    owner = world.peer()
    owner.call(declaration(exclusive=True))
    locked = world.peer().refused(declaration({"x-max-length": 1}))
    assert locked.startswith("RESOURCE_LOCKED")
    owner.call(declaration({"x-max-length": 1}, exclusive=True))
    assert owner.refused(declaration({"x-max-length": 1})).startswith("RESOURCE_LOCKED")


def limited_peer(world: World) -> Peer:
    return world.peer(user="limited", password="limited")


def test_nobody_adopts_what_he_could_not_have_declared():
    limited = user("limited", ".*", "^allowed$", ".*")
    world = World(limited, redeclare="adopt")
    world.peer().call(declaration())
    refused = limited_peer(world).refused(declaration({"x-dead-letter-exchange": "x"}))
    assert refused.startswith("ACCESS_REFUSED - write access to exchange 'x' in vhost '/' refused")
    peer = limited_peer(world)
    assert peer.call(declaration({"x-dead-letter-exchange": "allowed"})) == QueueDeclareOk(
        "q", 0, 0
    )


# ---------------------------------------------------------------------- exchanges


def test_an_exchange_adopts_its_alternate():
    world = World(redeclare="adopt")
    peer = world.peer()
    peer.call(exchange())
    peer.call(declaration())
    peer.call(QueueBind(queue="q", exchange="amq.fanout"))
    assert peer.connection.publish(1, "e", "k") == 0
    changed = exchange({"alternate-exchange": "amq.fanout"}, auto_delete=True)
    assert peer.call(changed) == ExchangeDeclareOk()
    assert peer.connection.publish(1, "e", "k") == 1
    recording = Recording(["/"], world.changes)
    recorded = recording.of(StoredExchange)[-1]
    assert recorded.auto_delete is True
    assert b"amq.fanout" in recorded.arguments


def test_an_exchange_adopts_nothing_that_it_could_not_keep():
    world = World(redeclare="adopt")
    vhost, peer = world.broker.vhosts["/"], world.peer()
    hashing = {"type": "x-consistent-hash", "exchange": "e"}
    peer.call(exchange({"hash-header": "customer"}, **hashing))
    # Both are none of what declarations are compared by, and the second would be refused at first.
    wrong: dict[str, Value] = {"hash-header": 5, "hash-property": "nothing"}
    nothing: dict[str, Value] = {}
    for others in (nothing, wrong):
        peer.call(exchange({"alternate-exchange": "amq.fanout", **others}, **hashing))
        assert vhost.exchange("e").alternate == "amq.fanout"
        peer.call(exchange(others, **hashing))
        assert vhost.exchange("e").arguments == {"hash-header": "customer"}
    recorded = puts(world.changes, StoredExchange)
    # The last one takes nothing that a restart would make another exchange of.
    assert decode_table(recorded[-1].arguments)[0] == {"hash-header": "customer"}


def test_an_exchange_is_left_as_it_is(caplog: pytest.LogCaptureFixture):
    world = World(redeclare="warn")
    peer = world.peer()
    peer.call(exchange())
    with caplog.at_level(logging.WARNING):
        assert peer.call(exchange({"alternate-exchange": "x"})) == ExchangeDeclareOk()
    assert world.broker.vhosts["/"].exchange("e").alternate is None
    assert len(caplog.records) == 1


@pytest.mark.parametrize("mode", ["warn", "adopt"])
@pytest.mark.parametrize(
    "changed",
    [
        {"type": "direct"},
        {"durable": False},
        {"internal": True},
        {"arguments": {"x-strict-keys": True, "alternate-exchange": "x"}},
    ],
    ids=str,
)
def test_what_an_exchange_cannot_change(mode: Redeclare, changed: dict[str, Any]):
    world = World(redeclare=mode)
    world.peer().call(exchange())
    changed = {"arguments": {"alternate-exchange": "x"}} | changed
    assert world.peer().refused(exchange(**changed)).endswith(FOREVER)


def test_predeclared_exchanges_stay_as_they_are():
    world = World(redeclare="adopt")
    changed = exchange({"alternate-exchange": "x"}, exchange="amq.topic")
    assert world.peer().refused(changed).startswith("PRECONDITION_FAILED - inequivalent arg 'alt")
    assert world.changes == []
