"""Browsing: every ready message, in order of delivery, and nothing is different afterwards."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.browsing import bodies, rows_of, shown
from tests.engine.frames import PERSISTENT, nack, properties, publish
from tests.engine.session_fake import Peer, make_engine
from tests.engine.slices import ended

from leporid.engine.queue.browse import Browse


def send(peer: Peer, *bodies_: bytes, raw: bytes = b"\0\0", name: str = "q") -> None:
    for body in bodies_:
        peer.feed(publish(2, name, body, raw=raw))


def test_a_browse_shows_the_ready_messages_and_changes_nothing(queue, peer):
    send(peer, b"a", b"b", b"c")
    expected = [
        {"offset": at, "body": body, "redelivered": False, "state": "ready"}
        for at, body in enumerate([b"a", b"b", b"c"])
    ]
    assert shown(queue) == expected
    assert shown(queue) == expected
    assert (queue.ready_count, queue.unacked_count, queue.delivered) == (3, 0, 0)
    got = peer.get(queue)
    assert (got.body, got.redelivered) == (b"a", False)


def test_what_is_out_for_delivery_is_shown_on_request(queue, peer):
    send(peer, b"a", b"b", b"c")
    peer.get(queue, no_ack=False)
    assert bodies(queue) == [b"b", b"c"]
    rows = shown(queue, unacked=True)
    assert [(row["body"], row["state"]) for row in rows] == [
        (b"a", "unacked"),
        (b"b", "ready"),
        (b"c", "ready"),
    ]
    assert not any(row["redelivered"] for row in rows)
    peer.feed(nack(1, 1))
    assert [(row["body"], row["redelivered"]) for row in shown(queue)] == [
        (b"a", True),
        (b"b", False),
        (b"c", False),
    ]


def test_what_comes_while_it_is_browsed_is_not_shown_and_what_goes_is_missing(queue, peer):
    send(peer, b"a", b"b", b"c", b"d")
    browse = Browse(queue)
    with browse.window(1, 10**6) as window:
        assert [row["body"] for row in rows_of(window)] == [b"a"]
    send(peer, b"later")
    assert peer.get(queue).body == b"a"
    assert peer.get(queue).body == b"b"
    with browse.window(10, 10**6) as window:
        assert [row["body"] for row in rows_of(window)] == [b"c", b"d"]
    assert browse.done


def test_it_begins_at_a_sequence_number(queue, peer):
    send(peer, b"a", b"b", b"c")
    assert bodies(queue, first=1) == [b"b", b"c"]
    assert bodies(queue, first=3) == []


def test_windows_keep_to_their_limits_but_have_one_row_at_least(queue, peer):
    send(peer, *(bytes(500) for _ in range(7)))
    browse = Browse(queue)
    sizes = []
    while not browse.done:
        with browse.window(3, 1) as window:
            sizes.append(window.rows)
    assert [size for size in sizes if size] == [1] * 7
    browse = Browse(queue)
    with browse.window(3, 10**6) as window:
        assert window.rows == 3


def test_priorities_leave_first(engine, peer):
    queue = peer.queues["p"] = engine.queue(0, "p", False)
    queue.set_priorities(5)
    for number, priority in enumerate([0, 5, 3, 9, None, 3]):
        send(peer, b"%d" % number, raw=properties(priority=priority), name="p")
    expected = [b"1", b"3", b"2", b"5", b"0", b"4"]
    assert bodies(queue) == expected
    assert bodies(queue, rows_max=1) == expected
    peer.get(queue, no_ack=False)
    assert bodies(queue, unacked=True) == expected
    assert bodies(queue) == expected[1:]


def test_a_filter_looks_at_messages_of_queues_too(queue, peer):
    send(peer, b"a", b"b")
    with Browse(queue).window(10, 10**6) as window:
        assert rows_of(window, routing_key=b"other") == []
        assert len(rows_of(window, routing_key=b"q")) == 2


def test_a_long_queue_of_gaps_is_walked_in_portions(engine, queue, peer):
    for _ in range(3):
        send(peer, *[b""] * 256)
        peer.drain(queue)
        send(peer, b"kept")
        peer.get(queue, no_ack=False)
    send(peer, b"ready")
    assert bodies(queue, rows_max=2) == [b"ready"]
    assert bodies(queue, rows_max=2, unacked=True) == [b"kept"] * 3 + [b"ready"]


# ------------------------------------------------------------------ bytes that stay


def test_transient_messages_stay_while_they_are_read(engine, queue, peer):
    send(peer, *(b"%05d" % number + bytes(1000) for number in range(200)))
    window = Browse(queue).window(1000, 10**9)
    was = rows_of(window)
    ended(queue.purging())
    # Freed segments would be used again now.
    send(peer, *(b"other" + bytes(1000) for _ in range(400)))
    assert rows_of(window) == was
    window.close()
    ended(queue.purging())
    assert engine.logs.transient.bytes <= 6 * 65536


def test_the_segment_that_is_written_to_is_not_begun_anew_while_it_is_read(engine, queue, peer):
    send(peer, b"first")
    window = Browse(queue).window(1000, 10**9)
    ended(queue.purging())
    send(peer, b"second")
    assert [row["body"] for row in rows_of(window)] == [b"first"]
    window.close()
    assert bodies(queue) == [b"second"]


def test_durable_messages_stay_while_they_are_read(engine, disk, peer):
    queue = peer.queues["d"] = engine.queue(1, "d", True)
    send(peer, *(b"%05d" % number + bytes(1000) for number in range(30)), raw=PERSISTENT, name="d")
    window = Browse(queue).window(1000, 10**9)
    was = rows_of(window)
    for _ in range(20):
        peer.get(queue)
    disk.settle(engine)
    ended(queue.purging())
    disk.settle(engine)
    assert rows_of(window) == was
    assert len(engine.logs.segments) > 5
    window.close()
    disk.settle(engine)
    assert len(engine.logs.segments) <= 2
    assert len(disk.files) == len(engine.logs.segments)


def test_what_was_read_while_the_log_was_cleaned_is_cleaned_afterwards(engine, disk, peer):
    queue = peer.queues["d"] = engine.queue(1, "d", True)
    other = peer.queues["e"] = engine.queue(2, "e", True)
    for _ in range(60):
        send(peer, bytes(100), raw=PERSISTENT, name="d")
        send(peer, *[bytes(900)] * 3, raw=PERSISTENT, name="e")
    with Browse(queue).window(1000, 10**9) as window:
        was = rows_of(window)
        ended(other.purging())
        disk.settle(engine)
        assert rows_of(window) == was
    disk.settle(engine)
    # What is left was copied together.
    assert len(engine.logs.segments) < 20
    assert [row["body"] for row in shown(queue)] == [row["body"] for row in was]


# ------------------------------------------------------------------ any order of events


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("send"), st.integers(0, 3)),
            st.tuples(st.just("get"), st.booleans()),
            st.tuples(st.just("back"), st.integers(0, 20)),
            st.tuples(st.just("look"), st.integers(1, 5)),
        ),
        max_size=80,
    ),
    st.booleans(),
    st.booleans(),
)
def test_against_a_list(events, with_priorities, unacked):
    """A browse goes on between other events; of the model it shows what is there when it passes."""
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue}, channels=(1, 2))
    if with_priorities:
        queue.set_priorities(3)
    entries: dict[int, tuple[int, str]] = {}
    tags: list[tuple[int, int]] = []
    sent = last_tag = 0
    browse, passed, found = Browse(queue, unacked=unacked), 0, []
    place = (-4, -1)

    def wanted() -> list[tuple[int, int]]:
        states = ("ready", "unacked") if unacked else ("ready",)
        return sorted(
            (-priority, at)
            for at, (priority, state) in entries.items()
            if state in states and at < passed and (-priority, at) > place
        )

    for kind, value in events:
        ready = sorted(
            (-priority, at) for at, (priority, state) in entries.items() if state == "ready"
        )
        if kind == "send":
            send(peer, b"%d" % sent, raw=properties(priority=value))
            entries[sent] = (value if with_priorities else 0, "ready")
            sent += 1
        elif kind == "get" and ready:
            at = ready[0][1]
            got = peer.get(queue, no_ack=bool(value))
            assert got is not None
            assert got.body == b"%d" % at
            last_tag += 1
            if value:
                del entries[at]
            else:
                entries[at] = (entries[at][0], "unacked")
                tags.append((last_tag, at))
        elif kind == "back" and tags:
            tag, at = tags.pop(value % len(tags))
            peer.feed(nack(1, tag))
            entries[at] = (entries[at][0], "ready")
        elif kind == "look":
            if browse.done:
                browse, passed, place = Browse(queue, unacked=unacked), sent, (-4, -1)
            with browse.window(value, 10**6) as window:
                found = [(-entries[row["offset"]][0], row["offset"]) for row in rows_of(window)]
            assert found == wanted()[:value]
            place = found[-1] if found else place


def test_a_browse_without_a_queue_is_refused():
    with pytest.raises(TypeError):
        Browse(None)  # type: ignore[arg-type]
