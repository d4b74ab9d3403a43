"""The innocent client: what others notice of an attack.

A process of its own publishes with confirms, consumes what it published, declares passively, and
asks for the broker's health, all by the clock and never waiting for one before it starts the next:
a stall is seen by everything that was due in it. It has the machine's attention before others
(real-time scheduling where that is allowed), and says how late it was itself. It does not know the
attacks. Invariant: what it counts as waiting was waited for the broker: the time for which the
broker had told it not to publish (connection.blocked) is counted by itself.
"""

from __future__ import annotations

import array
import contextlib
import gc
import multiprocessing
import os
import selectors
import socket
import struct
import time
import traceback
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Protocol

from bench.attacks.target import Address, Target

from leporid.load.amqp import (
    BASIC_ACK,
    CHANNEL,
    CHANNEL_CLOSE,
    CONNECTION_CLOSE,
    FRAME_HEAD,
    FRAME_METHOD,
    FRAME_OVERHEAD,
    QUEUE_DECLARE,
    Client,
    Ids,
    close_reason,
    message,
    method,
    short,
)

TICK_SECONDS = 0.002
HEALTH_SECONDS = 0.02
# Of what is waited for; more are not begun, so that a stall of minutes takes little memory.
OUTSTANDING_MAX = 50_000
RECEIVE_BYTES = 65536
BODY = bytes(16)

CONNECTION_BLOCKED: Ids = (10, 60)
CONNECTION_UNBLOCKED: Ids = (10, 61)
BASIC_DELIVER: Ids = (60, 60)
DECLARE_OK: Ids = (50, 11)

CONFIRM, DELIVERY, DECLARATION, HEALTH = "confirm", "delivery", "declaration", "health"
KINDS = (CONFIRM, DELIVERY, DECLARATION, HEALTH)
AMQP_KINDS = (CONFIRM, DELIVERY, DECLARATION)
STOP_SECONDS = 30.0


@dataclass(slots=True)
class Phase:
    """What was seen between two moments that the trial named.

    Attributes:
        waits_ms: how long each answer took, by kind.
        late_ms: the most by which the canary itself was late to send.
        blocked_seconds: for how long it was told not to publish.
    """

    waits_ms: dict[str, array.array[float]] = field(
        default_factory=lambda: {kind: array.array("d") for kind in KINDS}
    )
    late_ms: float = 0.0
    blocked_seconds: float = 0.0

    def amqp_ms(self) -> list[float]:
        """Everything that was waited for over AMQP, sorted."""
        return sorted(wait for kind in AMQP_KINDS for wait in self.waits_ms[kind])


@dataclass(slots=True)
class Sightings:
    """Everything that the canary saw.

    Attributes:
        phases: by the name that the trial gave them.
        lost: why a connection of the canary ended; empty: none did.
    """

    phases: dict[str, Phase]
    lost: str = ""


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of sorted values does not exceed; 0.0 if there are none."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0.0


class Canary:
    """The canary's process: entered, it is ready and watches.

    Args:
        target: the broker.
        bad_ms: what it waits for longer is bad (see `last_bad`), unless it had to wait as long in
            the phase before: then others disturb the machine.
    """

    def __init__(self, target: Target, bad_ms: float) -> None:
        context = multiprocessing.get_context("fork")
        self._last_bad = context.RawValue("d", 0.0)
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_live, args=(target, bad_ms, self._last_bad, theirs), daemon=True
        )
        self._process.start()
        theirs.close()

    def ready(self, seconds: float) -> None:
        """Wait until it has connected.

        Raises:
            ConnectionError: it could not.
        """
        if not self._pipe.poll(seconds):
            raise ConnectionError("the canary could not connect in time")
        error = self._pipe.recv()
        if error:
            raise ConnectionError(f"the canary could not connect: {error}")

    @property
    def last_bad(self) -> float:
        """The last moment (monotonic, seconds) at which something was not as it should be."""
        return float(self._last_bad.value)

    def begin(self, phase: str) -> None:
        """What is seen from now on belongs to that phase."""
        self._pipe.send(phase)

    def stop(self) -> Sightings:
        """End it and return what it saw."""
        self._pipe.send("")
        if not self._pipe.poll(STOP_SECONDS):
            raise ConnectionError("the canary does not answer")
        found: Sightings = self._pipe.recv()
        self._process.join(STOP_SECONDS)
        return found

    def close(self) -> None:
        """End it, whatever it does. May be called twice."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._pipe.close()


# ------------------------------------------------------------------ in the canary's process


def prefer() -> None:
    """Have this process run as soon as it can, if we may say so."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        with contextlib.suppress(OSError):
            os.nice(-10)


