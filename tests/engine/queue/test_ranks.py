"""Consumers of many priorities that come and go: who is first, is always who should be."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.frames import publish
from tests.engine.session_fake import Peer, make_engine

from leporid.engine.connection.consumer import Consumer

PRIORITIES = st.one_of(st.integers(-3, 3), st.integers(-(2**31), 2**31 - 1))
# A priority is that of a consumer who comes; None: one of those there are goes.
STEPS = st.lists(st.one_of(PRIORITIES, st.none()), min_size=1, max_size=80)


@settings(max_examples=60)
@given(steps=STEPS, single=st.booleans(), data=st.data())
def test_the_first_of_many(steps: list[int | None], single: bool, data: st.DataObject) -> None:
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    queue.set_single_active_consumer(single)
    peer = Peer(engine, {"q": queue})
    there: list[Consumer] = []
    active: Consumer | None = None
    for priority in steps:
        if priority is not None:
            there.append(peer.channel.consume(queue, f"{len(there)}", True, priority, 0))
        elif there:
            gone = there.pop(data.draw(st.integers(0, len(there) - 1)))
            peer.channel.cancel(gone)
            if gone is active:
                active = None
        if active is None and there:
            active = max(there, key=lambda each: each.priority)  # the oldest of them
        peer.feed(publish(1, "q"))
        took = [each.consumer for each in peer.deliveries()]
        if not there:
            assert took == []
        elif single:
            assert active is not None
            assert set(took) == {active.tag}
        else:
            highest = max(each.priority for each in there)
            assert set(took) <= {each.tag for each in there if each.priority == highest}
            assert took
        assert queue.ready_count == 0 or not there


def test_each_of_a_thousand_priorities_has_its_turn(engine, queue, peer):
    consumers = {
        priority: peer.channel.consume(queue, f"{priority}", False, priority, 1)
        for priority in (number * 7919 % 1000 for number in range(1000))
    }
    peer.feed(publish(1, "q") * 1000)
    assert [int(each.consumer) for each in peer.deliveries()] == list(range(999, -1, -1))
    for consumer in consumers.values():
        peer.channel.cancel(consumer)
    assert queue.consumer_count == 0
