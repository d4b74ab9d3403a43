"""What an attack is: a name, the bounds that others must be kept within, and what it does.

Responsible for the list of attacks and for what each is given. It does not know how a broker is
watched. Invariant: an attack acts through its `Ground` only, so that it can be made smaller, is
bound in time, and leaves nothing open when it ends.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from bench.attacks.peer import Peer
from bench.attacks.target import ATTACKER_ADDRESS, KINDS, LEPORID, Target

MB = 1_000_000
# As if the broker lived in a control group of 1.2 GB and had its alarm at the default of 0.6.
MEMORY_BYTES_MAX = 1_200 * MB
WATERMARK_BYTES = 720 * MB
HTTP_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a broker must keep, whatever its peers do.

    Attributes:
        stall_ms: the longest that an innocent client may wait for an answer.
        p999_ms: what one in a thousand of its answers may take; None: not judged.
        p99_factor: how many times longer than when idle its answers may take; None: not judged.
        health_ms: the longest that `/health` may take to answer; None: not judged.
        memory_bytes: the most that the broker may use.
        recovery_seconds: after the attacker has left, until nothing is to be noticed any more.
        probe_ms: the longest that what the attack keeps others from may take.
    """

    stall_ms: float = 50.0
    p999_ms: float | None = 5.0
    p99_factor: float | None = None
    health_ms: float | None = 50.0
    memory_bytes: int = MEMORY_BYTES_MAX
    recovery_seconds: float = 1.0
    probe_ms: float = 1000.0


# Under load, waiting is a matter of degree.
LOAD = Bounds(p99_factor=5.0, p999_ms=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much of everything.

    Attributes:
        scale: of the numbers of messages, queues and so on that the attacks name.
        seconds: how long an attack that only holds something does so.
        load_seconds: how long a load lasts.
        patience_seconds: after so long an attack is over, whatever it still wanted to do.
        recovery_seconds: how long to wait for the broker to be itself again.
    """

    scale: float = 1.0
    seconds: float = 5.0
    load_seconds: float = 60.0
    patience_seconds: float = 90.0
    recovery_seconds: float = 30.0


class NotApplicable(Exception):
    """The attack cannot be made on this broker; the message says why."""


class Ground:
    """What an attack acts on, and where it says what it has seen.

    Args:
        target: the broker.
        plan: how much.
    """

    def __init__(self, target: Target, plan: Plan) -> None:
        self.target = target
        self.plan = plan
        self.notes: list[str] = []
        # What else was measured: value, and the most it may be (None: it is only told).
        self.figures: dict[str, tuple[float, float | None]] = {}

    def count(self, number: int) -> int:
        """So many at full scale."""
        return max(1, round(number * self.plan.scale))

    @property
    def leporid(self) -> bool:
        """Whether the target is Leporid."""
        return self.target.kind == LEPORID

    def peer(self, user: str = "hostile", *, channels: int = 1, receive_bytes: int = 0) -> Peer:
        """A connection of that user, logged in, with its channels open."""
        return Peer(
            self.target.url(user),
            channels=channels,
            receive_bytes=receive_bytes,
            patience_seconds=self.plan.patience_seconds,
            note=self.note,
        )

    def note(self, text: str) -> None:
        """Say what happened; the same thing once."""
        if text not in self.notes:
            self.notes.append(text)

    def figure(self, name: str, value: float, bound: float | None = None) -> None:
        """Report what only this attack measures; the name ends in its unit."""
        self.figures[name] = value, bound

    def hold(self) -> None:
        """Keep what the attack has, for as long as the plan says."""
        time.sleep(self.plan.seconds)

    def need_users(self) -> None:
        """Skip the attack on a broker that has not the users it needs."""
        if not self.target.users:
            raise NotApplicable("needs users that a broker started elsewhere does not have")

    def http(self) -> tuple[str, int]:
        """Where HTTP is answered."""
        if self.target.http is None:
            raise NotApplicable("needs --http")
        return self.target.http

    def ask(
        self,
        verb: str,
        path: str,
        *,
        user: str = "hostile",
        body: bytes | None = None,
        seconds: float = HTTP_SECONDS,
    ) -> tuple[int, bytes]:
        """Make one HTTP request on a connection of its own: status and body."""
        host, port = self.http()
        with contextlib.closing(
            http.client.HTTPConnection(host, port, seconds, source_address=(ATTACKER_ADDRESS, 0))
        ) as connection:
            headers = {"Authorization": self.target.authorization(user)}
            connection.request(verb, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def set_policy(self, name: str, pattern: str, definition: dict[str, object]) -> None:
        """Set a policy for queues, as RabbitMQ's management does it."""
        body = json.dumps(
            {"pattern": pattern, "definition": definition, "apply-to": "queues", "priority": 1}
        ).encode()
        path = f"/api/policies/%2F/{urllib.parse.quote(name)}"
        status, said = self.ask("PUT", path, user="admin", body=body)
        if status >= 300:
            raise OSError(f"the policy was refused: {status} {said[:200]!r}")


# An attack is a generator that yields once: what stands before that is not measured. What it holds
# is closed when it ends.
Steps = Iterator[None]
Probe = Callable[[Ground], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack; its name is what the command line takes.

    Attributes:
        about: one line for people.
        run: what prepares it and, after its one `yield`, does it.
        bounds: what must be kept.
        brokers: the kinds of broker it can be made on.
        watermark_bytes: where the broker has its alarm.
        probe: what an innocent does again and again, in a process of its own; raises if it cannot.
        probe_every_seconds: between two of these.
        default_users: the broker has its default user only, as if nobody had configured it.
    """

    name: str
    about: str
    run: Callable[[Ground], Steps]
    bounds: Bounds = field(default_factory=Bounds)
    brokers: Sequence[str] = KINDS
    watermark_bytes: int = WATERMARK_BYTES
    probe: Probe | None = None
    probe_every_seconds: float = 0.25
    default_users: bool = False


ATTACKS: dict[str, Attack] = {}


def attack(
    name: str,
    *,
    bounds: Bounds | None = None,
    brokers: Sequence[str] = KINDS,
    watermark_bytes: int = WATERMARK_BYTES,
    probe: Probe | None = None,
    probe_every_seconds: float = 0.25,
    default_users: bool = False,
) -> Callable[[Callable[[Ground], Steps]], Callable[[Ground], Steps]]:
    """Put the decorated generator into the list, with its docstring as what it is about."""

    def put(run: Callable[[Ground], Steps]) -> Callable[[Ground], Steps]:
        about = " ".join((run.__doc__ or "").split())
        ATTACKS[name] = Attack(
            name=name,
            about=about,
            run=run,
            bounds=bounds or Bounds(),
            brokers=brokers,
            watermark_bytes=watermark_bytes,
            probe=probe,
            probe_every_seconds=probe_every_seconds,
            default_users=default_users,
        )
        return run

    return put


def with_memory(bounds: Bounds, memory_bytes: int) -> Bounds:
    """The same bounds with another limit of memory."""
    return replace(bounds, memory_bytes=memory_bytes)