class Shared(Protocol):
    """One number that both processes see."""

    value: float


def _live(target: Target, bad_ms: float, last_bad: Shared, pipe: Connection) -> None:
    prefer()
    try:
        watch = _Watch(target, bad_ms / 1000, last_bad, pipe)
    except Exception as error:  # noqa: BLE001 - the trial says it
        pipe.send(repr(error))
        return
    gc.freeze()
    gc.disable()
    pipe.send("")
    try:
        watch.run()
    except Exception:  # noqa: BLE001 - the report says it
        watch.lost = watch.lost or traceback.format_exc()
        watch.wait_for_end()
    pipe.send(Sightings(watch.phases, watch.lost))


class _Waiting:
    """What is waited for of one kind, oldest first."""

    def __init__(self, watch: _Watch, kind: str) -> None:
        self._watch = watch
        self._kind = kind
        # When each was sent, and for how long the canary had been blocked before that.
        self._begun: deque[tuple[float, float]] = deque()

    def __len__(self) -> int:
        return len(self._begun)

    def begin(self, now: float) -> None:
        self._begun.append((now, self._watch.blocked_until(now)))

    def end(self, now: float, count: int = 1) -> None:
        blocked = self._watch.blocked_until(now)
        for _ in range(min(count, len(self._begun))):
            began, blocked_before = self._begun.popleft()
            waited = max(0.0, now - began - (blocked - blocked_before))
            self._watch.waited(self._kind, waited, now)

    def oldest(self, now: float) -> float:
        """How long the oldest has waited."""
        if not self._begun:
            return 0.0
        began, blocked_before = self._begun[0]
        return now - began - (self._watch.blocked_until(now) - blocked_before)


class _Line:
    """One AMQP connection: what is to be sent, and frames as they come."""

    def __init__(self, client: Client) -> None:
        self.sock = client.sock
        self.sock.setblocking(False)
        self.inbox = bytearray(client.inbox)
        self._outbox = bytearray()

    def send(self, data: bytes) -> None:
        self._outbox += data
        self.flush()

    def flush(self) -> None:
        while self._outbox:
            try:
                sent = self.sock.send(self._outbox)
            except BlockingIOError:
                return
            del self._outbox[:sent]

    def methods(self) -> list[tuple[Ids, bytes]]:
        """The methods that have come.

        Raises:
            ConnectionError: the broker closed the connection or its channel.
        """
        try:
            data = self.sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return []
        if not data:
            raise ConnectionError("the broker closed the canary's connection")
        inbox = self.inbox
        inbox += data
        found: list[tuple[Ids, bytes]] = []
        at = 0
        while len(inbox) - at >= FRAME_OVERHEAD:
            kind, _, size = FRAME_HEAD.unpack_from(inbox, at)
            if len(inbox) - at < size + FRAME_OVERHEAD:
                break
            if kind == FRAME_METHOD:
                payload = bytes(inbox[at + 7 : at + 7 + size])
                ids: Ids = struct.unpack_from(">HH", payload)
                if ids in (CONNECTION_CLOSE, CHANNEL_CLOSE):
                    raise ConnectionError(f"the canary was closed: {close_reason(payload)}")
                found.append((ids, payload))
            at += size + FRAME_OVERHEAD
        del inbox[:at]
        return found


