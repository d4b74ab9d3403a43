"""Which queues of a virtual host are paused, over the fake engine."""

from __future__ import annotations

from tests.broker.at_once import declare_partitioned_stream
from tests.broker.peer import World

from leporid.amqp.methods import BasicConsume, BasicQos
from leporid.amqp.tables import Value
from leporid.broker.stored import StoredPause
from leporid.durable import Drop, Put


def test_a_queue_is_paused_once_and_goes_on_once():
    world = World()
    vhost = world.broker.vhosts["/"]
    queue = vhost.create_queue("q", durable=True, auto_delete=False, arguments={}, owner=None)
    world.changes.clear()
    for _ in range(2):
        vhost.pauses.pause(queue)
    assert (queue.engine.paused, vhost.pauses.count) == (True, 1)
    for _ in range(2):
        vhost.pauses.resume(queue)
    assert (queue.engine.paused, vhost.pauses.count) == (False, 0)
    assert world.changes == [Put(StoredPause("/", "q")), Drop(StoredPause, ("/", "q"))]


def test_a_transient_queue_is_not_recorded():
    world = World()
    vhost = world.broker.vhosts["/"]
    queue = vhost.create_queue("q", durable=False, auto_delete=False, arguments={}, owner=None)
    world.changes.clear()
    vhost.pauses.pause(queue)
    assert queue.engine.paused
    vhost.delete_queue(queue)
    assert (vhost.pauses.count, world.changes) == (0, [])


def test_what_groups_retry_of_a_stream_is_paused_with_it():
    world = World()
    vhost = world.broker.vhosts["/"]
    declare_partitioned_stream(vhost, "other", 1)
    stream = vhost.create_queue(
        "s",
        durable=True,
        auto_delete=False,
        arguments={"x-queue-type": "stream"},
        owner=None,
    )
    peer = world.peer()
    peer.call(BasicQos(prefetch_count=1))

    def join(name: str, group: str) -> None:
        arguments: dict[str, Value] = {"x-group": group, "x-delivery-limit": 3}
        peer.call(BasicConsume(queue=name, consumer_tag=name + group, arguments=arguments))

    join("s", "g")
    join("other", "g")
    vhost.pauses.pause(stream)
    join("s", "h")
    paused = {
        (each.stream, each.name): each.retries.engine.paused
        for each in vhost.groups
        if each.retries is not None
    }
    assert paused == {("s", "g"): True, ("s", "h"): True, ("other", "g"): False}
    vhost.pauses.resume(stream)
    assert not any(each.retries and each.retries.engine.paused for each in vhost.groups)
