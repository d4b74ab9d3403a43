"""Queues and exchanges follow policies at once: when they come, change and go."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.at_once import drop_policy, set_policy
from tests.broker.engine_fake import FakeQueue, as_engine, fake_of
from tests.broker.peer import World
from tests.broker.recording import Recording, puts

from leporid.amqp.errors import NotFound, PreconditionFailed
from leporid.amqp.methods import (
    BasicConsume,
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDeclare,
)
from leporid.amqp.tables import Value, encode_table
from leporid.broker.broker import Broker
from leporid.broker.policy.policies import POLICIES_MAX, Policy, make_policy
from leporid.broker.queue.dead_letters import DeadLetters
from leporid.broker.registry import finished
from leporid.broker.settings.values import Arguments
from leporid.broker.stored import StoredPolicy
from leporid.broker.vhost import VirtualHost
from leporid.durable import Drop, Put


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def vhost(world: World) -> VirtualHost:
    return world.broker.vhosts["/"]


def policy(definition: dict[str, Any], name: str = "p", pattern: str = "^q", **how: Any) -> Policy:
    return make_policy(name, pattern, definition, **how)


def limits_of(vhost: VirtualHost, arguments: Arguments | None = None) -> dict[str, object]:
    return fake_of(vhost.make_queue("q", arguments=arguments).engine, FakeQueue).limits


def test_a_queue_follows_from_the_policys_first_day_to_its_last(vhost: VirtualHost):
    limits = limits_of(vhost, {"x-max-length": 5})
    before = dict(limits)
    assert set_policy(vhost, policy({"max-length": 3, "message-ttl": 7, "overflow": "drop-head"}))
    assert limits == before | {"max_length": 3, "ttl_ms": 7}
    assert not set_policy(vhost, policy({"max-length-bytes": 9, "overflow": "reject-publish"}))
    assert limits == {
        "max_length": 5,
        "max_bytes": 9,
        "overflow": "reject-publish",
        "ttl_ms": None,
    }
    drop_policy(vhost, "p")
    assert limits == before | {"ttl_ms": None}


def test_a_queue_that_comes_later_has_it_from_the_start(vhost: VirtualHost):
    set_policy(vhost, policy({"message-ttl": 7}))
    set_policy(vhost, policy({"message-ttl": 3}, operator=True))
    assert limits_of(vhost) == {"ttl_ms": 3}
    assert vhost.queue("q").effective("message-ttl") == 3
    drop_policy(vhost, "p", operator=True)
    assert vhost.queue("q").effective("message-ttl") == 7


def test_what_comes_back_by_policy(vhost: VirtualHost):
    limits = limits_of(vhost)
    definition = {
        "delivery-limit": 4,
        "consumer-timeout": 500,
        "consumer-timeout-action": "requeue",
        "delayed-retry-type": "failed",
        "delayed-retry-min": 10,
        "delayed-retry-max": 20,
    }
    set_policy(vhost, policy(definition))
    assert limits == {
        "returns": (4, True),
        "timeout": (500, True),
        "retries": ("failed", 10, 20),
    }
    drop_policy(vhost, "p")
    assert limits == {
        "returns": (None, False),
        "timeout": (None, False),
        "retries": ("disabled", 0, 0),
    }


def test_dead_letters_by_policy(vhost: VirtualHost):
    queue = vhost.make_queue("q", arguments={"x-dead-letter-routing-key": "mine"})
    morgue = fake_of(vhost.make_queue("morgue").engine, FakeQueue)
    set_policy(vhost, policy({"dead-letter-exchange": "", "dead-letter-routing-key": "morgue"}))
    letters = queue.engine.dead_letters
    assert isinstance(letters, DeadLetters)
    finished(letters("expired", "", "q", b"\0\0", b"lost"))  # the argument's key leads nowhere
    assert morgue.ready == []
    set_policy(vhost, policy({"queue-mode": "lazy"}))
    assert queue.engine.dead_letters is None
    other = vhost.make_queue("q2")
    set_policy(vhost, policy({"dead-letter-exchange": "", "dead-letter-routing-key": "morgue"}))
    letters = other.engine.dead_letters
    assert isinstance(letters, DeadLetters)
    finished(letters("expired", "", "q2", b"\0\0", b"found"))
    assert morgue.ready == ["found"]


def test_a_stream_follows(world: World, vhost: VirtualHost):
    world.peer().call(
        QueueDeclare(
            queue="q",
            durable=True,
            arguments={"x-queue-type": "stream", "x-max-length-bytes": 9},
        )
    )
    set_policy(vhost, policy({"max-length-bytes": 99, "max-age": "1h"}))
    kept = {"max_bytes": 99, "max_age_ms": 3_600_000, "segment_bytes": None}
    assert world.stream("q").retention == kept
    drop_policy(vhost, "p")
    assert world.stream("q").retention["max_bytes"] == 9
    set_policy(vhost, policy({"max-length-bytes": 99, "message-ttl": 1}))
    assert world.stream("q").retention["max_bytes"] == 9


def test_what_is_not_governed_otherwise_is_not_touched(vhost: VirtualHost):
    limits = limits_of(vhost)
    limits["untouched"] = True
    set_policy(vhost, policy({"message-ttl": 1}, pattern="^other"))
    set_policy(vhost, policy({"queue-mode": "lazy"}, "mode"))
    assert limits == {"untouched": True}


def test_a_reply_queue_is_nobodys_to_govern(world: World, vhost: VirtualHost):
    set_policy(vhost, policy({"max-length": 0}, pattern=""))
    world.peer().call(BasicConsume(queue="amq.rabbitmq.reply-to", no_ack=True))
    assert world.engine.queues[-1].limits == {}
    set_policy(vhost, policy({"max-length": 1}, pattern=""))
    assert world.engine.queues[-1].limits == {}


def test_publishers_look_anew_when_a_queue_begins_to_refuse(world: World, vhost: VirtualHost):
    """The engine's routes know whether one of their queues refuses."""
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    peer.call(QueueBind(queue="q", exchange="amq.topic", routing_key="a.b"))
    forgotten: list[str] = []
    for name in ("", "amq.topic", "amq.direct"):
        source: Any = vhost.exchange(name).routes
        source.forget = lambda name=name: forgotten.append(name)
        source.forget_key = lambda key, name=name: forgotten.append(f"{name} {key}")
    set_policy(vhost, policy({"max-length": 1}))
    assert forgotten == []
    set_policy(vhost, policy({"max-length": 1, "overflow": "reject-publish"}))
    assert sorted(forgotten) == [" q", "amq.topic a.b"]
    set_policy(vhost, policy({"max-length": 1, "overflow": "reject-publish-dlx"}))
    assert len(forgotten) == 2
    drop_policy(vhost, "p")
    assert len(forgotten) == 4


