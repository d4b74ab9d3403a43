from tests.broker.peer import World

from leporid.broker.registry import Registry


def test_a_broker_is_one():
    registry: Registry = World().broker
    assert registry.new_queue_id() != registry.new_queue_id()
    assert 0 <= registry.random_number() < 1 << 64


def test_virtual_hosts_share_numbers_and_rounds():
    world = World()
    registry: Registry = world.broker
    queues = [
        world.broker.vhosts[name].create_queue(
            "q", durable=True, auto_delete=False, arguments={"x-expires": 5}, owner=None
        )
        for name in ("/", "other")
    ]
    assert len({registry.new_queue_id(), *(queue.id for queue in queues)}) == 3
    registry.unused.run(0)
    assert {queue.goes_at_ms for queue in queues} == {5}
