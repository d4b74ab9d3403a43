"""Back ends: who knows users, asked in turn, until one lets somebody in.

Responsible for the order, and for what a peer and the log are told. Must not know how a back end
finds out: the broker's own users are one (`Internal`), the server adds others, which may have to
wait for something outside of the process. Invariants: each login is answered once, unless it leaves
before; a peer whom nobody lets in is told the same, whatever the reasons.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from leporid.amqp.errors import AccessRefused, NotAllowed
from leporid.broker.access.access import (
    LOGGED_NAME_MAX,
    Access,
    LoginAttempts,
    User,
    login_refused,
)
from leporid.broker.access.logins import Logins, TooManyLogins

if TYPE_CHECKING:
    from leporid.broker.access.sasl import Credentials

logger = logging.getLogger(__name__)

INTERNAL: Final = "internal"
BEARER: Final = "Bearer"
"""The mechanism of a token by itself, over HTTP: no password of ours."""

UNTOLD: Final = "The token was refused; the log of the broker says why"
EXPIRED: Final = "The token has expired"

Leave = Callable[[], None]
Answer = Callable[["User | AccessRefused | str"], None]


@dataclass(frozen=True, slots=True)
class LoginRequest:
    """A claimed identity, and where the peer is.

    Attributes:
        credentials: name and password, or a token.
        address: whom the peer shares its turns with.
        loopback: whether the peer is of this machine.
        host: the peer's address; "" if there is none.
    """

    credentials: Credentials
    address: Hashable
    loopback: bool
    host: str = ""


class TokenRefused(AccessRefused):
    """A token that was sent by itself, without a user name, is refused.

    Attributes:
        told: what its holder may know: that it has expired, which the token says, too.
    """

    def __init__(self, told: str) -> None:
        super().__init__(login_refused(BEARER), connection=True)
        self.told = told


class Backend(Protocol):
    """Knows users."""

    name: str

    def log_in(self, login: LoginRequest, answer: Answer) -> Leave:
        """Check a login.

        Args:
            login: what is claimed.
            answer: called once, maybe at once, unless it was left: with the user; with why not, for
                the log, "" if that need not be known; or with AccessRefused, which is the end.

        Returns:
            What gives the place up, because the peer is gone.
        """

    def renew(self, user: User, secret: bytes, answer: Answer) -> Leave:
        """Check a new secret of a user that this back end logged in; as `log_in`."""


class Internal:
    """The broker's own users.

    Args:
        access: they.
        logins: returns who waits for a hash.
    """

    name = INTERNAL

    def __init__(self, access: Access, logins: Callable[[], Logins]) -> None:
        self._access = access
        self._logins = logins

    def log_in(self, login: LoginRequest, answer: Answer) -> Leave:
        """Compare passwords; see `Backend`."""
        if login.credentials.mechanism == BEARER:
            answer("")
            return _nothing

        def answered(refusal: TooManyLogins | None) -> None:
            if refusal is not None:
                answer(refusal)
                return
            try:
                user = self._access.admit(login.credentials, login.loopback)
            except AccessRefused:
                answer("")  # which `access` has logged
            else:
                answer(user)

        try:
            hashing = self._logins().begin(
                login.credentials, login.address, loopback=login.loopback, answered=answered
            )
        except TooManyLogins as full:
            answer(full)
            return _nothing
        if hashing is None:
            answered(None)
            return _nothing
        return hashing.leave

    def renew(self, user: User, secret: bytes, answer: Answer) -> Leave:
        """Change nothing: our users' passwords do not expire."""
        answer(user)
        return _nothing


