"""Attacks with what one message, or one binding, makes the broker do."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from bench.attacks.attack import Ground, Steps, attack
from bench.attacks.definitions import send_all
from bench.attacks.peer import (
    exchange_bind,
    exchange_declare,
    publish,
    queue_bind,
    queue_declare,
)
from bench.attacks.target import LEPORID

from leporid.load.amqp import short, table

HISTORY = {"x-recent-history-length": 10_000}
# As large as a header frame of the usual frame_max leaves room for.
TEXT_BYTES = 120_000
# As many places as a pattern may have, and none that ends the search early.
PATTERN = "%" + "a_" * 100
DEAD_LETTERS = "x-dead-letter-exchange"


def copies(keys: Sequence[str]) -> bytes:
    """Headers with these further routing keys."""
    texts = b"".join(b"S" + struct.pack(">I", len(key)) + key.encode() for key in keys)
    field = short("CC") + b"A" + struct.pack(">I", len(texts)) + texts
    return struct.pack(">I", len(field)) + field


@attack("history-binds")
def history_binds(ground: Ground) -> Steps:
    """60 no-wait binds to an x-recent-history exchange that keeps 60 MB."""
    with ground.peer() as peer:
        peer.push(exchange_declare("history", "x-recent-history", HISTORY))
        peer.push(queue_declare("q", flags="e"))
        for _ in range(ground.count(60)):
            peer.push(publish("history", "", bytes(1_000_000)))
        peer.settle()
        yield
        send_all(peer, (queue_bind("q", "history", str(at)) for at in range(60)))
        ground.hold()


@attack("history-empty-binds")
def history_empty_binds(ground: Ground) -> Steps:
    """300 no-wait binds to an x-recent-history exchange that keeps 10,000 empty messages."""
    with ground.peer() as peer:
        peer.push(exchange_declare("history", "x-recent-history", HISTORY) + queue_declare("q"))
        peer.push(publish("history", "") * ground.count(10_000))
        peer.settle()
        yield
        send_all(peer, (queue_bind("q", "history", str(at)) for at in range(300)))


@attack("like-bindings", brokers=(LEPORID,))
def like_bindings(ground: Ground) -> Steps:
    """15 messages with a header of 120 KB meet 2,000 bindings with LIKE."""
    with ground.peer() as peer:
        peer.push(exchange_declare("filtered", "fanout") + queue_declare("q"))
        filters = (
            table({"x-filter-sql": f"h LIKE '{PATTERN}b%{at}'"})
            for at in range(ground.count(2_000))
        )
        send_all(peer, (queue_bind("q", "filtered", "", one) for one in filters))
        yield
        message = publish("filtered", "", headers={"h": "a" * TEXT_BYTES})
        send_all(peer, (message for _ in range(15)))


@attack("like-dead-letters", brokers=(LEPORID,))
def like_dead_letters(ground: Ground) -> Steps:
    """15 dead letters with a header of 120 KB meet 2,000 bindings with LIKE."""
    with ground.peer() as peer:
        peer.push(exchange_declare("filtered", "fanout") + queue_declare("q"))
        peer.push(queue_declare("dying", {"x-message-ttl": 0, DEAD_LETTERS: "filtered"}))
        filters = (
            table({"x-filter-sql": f"h LIKE '{PATTERN}b%{at}'"})
            for at in range(ground.count(2_000))
        )
        send_all(peer, (queue_bind("q", "filtered", "", one) for one in filters))
        yield
        message = publish("", "dying", headers={"h": "a" * TEXT_BYTES})
        send_all(peer, (message for _ in range(15)))


@attack("multiplying-letters")
def multiplying_letters(ground: Ground) -> Steps:
    """A message expires in 50 queues, each of which dead-letters to all of them."""
    with ground.peer() as peer:
        dying = {"x-message-ttl": 0, DEAD_LETTERS: "amq.fanout"}
        names = [f"dying.{at}" for at in range(ground.count(50))]
        for name in names:
            peer.push(queue_declare(name, dying) + queue_bind(name, "amq.fanout"))
        peer.settle()
        yield
        peer.push(publish("amq.fanout", ""))
        peer.settle()
        ground.hold()


@attack("topic-copies")
def topic_copies(ground: Ground) -> Steps:
    """10 messages with 20 keys of 61 words each (CC) meet 20,000 patterns of 60 words."""
    with ground.peer() as peer:
        peer.push(exchange_declare("patterns", "topic") + queue_declare("q"))
        patterns = (
            ".".join(["a" if at >> bit & 1 else "*" for bit in range(15)] * 4 + ["#", str(at)])
            for at in range(ground.count(20_000))
        )
        send_all(peer, (queue_bind("q", "patterns", one) for one in patterns))
        yield
        keys = [".".join(["a"] * 60 + [str(at)]) for at in range(20)]
        message = publish("patterns", "", headers=copies(keys))
        send_all(peer, (message for _ in range(10)))


@attack("fanout-queues")
def fanout_queues(ground: Ground) -> Steps:
    """50 messages to a fanout exchange with 20,000 queues."""
    with ground.peer() as peer:
        peer.push(exchange_declare("fan", "fanout"))
        count = ground.count(20_000)
        send_all(peer, (queue_declare(f"fan.{at}") for at in range(count)))
        send_all(peer, (queue_bind(f"fan.{at}", "fan") for at in range(count)))
        yield
        send_all(peer, (publish("fan", str(at), bytes(1000)) for at in range(50)))


@attack("exchange-chain")
def exchange_chain(ground: Ground) -> Steps:
    """300 messages with different keys pass through 1,000 exchanges, one bound to the next."""
    with ground.peer() as peer:
        count = ground.count(1_000)
        send_all(peer, (exchange_declare(f"chain.{at}", "fanout") for at in range(count + 1)))
        send_all(peer, (exchange_bind(f"chain.{at + 1}", f"chain.{at}") for at in range(count)))
        peer.push(queue_declare("q") + queue_bind("q", f"chain.{count}"))
        peer.settle()
        yield
        send_all(peer, (publish("chain.0", str(at)) for at in range(300)))


@attack("unique-keys")
def unique_keys(ground: Ground) -> Steps:
    """300,000 messages each have a routing key that no other has."""
    with ground.peer() as peer:
        peer.push(queue_declare("q") + queue_bind("q", "amq.topic", "none"))
        peer.settle()
        yield
        send_all(peer, (publish("amq.topic", f"a.{at}") for at in range(ground.count(300_000))))


CLASS = b"class Filter:\n    def match(self, message): return True\n"


@attack("judged-fanout", brokers=(LEPORID,))
def judged_fanout(ground: Ground) -> Steps:
    """500 messages that a filter class lets pass go to an exchange with 20,000 queues."""
    ground.need_users()
    status, said = ground.ask("PUT", "/api/filter-classes/pass", user="admin", body=CLASS)
    if status >= 300:
        raise OSError(f"the class was refused: {status} {said[:200]!r}")
    with ground.peer() as peer:
        peer.push(exchange_declare("judged", "fanout") + exchange_declare("x", "fanout"))
        peer.push(exchange_bind("x", "judged", arguments={"x-filter-class": "pass"}))
        names = [f"q{at}" for at in range(ground.count(20_000))]
        send_all(peer, (queue_declare(name, flags="e") + queue_bind(name, "x") for name in names))
        peer.settle()
        yield
        peer.push(publish("judged", "", b"one") * ground.count(500))
        peer.settle()
        ground.hold()
