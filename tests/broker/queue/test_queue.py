"""A queue's definition, its owner and its consumers."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.peer import World

from leporid.amqp.errors import PreconditionFailed, ResourceLocked
from leporid.amqp.tables import Value
from leporid.broker.queue import queue as queue_module
from leporid.broker.queue.queue import Consumers, ConsumerState, QueueState, Subscriptions

ANY: Any = None


class Somebody:
    def disown(self, queue: QueueState) -> None:
        raise NotImplementedError

    def lose(self, subscription: ConsumerState) -> None:
        raise NotImplementedError


def make(owner: Somebody | None = None, arguments: dict[str, Value] | None = None) -> QueueState:
    vhost = World().broker.vhosts["/"]
    return vhost.make_queue("q", owner=owner, arguments=arguments)


def test_who_may_use_it():
    owner, other = Somebody(), Somebody()
    make().check_access(other)
    queue = make(owner)
    queue.check_access(owner)
    with pytest.raises(ResourceLocked, match="locked queue 'q' in vhost '/'"):
        queue.check_access(other)


def test_what_is_the_same():
    owner = Somebody()
    queue = make(owner, {"x-max-length": 3})

    def check(
        asker: Somebody | None, durable: bool = False, auto_delete: bool = False, length: int = 3
    ) -> None:
        queue.check_same(
            owner=asker,
            durable=durable,
            auto_delete=auto_delete,
            arguments={"x-max-length": length},
        )

    check(owner)
    with pytest.raises(ResourceLocked):
        check(None)
    for different in ((True, False, 3), (False, True, 3), (False, False, 4)):
        with pytest.raises(PreconditionFailed):
            check(owner, *different)


def exclusive(queue: QueueState) -> ConsumerState | None:
    return queue.exclusive_subscription


def test_consumers_come_and_go():
    queue = make()
    plain = ConsumerState("a", queue, Somebody(), exclusive=False)
    alone = ConsumerState("b", queue, Somebody(), exclusive=True)
    queue.add(plain)
    queue.add(alone)
    assert exclusive(queue) is alone
    queue.remove(plain)
    assert exclusive(queue) is alone
    queue.remove(alone)
    assert exclusive(queue) is None
    assert not queue.subscriptions


@given(st.lists(st.integers(-1, 30), max_size=80))
def test_its_consumers_are_in_the_order_in_which_they_came(steps: list[int]):
    """A number removes the consumer at that place; -1 adds one."""
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(queue_module, "PART_CONSUMERS", 4)
        subscriptions = Subscriptions()
        model: list[ConsumerState] = []
        slowly = iter(subscriptions)
        met: list[ConsumerState] = []
        for step in steps:
            if step < 0:
                model.append(ConsumerState("c", ANY, ANY, exclusive=False))
                subscriptions.add(model[-1])
            elif model:
                gone = model.pop(step % len(model))
                subscriptions.remove(gone)
                assert gone not in subscriptions
            if step % 3 == 0:
                met += islice(slowly, 1)
            assert list(subscriptions) == model
            assert len(subscriptions) == len(model)
            assert all(each in subscriptions for each in model)
        assert len(set(map(id, met))) == len(met)


def test_who_is_there_all_the_time_is_met_while_others_come_and_go(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(queue_module, "PART_CONSUMERS", 2)
    subscriptions = Subscriptions()
    staying = [ConsumerState("c", ANY, ANY, exclusive=False) for _ in range(7)]
    for each in staying:
        subscriptions.add(each)
    met = []
    for each in subscriptions:
        met.append(each)
        other = ConsumerState("other", ANY, ANY, exclusive=False)
        subscriptions.add(other)
        subscriptions.remove(other)
    assert met == staying


def test_what_it_says_of_itself():
    queue = make(Somebody(), {"x-single-active-consumer": True})
    assert queue.single_active_consumer
    assert not make(None, {"x-single-active-consumer": False}).single_active_consumer
    assert "'q' in '/'" in repr(queue)
    queue.deleted = True
    assert "deleted" in repr(queue)


def test_consumers_of_all_queues_are_counted_and_found_by_what_they_ask():
    consumers = Consumers()
    one, other = make(), make()
    one.consumers = other.consumers = consumers
    plain = ConsumerState("a", one, Somebody(), exclusive=False)
    asking = [
        ConsumerState(tag, other, Somebody(), exclusive=False, filter_class="big") for tag in "bc"
    ]
    one.add(plain)
    for each in asking:
        other.add(each)
    assert (consumers.count, list(consumers.asking("big"))) == (3, asking)
    other.remove(asking[0])
    one.remove(plain)
    assert (consumers.count, list(consumers.asking("big"))) == (1, asking[1:])
    other.remove(asking[1])
    assert (consumers.count, list(consumers.asking("big"))) == (0, [])