class PendingLogin:
    """One login, on its way from one back end to the next.

    Attributes:
        ended: whether it was answered, or has left.
    """

    __slots__ = (
        "_answered",
        "_attempts",
        "_backends",
        "_leave",
        "_login",
        "_place",
        "_refusals",
        "ended",
    )  # fmt: skip

    def __init__(
        self,
        backends: Sequence[Backend],
        login: LoginRequest,
        answered: Callable[[User | AccessRefused], None],
        attempts: LoginAttempts,
    ) -> None:
        self._backends = iter(backends)
        self._login = login
        self._attempts = attempts
        self._answered: Callable[[User | AccessRefused], None] | None = answered
        self._leave: Leave = _nothing
        self._place = 0
        self._refusals: list[tuple[str, str]] = []
        self.ended = False

    def go_on(self) -> None:
        """Ask the next back end."""
        backend = next(self._backends, None)
        if backend is None:
            refused = login_refused(self._login.credentials.mechanism)
            self._end(AccessRefused(refused, connection=True))
            return
        self._place += 1
        place = self._place

        def answer(found: User | AccessRefused | str) -> None:
            if self.ended or place != self._place:
                return
            if not isinstance(found, str):
                self._end(found)
                return
            if found:
                self._refusals.append((backend.name, found))
            self.go_on()

        leave = backend.log_in(self._login, answer)
        if place == self._place and not self.ended:
            self._leave = leave

    def _end(self, found: User | AccessRefused) -> None:
        self.ended = True
        self._leave = _nothing
        mechanism = self._login.credentials.mechanism
        self._attempts.count(mechanism, granted=isinstance(found, User))
        # Where several are asked in turn, most users are known to the last: that is no warning.
        self._tell(logging.DEBUG if isinstance(found, User) else logging.WARNING)
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(found)

    def leave(self) -> None:
        """Give it up, because the peer is gone; after the answer, nothing happens."""
        self.ended = True
        self._answered = None
        self._tell(logging.WARNING)
        leave, self._leave = self._leave, _nothing
        leave()

    def _tell(self, level: int) -> None:
        refusals, self._refusals = self._refusals, []
        for backend, why in refusals:
            log_refusal(backend, self._login.credentials, why, level)


class Backends:
    """The back ends of one broker.

    Args:
        internal: the broker's own users, who alone are asked until `use` says otherwise.
        attempts: counts logins.

    Attributes:
        internal: they.
    """

    def __init__(self, internal: Backend, attempts: LoginAttempts) -> None:
        self.internal = internal
        self._attempts = attempts
        self._backends: tuple[Backend, ...] = (internal,)

    def __repr__(self) -> str:
        return f"<Backends {' '.join(each.name for each in self._backends)}>"

    def use(self, backends: Sequence[Backend]) -> None:
        """Ask these from now on, in this order."""
        self._backends = tuple(backends)

    @property
    def ask_internal(self) -> bool:
        """Whether the broker's own users are asked, who alone log in by certificate."""
        return self.internal in self._backends

    def log_in(
        self, login: LoginRequest, answered: Callable[[User | AccessRefused], None]
    ) -> PendingLogin:
        """Have a login checked; `answered` may be called before this returns."""
        attempt = PendingLogin(self._backends, login, answered, self._attempts)
        attempt.go_on()
        return attempt

    def renew(
        self,
        user: User,
        secret: bytes,
        answered: Callable[[User | NotAllowed], None],
        left: Callable[[], None],
    ) -> Renewal:
        """Have a user's new secret checked (connection.update-secret).

        Args:
            user: as of now.
            secret: the new one.
            answered: called once: with the user as it is from now on, or with why not.
            left: called instead if the peer is gone before.
        """
        renewal = Renewal(user, answered, left)
        # The broker's own users may have been let in by a server that was asked about a password.
        for backend in (*self._backends, self.internal):
            if backend.name == (user.backend or INTERNAL):
                renewal.begin(backend, secret)
                return renewal
        renewal.answer("its back end is not asked any more")
        return renewal


class Renewal:
    """A new secret of a user, which is being checked.

    Attributes:
        ended: whether it was answered, or has left.
    """

    __slots__ = ("_answered", "_leave", "_left", "_user", "ended")

    def __init__(
        self,
        user: User,
        answered: Callable[[User | NotAllowed], None],
        left: Callable[[], None],
    ) -> None:
        self._user = user
        self._answered = answered
        self._left = left
        self._leave: Leave = _nothing
        self.ended = False

    def begin(self, backend: Backend, secret: bytes) -> None:
        """Ask the back end that logged the user in."""
        leave = backend.renew(self._user, secret, self.answer)
        if not self.ended:
            self._leave = leave

    def answer(self, found: User | AccessRefused | str) -> None:
        """Say how it went."""
        if self.ended:
            return
        self.ended = True
        if isinstance(found, User):
            self._answered(found)
            return
        name = ascii(self._user.name[:LOGGED_NAME_MAX])
        logger.warning("secret update refused: user %s - %s", name, found)
        self._answered(NotAllowed("New secret was refused by one of the backends"))

    def leave(self) -> None:
        """Give it up, because the peer is gone."""
        if not self.ended:
            self.ended = True
            self._leave()
            self._left()


def log_refusal(
    backend: str, credentials: Credentials, why: str, level: int = logging.WARNING
) -> None:
    """Log why a back end refused a login; nothing of a password or token."""
    name = ascii(credentials.username[:LOGGED_NAME_MAX])
    said = "%s login refused by %s: user %s - %s"
    logger.log(level, said, credentials.mechanism, backend, name, why)


def _nothing() -> None:
    """There is nothing to give up."""
