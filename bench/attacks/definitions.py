"""Attacks with what a peer declares: queues, exchanges, bindings, consumers, and their end."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from string import ascii_letters

from bench.attacks.attack import MB, Bounds, Ground, Steps, attack, with_memory
from bench.attacks.peer import (
    Peer,
    consume,
    exchange_declare,
    queue_bind,
    queue_declare,
)
from bench.attacks.target import LEPORID

from leporid.load.amqp import BASIC_QOS, CHANNEL_CLOSE, EXCHANGE_DELETE, short, table

# So many frames are encoded and sent at a time.
BLOCK = 1000
CLOSE_ARGUMENTS = struct.pack(">H", 200) + short("") + bytes(4)
ARGUMENT_BYTES = 120_000
# Nearly as many as Leporid takes.
WIDE = 250
STREAM: dict[str, object] = {"x-queue-type": "stream"}
PREFETCH = struct.pack(">IH?", 0, 10, False)


def send_all(peer: Peer, frames: Iterator[bytes]) -> bool:
    """Send frames in blocks and wait until they have been handled; False: not all of them were."""
    block: list[bytes] = []
    for one in frames:
        block.append(one)
        if len(block) == BLOCK:
            if not peer.push(b"".join(block)):
                return False
            block.clear()
    return peer.push(b"".join(block)) and peer.settle()


# ------------------------------------------------------------------ floods


@attack("flood-declares")
def flood_declares(ground: Ground) -> Steps:
    """One connection declares 50,000 queues without waiting."""
    with ground.peer() as peer:
        yield
        send_all(peer, (queue_declare(f"flood.{at}") for at in range(ground.count(50_000))))


@attack("flood-consumes")
def flood_consumes(ground: Ground) -> Steps:
    """One channel consumes 100,000 times from 100 queues without waiting."""
    with ground.peer() as peer:
        send_all(peer, (queue_declare(f"flood.{at}") for at in range(100)))
        yield
        count = ground.count(100_000)
        send_all(peer, (consume(f"flood.{at % 100}", f"c{at}") for at in range(count)))


@attack("flood-binds")
def flood_binds(ground: Ground) -> Steps:
    """One connection binds a queue 100,000 times to a topic exchange without waiting."""
    with ground.peer() as peer:
        peer.push(exchange_declare("flood", "topic") + queue_declare("flood"))
        peer.settle()
        yield
        count = ground.count(100_000)
        send_all(peer, (queue_bind("flood", "flood", f"k.{at}.*") for at in range(count)))


@attack("wide-tables")
def wide_tables(ground: Ground) -> Steps:
    """600 declares, binds to a headers exchange, and consumes, with 250 arguments each."""
    names = itertools.islice(itertools.product(ascii_letters, repeat=3), WIDE)
    fields = b"".join(short("".join(name)) + b"V" for name in names)
    wide = struct.pack(">I", len(fields)) + fields
    with ground.peer() as peer:
        peer.push(exchange_declare("wide", "headers") + queue_declare("wide"))
        peer.settle()
        yield
        for at in range(ground.count(600)):
            peer.push(queue_declare(f"wide.{at}", wide))
            peer.push(queue_bind("wide", "wide", str(at), wide))
            peer.push(consume("wide", f"c{at}", wide))
        peer.settle()


# ------------------------------------------------------------------ what goes all at once


@attack("exclusive-queues-gone")
def exclusive_queues(ground: Ground) -> Steps:
    """A connection with 30,000 exclusive queues goes."""
    with ground.peer() as peer:
        count = ground.count(30_000)
        send_all(peer, (queue_declare(f"mine.{at}", flags="e") for at in range(count)))
        yield


@attack("exchange-bindings-gone")
def exchange_bindings(ground: Ground) -> Steps:
    """An exchange with 50,000 bindings is deleted."""
    with ground.peer() as peer:
        peer.push(exchange_declare("large", "topic") + queue_declare("large"))
        send_all(
            peer, (queue_bind("large", "large", f"k.{at}") for at in range(ground.count(50_000)))
        )
        yield
        peer.ask(EXCHANGE_DELETE, b"\0\0" + short("large") + b"\0")


@attack("consumers-gone")
def consumers_gone(ground: Ground) -> Steps:
    """A channel consumes 300,000 times from one queue, and is closed."""
    with ground.peer() as peer:
        peer.push(queue_declare("q"))
        peer.settle()
        yield
        count = ground.count(300_000)
        if send_all(peer, (consume("q", f"c{at}") for at in range(count))):
            peer.ask(CHANNEL_CLOSE, CLOSE_ARGUMENTS)


@attack("priorities")
def priorities(ground: Ground) -> Steps:
    """20,000 consumers of one queue, each with a priority of its own, come and go."""
    with ground.peer() as peer:
        peer.push(queue_declare("q"))
        peer.settle()
        yield
        count = ground.count(20_000)
        # From the lowest to the highest and back, so that no order of arrival is the easy one.
        numbers = [at // 2 if at % 2 else count - at // 2 for at in range(count)]
        frames = (
            consume("q", f"c{at}", {"x-priority": number}) for at, number in enumerate(numbers)
        )
        if send_all(peer, frames):
            peer.ask(CHANNEL_CLOSE, CLOSE_ARGUMENTS)


@attack("group-members", brokers=(LEPORID,))
def group_members(ground: Ground) -> Steps:
    """3,000 members of one group come and go."""
    with ground.peer() as peer:
        peer.push(queue_declare("s", STREAM, flags="d"))
        peer.ask(BASIC_QOS, PREFETCH)
        yield
        arguments = table({"x-group": "g"})
        frames = (consume("s", f"c{at}", arguments) for at in range(ground.count(3_000)))
        for one in frames:
            if not peer.push(one):
                return
        if peer.ask(BASIC_QOS, PREFETCH):
            peer.ask(CHANNEL_CLOSE, CLOSE_ARGUMENTS)


# ------------------------------------------------------------------ what is kept


@attack("large-definitions", bounds=with_memory(Bounds(), 250 * MB), watermark_bytes=200 * MB)
def large_definitions(ground: Ground) -> Steps:
    """5,000 exchanges with 120 KB of arguments each, over a watermark of 200 MB."""
    arguments = table({"x-note": "a" * ARGUMENT_BYTES})
    with ground.peer() as peer:
        yield
        for at in range(ground.count(5_000)):
            if not peer.push(exchange_declare(f"large.{at}", "direct", arguments)):
                break
        else:
            peer.settle()
        ground.hold()
