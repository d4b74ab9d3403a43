"""Memory of very many entries: it grows without a copy, and is given back in steps."""

from __future__ import annotations

import resource
from pathlib import Path
from random import Random

import pytest
from tests.engine import frames
from tests.engine.session_fake import Peer, make_engine
from tests.engine.slices import cut_often, steps_of

from leporid.engine.engine import Engine

MIB = 1024 * 1024
MANY = 100_000


def mapped_bytes() -> int:
    """What this process has of its address space (proc(5), statm)."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def given_back(engine: Engine) -> list[int]:
    """What each turn gives back of it, until there is nothing left to do."""
    cut_often(engine)
    return [-bytes_more for bytes_more in steps_of(engine, mapped_bytes)]


@pytest.mark.parametrize(("count", "megabytes"), [(40, 1), (4, 12)])
def test_that_of_large_messages_is_given_back_in_steps(count: int, megabytes: int):
    """Those of a queue of 700 MB were pieces of 10 to 22 ms."""
    engine = make_engine(transient_segment_bytes=MIB)
    queue = engine.queue(0, "q", False)
    for _ in range(count):
        body = bytes(megabytes * MIB - 10_000)
        engine.publish([queue], "", "q", frames.NO_PROPERTIES, body)
    queue.retire()
    given = given_back(engine)
    assert sum(given) > 30 * MIB
    assert max(given) < 5 * MIB


def test_that_of_a_message_whose_output_is_the_last_to_have_it_is_given_back_in_steps():
    """128 MiB were 15 ms in one piece."""
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue})
    peer.channel.consume(queue, "c", True, 0, 0)
    body = Random(1).randbytes(12 * MIB)
    peer.feed(frames.publish(1, "q", body, step=100_000))
    assert [each.body for each in peer.deliveries()] == [body]
    assert queue.ready_count == queue.unacked_count == 0
    given = given_back(engine)
    assert sum(given) > 10 * MIB
    assert max(given) < 5 * MIB


@pytest.mark.parametrize("held", [False, True])
def test_that_of_very_many_deliveries_is_given_back_in_steps(held: bool):
    """That of a million was some 5 ms in one piece: on their channel, and where they wait."""
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine)
    if held:
        queue.set_retries("all", 1000, 1000)
    peer.channel.consume(queue, "c", False, 0, 0)
    for number in range(MANY):
        engine.publish([queue], "", "q", frames.NO_PROPERTIES, b"%d" % number)
        if number % 2000 == 1999:
            peer.deliveries()
    assert queue.unacked_count == MANY
    peer.connection.close_channel(1)
    peer.channels.clear()
    given = given_back(engine)
    assert (queue.held_count, queue.ready_count) == ((MANY, 0) if held else (0, MANY))
    assert sum(each for each in given if each > 0) > 4 * MIB
    assert max(given) < 3 * MIB
    # In order, however often the memory of their order grew.
    engine.clock.monotonic_ns = None
    engine.clock.now_ms += 1001
    engine.run()
    other = Peer(engine)
    other.channel.consume(queue, "d", True, 0, 0)
    found: list[bytes] = []
    while len(found) < MANY:
        found += [each.body for each in other.deliveries()]
    assert found == [b"%d" % number for number in range(MANY)]