class _HealthCheck:
    """GET for the health, on a new connection each time, as load balancers do it."""

    def __init__(self, address: Address, path: str, authorization: str) -> None:
        self._address = address
        self._request = (
            f"GET {path} HTTP/1.1\r\nHost: {address[0]}\r\n"
            f"Authorization: {authorization}\r\nConnection: close\r\n\r\n"
        ).encode()
        self._answer = b""
        self._sent = False
        self.sock: socket.socket | None = None

    def begin(self) -> socket.socket:
        self.sock = socket.socket()
        self.sock.setblocking(False)
        self._answer, self._sent = b"", False
        self.sock.connect_ex(self._address)
        return self.sock

    def go_on(self) -> int | None:
        """Do what can be done.

        Returns:
            The status once it is there; 0: nobody answers; None: not yet.
        """
        assert self.sock is not None
        try:
            if not self._sent:
                self.sock.send(self._request)
                self._sent = True
            self._answer += self.sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return 0
        status = self._answer[9:12]
        return int(status) if len(status) == 3 and status.isdigit() else 0


class _Watch:
    """The canary at work."""

    def __init__(
        self, target: Target, bad_seconds: float, last_bad: Shared, pipe: Connection
    ) -> None:
        self._bad_seconds = bad_seconds
        self._last_bad = last_bad
        self._pipe = pipe
        self.phases: dict[str, Phase] = {"": Phase()}
        self._phase = self.phases[""]
        self.lost = ""
        self._blocked_at: float | None = None
        self._blocked_before = 0.0
        self._waiting = {kind: _Waiting(self, kind) for kind in KINDS}
        self._confirmed = 0

        url, queue = target.url("canary"), f"canary.{os.getpid()}"
        publisher = Client(url, capabilities=("connection.blocked",))
        consumer = Client(url)
        consumer.declare_queue(queue)
        publisher.select_confirm()
        consumer.consume(queue, no_ack=True)
        self._publisher, self._consumer = _Line(publisher), _Line(consumer)
        self._message = message(
            "", queue, BODY, persistent=False, frame_bytes_max=publisher.frame_bytes_max
        )
        passive = b"\0\0" + short(queue) + b"\x01" + bytes(4)
        self._declare = method(CHANNEL, QUEUE_DECLARE, passive)
        self._health: _HealthCheck | None = None
        if target.http is not None:
            self._health = _HealthCheck(
                target.http, target.health_path, target.authorization("canary")
            )
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._publisher.sock, selectors.EVENT_READ, self._on_publisher)
        self._selector.register(self._consumer.sock, selectors.EVENT_READ, self._on_consumer)
        self._selector.register(pipe, selectors.EVENT_READ, self._on_pipe)
        self._stopped = False

    # -------------------------------------------------------------- time

    def blocked_until(self, now: float) -> float:
        """For how many seconds the canary was blocked, from its beginning to now."""
        blocked = self._blocked_before
        return blocked + (now - self._blocked_at if self._blocked_at is not None else 0.0)

    def waited(self, kind: str, seconds: float, now: float) -> None:
        self._phase.waits_ms[kind].append(1000 * seconds)
        if seconds > self._bad_seconds:
            self._last_bad.value = now

    def run(self) -> None:
        due = health_due = time.monotonic()
        publishing = True
        while not self._stopped:
            now = time.monotonic()
            for key, _ in self._selector.select(max(0.0, min(due, health_due) - now)):
                key.data(time.monotonic())
            now = time.monotonic()
            if now >= due:
                self._phase.late_ms = max(self._phase.late_ms, 1000 * (now - due))
                self._tick(now, publishing=publishing)
                publishing = not publishing
                due = max(due + TICK_SECONDS, now - self._bad_seconds)
            if now >= health_due:
                health_due = now + HEALTH_SECONDS
                self._ask_health(now)
        now = time.monotonic()
        for kind, waiting in self._waiting.items():
            if oldest := waiting.oldest(now):
                self.waited(kind, oldest, now)
        self._phase.blocked_seconds += self.blocked_until(now) - self._phase_blocked

    _phase_blocked = 0.0

    def _tick(self, now: float, *, publishing: bool) -> None:
        waiting = self._waiting
        if any(one.oldest(now) > self._bad_seconds for one in waiting.values()):
            self._last_bad.value = now
        if self._blocked_at is not None:
            self._last_bad.value = now
        elif publishing and len(waiting[CONFIRM]) < OUTSTANDING_MAX:
            waiting[CONFIRM].begin(now)
            waiting[DELIVERY].begin(now)
            self._publisher.send(self._message)
        if not publishing and len(waiting[DECLARATION]) < OUTSTANDING_MAX:
            waiting[DECLARATION].begin(now)
            self._consumer.send(self._declare)
        self._publisher.flush()
        self._consumer.flush()

    # -------------------------------------------------------------- what comes

    def _on_publisher(self, now: float) -> None:
        for ids, payload in self._publisher.methods():
            if ids == BASIC_ACK:
                (tag,) = struct.unpack_from(">Q", payload, 4)
                self._waiting[CONFIRM].end(now, tag - self._confirmed)
                self._confirmed = max(self._confirmed, tag)
            elif ids == CONNECTION_BLOCKED and self._blocked_at is None:
                self._blocked_at = now
            elif ids == CONNECTION_UNBLOCKED and self._blocked_at is not None:
                self._blocked_before = self.blocked_until(now)
                self._blocked_at = None

    def _on_consumer(self, now: float) -> None:
        for ids, _ in self._consumer.methods():
            if ids == BASIC_DELIVER:
                self._waiting[DELIVERY].end(now)
            elif ids == DECLARE_OK:
                self._waiting[DECLARATION].end(now)

    def _on_pipe(self, now: float) -> None:
        self._phase.blocked_seconds += self.blocked_until(now) - self._phase_blocked
        self._phase_blocked = self.blocked_until(now)
        name = self._pipe.recv()
        if name:
            before = max(
                (max(waits) for waits in self._phase.waits_ms.values() if waits), default=0
            )
            self._bad_seconds = max(self._bad_seconds, before / 1000)
            self._phase = self.phases.setdefault(name, Phase())
        else:
            self._stopped = True

    # -------------------------------------------------------------- health

    def _ask_health(self, now: float) -> None:
        check = self._health
        if check is None or check.sock is not None:
            return
        if not self._waiting[HEALTH]:
            self._waiting[HEALTH].begin(now)
        events = selectors.EVENT_READ | selectors.EVENT_WRITE
        self._selector.register(check.begin(), events, self._on_health)

    def _on_health(self, now: float) -> None:
        check = self._health
        assert check is not None
        assert check.sock is not None
        status = check.go_on()
        if status is None:
            if check._sent:
                self._selector.modify(check.sock, selectors.EVENT_READ, self._on_health)
            return
        self._selector.unregister(check.sock)
        check.sock.close()
        check.sock = None
        if status:
            # An answer, also if it says that an alarm is on; what nobody answers waits on.
            self._waiting[HEALTH].end(now)
        if status != 200:
            self._last_bad.value = now

    def wait_for_end(self) -> None:
        """Something went wrong: it stays bad until the trial has noticed."""
        while True:
            self._last_bad.value = time.monotonic()
            if self._pipe.poll(TICK_SECONDS) and not self._pipe.recv():
                return


# ------------------------------------------------------------------ for the report


def summary(phase: Phase) -> Mapping[str, Any]:
    """The figures of a phase: milliseconds but for the last."""
    amqp = phase.amqp_ms()
    health = sorted(phase.waits_ms[HEALTH])
    return {
        "stall_ms": amqp[-1] if amqp else 0.0,
        "p99_ms": quantile(amqp, 0.99),
        "p999_ms": quantile(amqp, 0.999),
        "health_ms": health[-1] if health else 0.0,
        "late_ms": phase.late_ms,
        "blocked_seconds": phase.blocked_seconds,
        "answers": len(amqp),
    }