# ---------------------------------------------------------------------- exchanges


def routed(world: World, exchange: str, key: str = "k") -> list[str]:
    """Publish; return the queues that have it."""
    before = {id(queue): queue.ready_count for queue in world.engine.queues}
    world.peer().connection.publish(1, exchange, key)
    return [each.name for each in world.engine.queues if each.ready_count > before[id(each)]]


def test_alternate_exchanges_by_policy(world: World, vhost: VirtualHost):
    peer = world.peer()
    for name in ("one", "two"):
        peer.call(ExchangeDeclare(exchange=name, type="fanout"))
        peer.call(QueueDeclare(queue=name))
        peer.call(QueueBind(queue=name, exchange=name))
    peer.call(ExchangeDeclare(exchange="e", type="direct"))
    own: dict[str, Value] = {"alternate-exchange": "two"}
    peer.call(ExchangeDeclare(exchange="own", type="direct", arguments=own))
    assert routed(world, "e") == routed(world, "amq.direct") == []
    set_policy(vhost, policy({"alternate-exchange": "one"}, pattern="^(e|own|amq.direct)$"))
    assert routed(world, "e") == routed(world, "amq.direct") == ["one"]
    assert routed(world, "own") == ["two"]
    set_policy(vhost, policy({"alternate-exchange": "two"}, pattern="^e$"))
    assert routed(world, "e") == ["two"]
    assert routed(world, "amq.direct") == []
    peer.call(ExchangeDelete(exchange="two"))
    assert routed(world, "e") == []
    peer.call(ExchangeDeclare(exchange="two", type="fanout"))
    peer.call(QueueBind(queue="two", exchange="two"))
    assert routed(world, "e") == ["two"]
    drop_policy(vhost, "p")
    assert routed(world, "e") == []
    peer.call(ExchangeDelete(exchange="e"))


