"""Rights that a server outside of the broker decides: its answers, which count for a while.

Responsible for the answers about one user, for asking again before they are too old, and for work
that waits until a right is known. Must not know who is asked, nor how. Invariants: a right is
granted only by an answer that is younger than `age_s`; an answer that does not come grants nothing;
the same is asked once at a time; of one user, ANSWERS_MAX answers are kept and ASKING_MAX questions
are open at most.

Checks of rights return at once (`User.may`). One that is not known raises `RightPending`, which is
no fault: nothing was changed, and whoever called asks, waits, and begins anew. `decided` does so in
steps, and `RightsJob` has no turns while its steps wait.

Source: RabbitMQ's rabbitmq_auth_backend_http: which resources there are, and what is said of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from leporid.amqp.errors import AccessRefused
from leporid.broker.access.permissions import (
    DEFAULT_EXCHANGE_NAME,
    Kind,
    Pattern,
    Permissions,
    Right,
    Unlisted,
)
from leporid.broker.access.topics import TopicPermission, TopicRight

if TYPE_CHECKING:
    from leporid.broker.registry import StepsTo
    from leporid.engine.bounds.jobs import Jobs

T = TypeVar("T")

ANSWERS_MAX: Final = 4096
"""Of one user at one address. They take 2 MB, and 4 MB with names of 255 octets."""

ASKING_MAX: Final = 2048
"""Likewise. All that one message needs (the routing keys of its CC and BCC) is asked at the same
time, so that their answers are there at the same time, too."""

NAME_CHARACTERS_MAX: Final = 255
"""Nothing has a longer name in AMQP; over HTTP anybody may say one."""

AGE_S_MIN: Final = 1.0
"""However short answers are to count: one operation may need several."""

FAILED_S: Final = 1.0
"""For so long nobody asks again what was not answered: it is refused."""

ROUNDS_MAX: Final = 16
"""Rights that one operation may wait for, one after the other; a declaration needs four."""

Leave = Callable[[], None]
_Waiting = OrderedDict[object, Callable[[], None]]


class RightQuery(NamedTuple):
    """What is asked about one user.

    Attributes:
        resource: of what kind it is.
        vhost: its virtual host, or the one to enter.
        name: the queue's, or the exchange's; "" of a virtual host.
        right: likewise.
        key: the routing key, if the resource is a topic.
    """

    resource: Literal["vhost", "exchange", "queue", "topic"]
    vhost: str
    name: str = ""
    right: Right | Literal[""] = ""
    key: str = ""


class _Answer(NamedTuple):
    granted: bool
    until_s: float
    renewed_from_s: float


class PendingRight:
    """A right that is not known yet."""

    __slots__ = ("_query", "_rights")

    def __init__(self, rights: RemoteRights, query: RightQuery) -> None:
        self._rights = rights
        self._query = query

    def __repr__(self) -> str:
        return f"<PendingRight {self._query}>"

    def ask(self, answered: Callable[[], None]) -> Leave:
        """Have it decided; `answered` is called once, maybe at once.

        Returns:
            What ends the waiting: then it is not called.
        """
        return self._rights.ask(self._query, answered)


class RightPending(Exception):
    """A right is not known yet: the caller changes nothing, waits, and begins again."""

    def __init__(self, pending: PendingRight) -> None:
        super().__init__()
        self.pending = pending


class RemoteRights:
    """What is known of one user's rights.

    Args:
        send: (query, answered) has the server asked; `answered` is called once, maybe at once, with
            what it says, None if it says nothing that counts.
        age_s: returns how long an answer counts.
        now_s: seconds.
        revoked: called when a right has been granted before, and is not any more.
        jobs: where those that wait for one answer are told of it: there may be very many.
    """

    def __init__(
        self,
        send: Callable[[RightQuery, Callable[[bool | None], None]], None],
        age_s: Callable[[], float],
        now_s: Callable[[], float],
        revoked: Callable[[], None],
        jobs: Jobs,
    ) -> None:
        self._send = send
        self._age_s = age_s
        self._now_s = now_s
        self._revoked = revoked
        self._jobs = jobs
        self._answers: OrderedDict[RightQuery, _Answer] = OrderedDict()
        self._asking: dict[RightQuery, _Waiting] = {}

    def __repr__(self) -> str:
        return f"<RemoteRights answers={len(self._answers)} asking={len(self._asking)}>"

    @property
    def answer_count(self) -> int:
        """How many answers are kept."""
        return len(self._answers)

    @property
    def recheck_ms(self) -> int:
        """How often rights that are in use are to be asked about: so that all are renewed."""
        return int(max(AGE_S_MIN, self._age_s()) * 1000) // 4

    def grants(self, query: RightQuery) -> bool:
        """Say whether a right is granted.

        Raises:
            RightPending: there is no answer yet, or it is too old.
            AccessRefused: likewise, and too many are waited for already.
        """
        if max(map(len, (query.vhost, query.name, query.key))) > NAME_CHARACTERS_MAX:
            return False
        found, now_s = self._answers.get(query), self._now_s()
        if found is None or found.until_s <= now_s:
            if len(self._asking) >= ASKING_MAX and query not in self._asking:
                raise AccessRefused(f"{ASKING_MAX} rights of this user are being asked about")
            raise RightPending(PendingRight(self, query))
        self._answers.move_to_end(query)
        if found.renewed_from_s <= now_s and query not in self._asking:
            self._begin(query)
        return found.granted

    def ask(self, query: RightQuery, answered: Callable[[], None]) -> Leave:
        """Have a right decided; see `PendingRight.ask`."""
        key = object()
        begun = query in self._asking
        waiting = self._asking.setdefault(query, OrderedDict())
        waiting[key] = answered
        if not begun:
            self._begin(query)

        def leave() -> None:
            waiting.pop(key, None)

        return leave

    def _begin(self, query: RightQuery) -> None:
        self._asking.setdefault(query, OrderedDict())
        self._send(query, lambda granted: self._answered(query, granted))

    def _answered(self, query: RightQuery, granted: bool | None) -> None:
        was_revoked = self._keep(query, granted)
        self._jobs.start(_telling(self._asking.pop(query, OrderedDict())))
        if was_revoked:
            self._revoked()

    def _keep(self, query: RightQuery, granted: bool | None) -> bool:
        """Keep an answer; returns whether it takes a right away."""
        now_s, before = self._now_s(), self._answers.pop(query, None)
        if granted is not None:
            age_s = max(AGE_S_MIN, self._age_s())
            kept = _Answer(granted, now_s + age_s, now_s + age_s / 2)
        elif before is not None and now_s < before.until_s:
            # It could not be renewed: it counts to its end, and no longer.
            kept = before._replace(renewed_from_s=now_s + FAILED_S)
        else:
            kept = _Answer(False, now_s + FAILED_S, now_s + FAILED_S)
        self._answers[query] = kept
        if len(self._answers) > ANSWERS_MAX:
            self._answers.popitem(last=False)
        return before is not None and before.granted and not kept.granted


def _telling(waiting: _Waiting) -> Iterator[None]:
    """Tell all that wait for an answer, in order, and not those that leave meanwhile."""
    while waiting:
        _, answered = waiting.popitem(last=False)
        answered()
        yield


_NOTHING: Final = Pattern("")


class RemotePermissions(Unlisted[Permissions]):
    """The permissions of a user by virtual host, all of which have some; none are listed."""

    def __init__(self, rights: RemoteRights) -> None:
        self._rights = rights

    def __repr__(self) -> str:
        return f"<RemotePermissions {self._rights!r}>"

    def __contains__(self, vhost: object) -> bool:
        """Say whether the user may enter a virtual host; raises RightPending."""
        return isinstance(vhost, str) and self._rights.grants(RightQuery("vhost", vhost))

    def __getitem__(self, vhost: str) -> Permissions:
        return _VhostPermissions(_NOTHING, _NOTHING, _NOTHING, self._rights, vhost)


@dataclass(frozen=True, slots=True, eq=False)
class _VhostPermissions(Permissions):
    """Those in one virtual host. They have no patterns, and show the one that grants nothing."""

    rights: RemoteRights
    vhost: str

    def allow(self, right: Right, kind: Kind, name: str) -> bool:
        """Say whether a right is granted; raises RightPending."""
        if kind == "exchange" and not name:
            name = DEFAULT_EXCHANGE_NAME
        return self.rights.grants(RightQuery(kind, self.vhost, name, right))


class RemoteTopics(Unlisted[Mapping[str, TopicPermission]]):
    """The topic permissions of a user by virtual host and exchange; every exchange has some."""

    def __init__(self, rights: RemoteRights) -> None:
        self._rights = rights

    def __contains__(self, vhost: object) -> bool:
        return isinstance(vhost, str)

    def __getitem__(self, vhost: str) -> Mapping[str, TopicPermission]:
        return _VhostTopics(self._rights, vhost)


class _VhostTopics(Unlisted[TopicPermission]):
    """Those in one virtual host, by exchange."""

    def __init__(self, rights: RemoteRights, vhost: str) -> None:
        self._rights = rights
        self._vhost = vhost

    def __contains__(self, exchange: object) -> bool:
        return isinstance(exchange, str)

    def __getitem__(self, exchange: str) -> TopicPermission:
        return _RemoteTopic("", "", _NOTHING, _NOTHING, self._rights, self._vhost, exchange)


@dataclass(frozen=True, slots=True, eq=False)
class _RemoteTopic(TopicPermission):
    """That of one exchange."""

    rights: RemoteRights
    vhost: str
    exchange: str

    def allows(self, right: TopicRight, key: str) -> bool:
        """Say whether the right on a routing key is granted; raises RightPending."""
        return self.rights.grants(RightQuery("topic", self.vhost, self.exchange, right, key))


# ---------------------------------------------------------------- work that waits


def decided(check: Callable[[], T]) -> StepsTo[T]:
    """Give the steps to what a check says; each `PendingRight` in its way is one of them.

    Args:
        check: changes nothing before its last right is known.

    Raises:
        AccessRefused: it waits for more rights than ROUNDS_MAX; and what the check raises.
    """
    for _ in range(ROUNDS_MAX):
        try:
            return check()
        except RightPending as unknown:
            pending = unknown.pending
        yield pending
    raise too_many_rounds()


def too_many_rounds() -> AccessRefused:
    """Refuse what needs one right after another, or whose answers are old before the last one."""
    return AccessRefused(f"more than {ROUNDS_MAX} rights had to be asked of another server")


class RightsJob:
    """A job whose steps may wait for rights: meanwhile it is none, and takes no turns.

    Args:
        jobs: where it has its turns.
        steps: what to do; a step that is a `PendingRight` is waited for.
        done: is called with what they return.
        failed: is called with what they raise; None: `Jobs.on_defect` is.
        waiting: has those that wait; whoever ends calls `leave` of each.
        left: called instead of the other two after `leave`.
    """

    __slots__ = ("_done", "_failed", "_jobs", "_leave", "_left", "_outcome", "_steps", "_waiting")

    def __init__(
        self,
        jobs: Jobs,
        steps: StepsTo[Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None] | None,
        waiting: dict[RightsJob, None],
        left: Callable[[], None],
    ) -> None:
        self._jobs = jobs
        self._steps = steps
        self._done = done
        self._failed = failed
        self._waiting = waiting
        self._left = left
        self._leave: Leave = _nothing
        self._outcome: Any = None
        self._go_on()

    def leave(self) -> None:
        """Wait no longer, and do nothing of what is left."""
        self._waiting.pop(self, None)
        self._leave()
        self._steps.close()
        self._left()

    def _go_on(self) -> None:
        self._jobs.start(self._until_waiting(), self._stopped, self._failed)

    def _until_waiting(self) -> StepsTo[bool]:
        """Take steps; returns whether there are no more of them."""
        while True:
            try:
                step = next(self._steps)
            except StopIteration as end:
                self._outcome = end.value
                return True
            if isinstance(step, PendingRight):
                self._waiting[self] = None
                leave = step.ask(self._answered)
                if self in self._waiting:
                    self._leave = leave
                return False
            yield step

    def _stopped(self, ended: bool) -> None:
        if ended:
            self._done(self._outcome)

    def _answered(self) -> None:
        self._leave = _nothing
        del self._waiting[self]
        self._go_on()


def _nothing() -> None:
    """There is nothing to give up."""
