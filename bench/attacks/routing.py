"""Attacks with what one message, or one binding, makes the broker do."""

from __future__ import annotations

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

from leporid.load.amqp import table

HISTORY = {"x-recent-history-length": 10_000}
# As large as a header frame of the usual frame_max leaves room for.
TEXT_BYTES = 120_000
# As many places as a pattern may have, and none that ends the search early.
PATTERN = "%" + "a_" * 100


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