def test_the_default_exchange_has_no_alternate(world: World, vhost: VirtualHost):
    vhost.make_queue("q")
    set_policy(vhost, policy({"alternate-exchange": "amq.fanout"}, pattern=""))
    assert routed(world, "", "q") == ["q"]
    assert routed(world, "", "nowhere") == []
    assert vhost.exchange("").alternate is None


# ---------------------------------------------------------------------- recording


def test_what_is_set_is_recorded_and_what_changes_nothing_is_not(world: World, vhost: VirtualHost):
    put = Put(StoredPolicy("/", False, "p", "^q", "queues", 3, encode_table({"max-length": 1})))
    for _ in range(2):
        set_policy(vhost, policy({"max-length": 1}, apply_to="queues", priority=3))
    drop_policy(vhost, "p")
    assert world.changes == [
        put,
        Drop(StoredPolicy, ("/", False, "p")),
    ]


def test_a_policy_is_back_before_what_it_governs(vhost: VirtualHost, world: World):
    set_policy(vhost, policy({"message-ttl": 7}, pattern=""))
    set_policy(vhost, policy({"max-length": 7}, pattern="", operator=True))
    set_policy(vhost, policy({"alternate-exchange": "x"}, "ae", "^amq.direct"))
    set_policy(vhost, policy({"max-length": 7}, "gone"))
    drop_policy(vhost, "gone")
    world.peer().call(QueueDeclare(queue="q", durable=True))
    recording = Recording(["/"], world.changes)
    # A definition that an older version took, and this one does not.
    recording.put(StoredPolicy("/", False, "old", "", "all", 0, encode_table({"foo": 1})))
    again = World()
    again.broker.restore(recording.snapshot())
    vhost = again.broker.vhosts["/"]
    assert again.queue("q").limits["ttl_ms"] == 7
    assert again.queue("q").limits["max_length"] == 7
    assert vhost.exchange("amq.direct").alternate == "x"
    assert sorted(each.name for each in vhost.policies) == ["ae", "p", "p"]
    assert again.changes == []


def test_there_must_be_one_to_drop_it(vhost: VirtualHost):
    set_policy(vhost, policy({"max-length": 1}))
    with pytest.raises(NotFound, match="no operator policy 'p' in vhost '/'"):
        drop_policy(vhost, "p", operator=True)
    with pytest.raises(NotFound, match="no policy 'other' in vhost '/'"):
        drop_policy(vhost, "other")


def test_there_are_only_so_many(vhost: VirtualHost):
    for number in range(POLICIES_MAX):
        vhost.policies.put(policy({"max-length": 1}, f"p{number}"))
    with pytest.raises(PreconditionFailed, match="has 1000 policies of that kind already"):
        set_policy(vhost, policy({"max-length": 1}, "new"))
    assert not set_policy(vhost, policy({"max-length": 2}, "p7"))


def test_those_of_the_configuration_file_are_changed_there(world: World):
    broker = Broker(
        as_engine(world.engine),
        world.broker.access,
        record=world.changes.append,
        random_bytes=bytes,
        policies={"/": [policy({"message-ttl": 5})]},
    )
    vhost = broker.add_vhost("/")
    assert limits_of(vhost) == {"ttl_ms": 5}
    text = "policy 'p' in vhost '/' is the configuration file's: change it there"
    with pytest.raises(PreconditionFailed, match=text):
        set_policy(vhost, policy({"message-ttl": 6}))
    with pytest.raises(PreconditionFailed, match=text):
        drop_policy(vhost, "p")
    assert not puts(world.changes, StoredPolicy)
