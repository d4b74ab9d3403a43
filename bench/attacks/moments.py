"""Attacks by a great number that is due in one moment: commits, expiry, purges, acks, policies."""

from __future__ import annotations

import contextlib
import time
from random import Random

from bench.attacks.attack import Ground, Steps, attack
from bench.attacks.peer import (
    BASIC_CANCEL,
    BASIC_DELIVER,
    BASIC_RECOVER,
    QUEUE_DELETE,
    QUEUE_PURGE,
    TX_COMMIT,
    TX_ROLLBACK,
    TX_SELECT,
    Peer,
    consume,
    exchange_declare,
    publish,
    queue_bind,
    queue_declare,
)
from bench.attacks.target import LEPORID

from leporid.load.amqp import EXCHANGE_DELETE, ack, short

MILLION = 1_000_000
MIB = 1024 * 1024
POLICY_QUEUES = 50_000
FILLERS = 10
FLIPS = 20
# One less than the default of limits.transaction_entries_max.
ALLOWED = 9_999
BLOCK = 1_000
# None of them expires while the attack lasts.
LATER_MS = 600_000
# In which 300,000 messages are published, and the canary started.
DELAYS_SECONDS = 20.0
# Messages for finding out how fast the broker takes them.
TRIAL = 20_000
# From the last message to the moment: the canary is started, and looks at the broker at rest.
LEAD_SECONDS = 6.0
# A broker that has not delivered its messages by then does not.
DELIVERED_SECONDS_MAX = 30.0


