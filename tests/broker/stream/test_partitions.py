"""Partitioned streams: all of it or nothing."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.broker.at_once import declare_partitioned_stream
from tests.broker.peer import World
from tests.broker.recording import Recording

from leporid.amqp.errors import AccessRefused, BeingDeleted, NotFound, PreconditionFailed
from leporid.amqp.methods import ExchangeDeclare, QueueBind, QueueDeclare, QueueDelete, QueueUnbind
from leporid.amqp.tables import Value
from leporid.broker.registry import finished
from leporid.broker.stream import partitions
from leporid.broker.vhost import VirtualHost
from leporid.engine.bounds.jobs import AWAITS

STREAM: dict[str, Value] = {"x-queue-type": "stream"}


@pytest.fixture
def world() -> World:
    return World()


def vhost_of(world: World) -> VirtualHost:
    return world.broker.vhosts["/"]


def counted(vhost: VirtualHost) -> dict[str, int]:
    return dict(each for each in partitions.names(vhost) if each is not None)


def names(vhost: VirtualHost, name: str) -> list[str]:
    return [queue.name for queue in partitions.of(vhost, name)]


def test_by_hash_each_key_has_its_partition(world: World):
    vhost = vhost_of(world)
    assert declare_partitioned_stream(vhost, "s", 12, arguments={"x-max-age": "7D"})
    assert names(vhost, "s") == [f"s-{number}" for number in range(12)]
    peer = world.peer()
    for _ in range(2):
        for number in range(100):
            assert peer.connection.publish(1, "s", f"key {number}", f"{number}") == 1
    bodies = [Counter(body for _, body in world.stream(f"s-{n}").bodies) for n in range(12)]
    assert all(set(each.values()) == {2} for each in bodies)
    assert world.stream("s-11").retention["max_age_ms"] == 7 * 86_400_000
    # As a client of RabbitMQ would find it.
    peer.call(ExchangeDeclare(exchange="s", type="x-super-stream", durable=True))
    arguments: dict[str, Value] = {"x-queue-type": "stream", "x-max-age": "7D"}
    peer.call(QueueDeclare(queue="s-3", durable=True, arguments=arguments))


def test_by_key_each_partition_has_its_key(world: World):
    vhost = vhost_of(world)
    assert declare_partitioned_stream(vhost, "s", None, "key", ["eu", "us"])
    peer = world.peer()
    assert [peer.connection.publish(1, "s", key, key) for key in ("eu", "us", "other")] == [1, 1, 0]
    assert [body for _, body in world.stream("s-0").bodies] == ["eu"]
    assert [body for _, body in world.stream("s-1").bodies] == ["us"]
    peer.call(ExchangeDeclare(exchange="s", type="direct", durable=True))


def test_the_same_again_changes_nothing(world: World):
    vhost = vhost_of(world)
    assert declare_partitioned_stream(vhost, "h", 2, arguments={"x-max-age": "7D"})
    assert declare_partitioned_stream(vhost, "k", 2, "key", ["a", "b"])
    before = list(world.changes)
    assert not declare_partitioned_stream(vhost, "h", 2, arguments={"x-max-age": "7D"})
    assert not declare_partitioned_stream(vhost, "k", None, "key", ["a", "b"])
    assert world.changes == before


@pytest.mark.parametrize(
    ("count", "routing", "keys", "arguments", "text"),
    [
        (3, "hash", None, {}, "inequivalent arg 'partitions'.*received '3' but current is '2'"),
        (2, "hash", None, {"x-max-age": "1D"}, "inequivalent arg 'x-max-age' for queue 's-0'"),
        (2, "key", ["0", "1"], {}, "received 'direct' but current is 'x-super-stream'"),
    ],
)
def test_something_else_is_refused(
    world: World,
    count: int,
    routing: str,
    keys: list[str] | None,
    arguments: dict[str, Value],
    text: str,
):
    vhost = vhost_of(world)
    declare_partitioned_stream(vhost, "s", 2)
    before = list(world.changes)
    with pytest.raises(PreconditionFailed, match=text):
        declare_partitioned_stream(vhost, "s", count, routing, keys, arguments)
    assert world.changes == before


def test_other_keys_are_something_else(world: World):
    vhost = vhost_of(world)
    declare_partitioned_stream(vhost, "s", 2, "key", ["a", "b"])
    with pytest.raises(PreconditionFailed, match=r"'keys'.* received 'b' but current is 'a'"):
        declare_partitioned_stream(vhost, "s", 2, "key", ["b", "a"])


@pytest.mark.parametrize(
    ("name", "count", "routing", "keys", "text"),
    [
        ("", 1, "hash", None, "needs a name"),
        ("s", 0, "hash", None, "must have 1 to 1000 partitions, not 0"),
        ("s", -1, "hash", None, "must have 1 to 1000 partitions, not -1"),
        ("s", 1001, "hash", None, "must have 1 to 1000 partitions, not 1001"),
        ("s", None, "hash", None, "must have 1 to 1000 partitions, not 0"),
        ("s", None, "key", None, "must have 1 to 1000 partitions, not 0"),
        ("s", 2, "random", None, "invalid routing 'random'"),
        ("s", 2, "hash", ["a", "b"], "takes no keys"),
        ("s", 3, "key", ["a", "b"], "3 partitions but 2 keys"),
        ("s", 2, "key", ["a", "a"], "same key"),
        ("s", 1, "key", ["ü" * 128], "longer than 255 bytes"),
        ("x" * 254, 1, "hash", None, "names longer than 255 bytes"),
    ],
)
def test_what_makes_no_sense(
    world: World, name: str, count: int | None, routing: str, keys: list[str] | None, text: str
):
    with pytest.raises(PreconditionFailed, match=text):
        declare_partitioned_stream(vhost_of(world), name, count, routing, keys)
    assert world.changes == []


def test_all_of_it_or_nothing(world: World):
    vhost, peer = vhost_of(world), world.peer()
    peer.call(QueueDeclare(queue="s-2", durable=True))
    peer.call(QueueDeclare(queue="t", durable=True, arguments=STREAM))
    before = list(world.changes)
    with pytest.raises(PreconditionFailed, match="queue 's-2' in vhost '/' is there already"):
        declare_partitioned_stream(vhost, "s", 3)
    with pytest.raises(PreconditionFailed, match="queue 't' in vhost '/' is there already"):
        declare_partitioned_stream(vhost, "t", 1)
    with pytest.raises(PreconditionFailed, match="invalid_max_age"):
        declare_partitioned_stream(vhost, "u", 3, arguments={"x-max-age": "x"})
    with pytest.raises(AccessRefused, match="reserved prefix"):
        declare_partitioned_stream(vhost, "amq.s", 3)
    with pytest.raises(PreconditionFailed, match="is not of a partitioned stream"):
        declare_partitioned_stream(vhost, "amq.topic", 3)
    assert world.changes == before


def test_what_was_changed_by_hand_is_noticed(world: World):
    vhost, peer = vhost_of(world), world.peer()
    declare_partitioned_stream(vhost, "s", 3)
    peer.call(QueueDeclare(queue="q"))
    peer.call(QueueBind(queue="q", exchange="s", routing_key="0"))
    # A binding that is none of ours is no partition.
    assert not declare_partitioned_stream(vhost, "s", 3)
    peer.call(QueueUnbind(queue="q", exchange="s", routing_key="0"))
    peer.call(QueueDelete(queue="s-1"))
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'partitions'"):
        declare_partitioned_stream(vhost, "s", 3)
    assert names(vhost, "s") == ["s-0", "s-2"]


def test_streams_by_name(world: World):
    vhost, peer = vhost_of(world), world.peer()
    declare_partitioned_stream(vhost, "many", 3)
    peer.call(QueueDeclare(queue="one", durable=True, arguments=STREAM))
    peer.call(QueueDeclare(queue="classic"))
    assert counted(vhost) == {"many": 3, "one": 1}
    assert names(vhost, "one") == ["one"]
    assert names(vhost, "many-2") == ["many-2"]
    for name in ("classic", "none", "amq.topic", ""):
        with pytest.raises(NotFound, match=f"no stream '{name}'"):
            partitions.of(vhost, name)


def test_deleted_as_one(world: World):
    vhost, peer = vhost_of(world), world.peer()
    declare_partitioned_stream(vhost, "many", 3)
    peer.call(QueueDeclare(queue="one", durable=True, arguments=STREAM))
    for name in ("many", "one"):
        finished(partitions.deleting(vhost, name))
        with pytest.raises(NotFound):
            finished(partitions.deleting(vhost, name))
    assert counted(vhost) == {}
    assert list(vhost.queues()) == []
    assert vhost.find_exchange("many") is None


def test_back_after_a_restart(world: World):
    declare_partitioned_stream(vhost_of(world), "s", 3)
    recording = Recording(["/", "other"], world.changes)
    again = World()
    again.broker.restore(recording.snapshot())
    vhost = vhost_of(again)
    assert names(vhost, "s") == ["s-0", "s-1", "s-2"]
    assert not declare_partitioned_stream(vhost, "s", 3)
    for key in ("a", "b", "c"):
        counts = []
        for each in (world, again):
            each.peer().connection.publish(1, "s", key, key)
            counts.append([each.stream(f"s-{number}").ready_count for number in range(3)])
        assert counts[0] == counts[1]


def test_a_partition_with_two_keys_is_one(world: World):
    vhost = vhost_of(world)
    declare_partitioned_stream(vhost, "s", None, "key", ["eu", "us"])
    peer = world.peer()
    order: dict[str, Value] = {partitions.ORDER: 2}
    peer.call(QueueBind(queue="s-0", exchange="s", routing_key="uk", arguments=order))
    assert names(vhost, "s") == ["s-0", "s-1"]
    assert counted(vhost) == {"s": 2}


def test_a_declaration_goes_on_for_many_turns_and_others_wait_for_it(world: World):
    vhost = vhost_of(world)
    plan = partitions.plan("s", 3)
    first, second = (partitions.declaring(vhost, plan) for _ in range(2))
    next(first)
    assert next(second) is AWAITS
    assert finished(first)
    assert not finished(second)
    assert names(vhost, "s") == ["s-0", "s-1", "s-2"]


def test_who_takes_a_name_meanwhile_undoes_the_declaration(world: World):
    vhost = vhost_of(world)
    declaring = partitions.declaring(vhost, partitions.plan("s", 3))
    next(declaring)
    world.peer().call(QueueDeclare(queue="s-2"))
    with pytest.raises(PreconditionFailed, match="queue 's-2' in vhost '/' is there already"):
        finished(declaring)
    assert [queue.name for queue in vhost.queues()] == ["s-2"]
    assert vhost.find_exchange("s") is None


def test_who_deletes_the_exchange_meanwhile_undoes_the_declaration(world: World):
    vhost = vhost_of(world)
    declaring = partitions.declaring(vhost, partitions.plan("s", 3))
    next(declaring)
    vhost.delete_exchange(vhost.exchange("s"), if_unused=False)
    with pytest.raises(PreconditionFailed, match="exchange 's' in vhost '/' was deleted"):
        finished(declaring)
    assert list(vhost.queues()) == []
    assert declare_partitioned_stream(vhost, "s", 3)


def test_a_name_that_is_being_deleted_is_waited_for(world: World):
    vhost = vhost_of(world)
    declare_partitioned_stream(vhost, "s", 3)
    deleting = partitions.deleting(vhost, "s")
    while vhost.find_queue("s-0") is not None:
        next(deleting)
    declaring = partitions.declaring(vhost, partitions.plan("s", 3))
    assert next(declaring) is AWAITS
    finished(deleting)
    assert finished(declaring)
    assert names(vhost, "s") == ["s-0", "s-1", "s-2"]
    one = vhost.deleting_queue(vhost.queue("s-1"))
    next(one)
    with pytest.raises(BeingDeleted):
        vhost.check_free("s-1")
    finished(one)
    vhost.check_free("s-1")


def test_an_exchange_with_more_bindings_than_are_looked_at_is_no_partitioned_stream(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(partitions, "BINDINGS_MAX", 3)
    vhost, peer = vhost_of(world), world.peer()
    declare_partitioned_stream(vhost, "s", None, "key", ["a", "b", "c"])
    assert partitions.is_partitioned(vhost, "s")
    peer.call(QueueBind("s-0", "s", "more", arguments={"x-stream-partition-order": 3}))
    assert not partitions.is_partitioned(vhost, "s")
    assert counted(vhost) == {"s-0": 1, "s-1": 1, "s-2": 1}
    with pytest.raises(NotFound, match="no stream 's'"):
        partitions.of(vhost, "s")
    peer.call(QueueUnbind("s-0", "s", "more", arguments={"x-stream-partition-order": 3}))
    assert names(vhost, "s") == ["s-0", "s-1", "s-2"]


def test_a_partitioned_stream_that_comes_while_they_are_listed_is_no_plain_one(world: World):
    vhost = vhost_of(world)
    listing, placing = partitions.names(vhost), partitions.placed(vhost)
    assert (next(listing), next(placing)) == (None, None)
    assert declare_partitioned_stream(vhost, "s", 3)
    assert set(listing) <= {None, ("s", 3)}
    assert set(placing) == {None}
    assert counted(vhost) == {"s": 3}
