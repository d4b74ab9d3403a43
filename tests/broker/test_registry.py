from tests.broker.peer import World

from leporid.broker.registry import Registry


def test_a_broker_is_one():
    registry: Registry = World().broker
    assert registry.new_queue_id() != registry.new_queue_id()
    assert 0 <= registry.random_number() < 1 << 64