def fill(peer: Peer, queue: str, count: int, message: bytes | None = None) -> None:
    """Publish so many messages without a byte, or of that kind, and wait until they are there."""
    one = message or publish("", queue)
    block = one * BLOCK
    for _ in range(count // BLOCK):
        peer.push(block)
    peer.push(one * (count % BLOCK))
    peer.settle()


def fill_until_one_moment(peer: Peer, queue: str, count: int) -> float:
    """Publish so many messages that all expire at one moment: monotonic, in seconds."""
    began = time.monotonic()
    trial = min(TRIAL, count)
    peer.push(queue_declare("trial", {"x-max-length": 1}))
    fill(peer, "trial", trial)
    each = (time.monotonic() - began) / trial
    moment = time.monotonic() + 1.5 * each * count + LEAD_SECONDS
    for _ in range(count // BLOCK):
        left_ms = max(1, round(1000 * (moment - time.monotonic())))
        peer.push(publish("", queue, expiration_ms=left_ms) * BLOCK)
    peer.settle()
    return moment


def wait_for(moment: float) -> None:
    """Wait until then, and a moment longer."""
    time.sleep(max(0.0, moment - time.monotonic()) + 0.1)


@attack("commit")
def commit(ground: Ground) -> Steps:
    """A transaction of a million messages is committed; if that is refused, many of 9,999."""
    with ground.peer() as peer:
        peer.push(queue_declare("q"))
        peer.ask(TX_SELECT)
        yield
        fill(peer, "q", ground.count(MILLION))
        if peer.ask(TX_COMMIT):
            return
    with ground.peer() as peer:
        peer.ask(TX_SELECT)
        for _ in range(ground.count(MILLION // ALLOWED)):
            fill(peer, "q", ALLOWED)
            peer.ask(TX_COMMIT)


@attack("commit-bytes")
def commit_bytes(ground: Ground) -> Steps:
    """Transactions of 128 messages of 1 MiB are committed and rolled back in turns."""
    with ground.peer() as peer:
        peer.push(queue_declare("q"))
        peer.ask(TX_SELECT)
        yield
        message = publish("", "q", bytes(MIB))
        for _ in range(ground.count(4)):
            for end in (TX_ROLLBACK, TX_COMMIT):
                for _ in range(ground.count(128)):
                    peer.push(message)
                peer.ask(end)
            peer.ask(QUEUE_PURGE, b"\0\0" + short("q") + b"\0")


@attack("expiry")
def expiry(ground: Ground) -> Steps:
    """A million messages of one queue expire at one moment."""
    with ground.peer() as peer:
        peer.push(queue_declare("q"))
        moment = fill_until_one_moment(peer, "q", ground.count(MILLION))
        yield
        wait_for(moment)


@attack("dead-letters")
def dead_letters(ground: Ground) -> Steps:
    """300,000 messages expire at one moment and are dead-lettered."""
    with ground.peer() as peer:
        to = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        peer.push(queue_declare("dead") + queue_declare("q", to))
        moment = fill_until_one_moment(peer, "q", ground.count(300_000))
        yield
        wait_for(moment)


@attack("full-queues")
def full_queues(ground: Ground) -> Steps:
    """10 publishers fill 4 queues that keep 50 messages and dead-letter the others."""
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(ground.peer()) for _ in range(FILLERS)]
        keeping = {
            "x-max-length": 50,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        }
        peers[0].push(queue_declare("dead", {"x-max-length": BLOCK}))
        for number in range(4):
            peers[0].push(queue_declare(f"q{number}", keeping))
            peers[0].push(queue_bind(f"q{number}", "amq.fanout", ""))
        yield
        deadline = time.monotonic() + ground.plan.seconds
        while time.monotonic() < deadline:
            for peer in peers:
                if not peer.gone:
                    peer.push(publish("amq.fanout", "", bytes(20)) * BLOCK)


@attack("purge")
def purge(ground: Ground) -> Steps:
    """A queue of a million messages is purged."""
    with ground.peer() as peer:
        peer.push(queue_declare("q"))
        fill(peer, "q", ground.count(MILLION))
        yield
        peer.ask(QUEUE_PURGE, b"\0\0" + short("q") + b"\0")


def take(peer: Peer, count: int) -> None:
    """Have so many messages delivered, and settle none."""
    peer.push(queue_declare("q"))
    fill(peer, "q", count)
    peer.push(consume("q", "c"))
    deadline = time.monotonic() + DELIVERED_SECONDS_MAX
    while peer.received[BASIC_DELIVER] < count and time.monotonic() < deadline and not peer.gone:
        peer.swallow(0.05)
    peer.ask(BASIC_CANCEL, short("c") + b"\0")


@attack("ack-multiple")
def ack_multiple(ground: Ground) -> Steps:
    """500,000 deliveries are acknowledged by one basic.ack."""
    with ground.peer() as peer:
        take(peer, ground.count(500_000))
        yield
        peer.push(ack(0, multiple=True))
        peer.settle()


@attack("recover")
def recover(ground: Ground) -> Steps:
    """500,000 deliveries are returned by one basic.recover."""
    with ground.peer() as peer:
        take(peer, ground.count(500_000))
        yield
        peer.ask(BASIC_RECOVER, b"\1")


@attack("delete")
def delete(ground: Ground) -> Steps:
    """A queue of a million messages is deleted."""
    with ground.peer() as peer:
        peer.push(queue_declare("q"))
        fill(peer, "q", ground.count(MILLION))
        yield
        peer.ask(QUEUE_DELETE, b"\0\0" + short("q") + b"\0")


@attack("purge-timers")
def purge_timers(ground: Ground) -> Steps:
    """A queue of a million messages with times to live of their own is purged."""
    with ground.peer() as peer:
        peer.push(queue_declare("q"))
        times = Random(1).sample(range(LATER_MS, 10 * LATER_MS), ground.count(MILLION))
        for at in range(0, len(times), BLOCK):
            some = (publish("", "q", expiration_ms=each) for each in times[at : at + BLOCK])
            peer.push(b"".join(some))
        peer.settle()
        yield
        peer.ask(QUEUE_PURGE, b"\0\0" + short("q") + b"\0")


@attack("delays-due", brokers=(LEPORID,))
def delays_due(ground: Ground) -> Steps:
    """300,000 delayed messages are due at one moment."""
    with ground.peer() as peer:
        peer.push(queue_declare("q"))
        moment = time.time() + DELAYS_SECONDS
        headers = {"x-deliver-at": round(1000 * moment)}
        fill(peer, "q", ground.count(300_000), publish("", "q", headers=headers))
        yield
        wait_for(time.monotonic() + moment - time.time())


@attack("delays-gone", brokers=(LEPORID,))
def delays_gone(ground: Ground) -> Steps:
    """An exchange in which a million delayed messages wait is deleted."""
    with ground.peer() as peer:
        peer.push(exchange_declare("later", "x-delayed-message", {"x-delayed-type": "fanout"}))
        times = Random(1).sample(range(LATER_MS, 10 * LATER_MS), ground.count(MILLION))
        for at in range(0, len(times), BLOCK):
            some = (publish("later", "", headers={"x-delay": ms}) for ms in times[at : at + BLOCK])
            peer.push(b"".join(some))
        peer.settle()
        yield
        peer.ask(EXCHANGE_DELETE, b"\0\0" + short("later") + b"\0")


@attack("policy-max-length")
def policy_max_length(ground: Ground) -> Steps:
    """A policy gives a queue of a million messages a length of 1."""
    ground.need_users()
    with ground.peer() as peer:
        peer.push(queue_declare("q"))
        fill(peer, "q", ground.count(MILLION))
        yield
        ground.set_policy("one", "^q$", {"max-length": 1})
        peer.settle()


@attack("policy-flips")
def policy_flips(ground: Ground) -> Steps:
    """A policy that governs 50,000 queues changes its mind, 20 times in a row."""
    ground.need_users()
    with ground.peer() as peer:
        for at in range(ground.count(POLICY_QUEUES)):
            peer.push(queue_declare(f"governed.{at}"))
        peer.settle()
        yield
        for at in range(ground.count(FLIPS)):
            ground.set_policy("flips", "^governed", {"max-length": 1000 + at % 2})
        peer.settle()
