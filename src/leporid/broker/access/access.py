"""Who may log in, and what they may do then.

Responsible for the users, for checking a login (password, and that loopback-only users come
from loopback), and for refusing with RabbitMQ's texts. Must not know sockets or threads, and
draws nothing random: the secret of this process is given.

Invariants:

- A login is granted only on an answer that is in memory on the loop's thread. The slow part,
  `verify`, may run on any thread; all it can do is put that answer there, and what it puts there is
  bound to the very hash it was checked against, so a password changed meanwhile makes it worthless.
- Every login that is refused has cost the same: one hash of each set of argon2 parameters in use
  (as a rule there is one). It does not matter whether the user exists, how the password is kept, or
  why the login is refused. A login is fast only if it is granted, so the time tells nothing but to
  who knows the password.

`logins` does the three steps for AMQP and HTTP alike:

    if access.needs_hashing(credentials, loopback):
        access.verify(credentials)  # on another thread
    user = access.admit(credentials, loopback)
"""

from __future__ import annotations

import hmac
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

from leporid.amqp.errors import AccessRefused, NotAllowed
from leporid.broker.access.limits import NO_LIMITS
from leporid.broker.access.passwords import (
    ARGON2_COST,
    Argon2Hash,
    StoredPassword,
    decoy,
    keyed_digest,
    salted_sha256,
)
from leporid.broker.access.permissions import EVERYTHING, NO_PERMISSIONS, Kind, Permissions, Right
from leporid.broker.access.sasl import EXTERNAL, Credentials
from leporid.broker.access.topics import TopicPermission, TopicRight

if TYPE_CHECKING:
    from leporid.broker.access.remote_rights import RemoteRights

__all__ = ["Access", "Credentials", "User", "guest"]

logger = logging.getLogger(__name__)

# As many characters of a claimed user name as are worth a log line; AMQP names have 255 bytes.
LOGGED_NAME_MAX = 255

DEFAULT_USER: Final = "guest"
"""Who there is when nobody says who there is; also the password."""

BLANK: Final = "attempted to log in with a blank password"
INVALID: Final = "invalid credentials"
LOOPBACK_ONLY: Final = "can only connect via localhost"


@dataclass(frozen=True, slots=True)
class User:
    """One user at one moment; never changed, only replaced by another one.

    Attributes:
        name: the name.
        password: how the password is kept.
        tags: what the user may manage (`tags`); shown in the order in which they were given, which
            programs compare with what they gave.
        permissions: by virtual host; the user may enter those that it has some in.
        loopback_only: whether the user logs in from this machine only.
        topics: topic permissions, by virtual host and exchange.
        limits: those of `limits.USER_LIMITS` that are set.
        backend: who knows this user; "": this broker, whose users change at run time.
        expires_ms: when it ends, by the wall's clock; None: never.
        remote: has what a server says of its rights; None: they are known.
    """

    name: str
    password: StoredPassword
    tags: Collection[str] = ()
    permissions: Mapping[str, Permissions] = field(default_factory=lambda: NO_PERMISSIONS)
    loopback_only: bool = False
    topics: Mapping[str, Mapping[str, TopicPermission]] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=lambda: NO_LIMITS)
    backend: str = ""
    expires_ms: int | None = None
    remote: RemoteRights | None = None

    def may(self, right: Right, kind: Kind, name: str, vhost: str) -> bool:
        """Say whether this user has `right` on the exchange or queue `name` of `vhost`.

        This and what follows raise RightPending if `remote` does not know yet.
        """
        permissions = self.permissions.get(vhost)
        return permissions is not None and permissions.allow(right, kind, name)

    def check(self, right: Right, kind: Kind, name: str, vhost: str) -> None:
        """Raise AccessRefused (403, closes the channel) unless `may` says yes."""
        if not self.may(right, kind, name, vhost):
            shown = name or "amq.default" if kind == "exchange" else name
            raise AccessRefused(
                f"{right} access to {kind} '{shown}' in vhost '{vhost}' "
                f"refused for user '{self.name}'"
            )

    def check_key(self, right: TopicRight, exchange: str, key: str, vhost: str) -> None:
        """Raise AccessRefused (403) if topic permissions leave out that routing key.

        Without one for that exchange every key may be used. That it is a topic exchange is the
        caller's to know.
        """
        permission = self.topics.get(vhost, {}).get(exchange)
        if permission is not None and not permission.allows(right, key):
            raise AccessRefused(
                f"{right} access to topic '{key}' in exchange '{exchange}' in vhost "
                f"'{vhost}' refused for user '{self.name}'"
            )

    def still_allows(self, earlier: User, vhost: str | None = None) -> bool:
        """Say whether what this user was granted earlier still holds.

        Args:
            earlier: the user then.
            vhost: whose permissions were asked, too; None: tags decided alone.
        """
        return (
            set(self.tags) == set(earlier.tags)
            and self.password == earlier.password
            and self.loopback_only == earlier.loopback_only
            and (
                vhost is None
                or (
                    self.permissions.get(vhost) == earlier.permissions.get(vhost)
                    and self.topics.get(vhost) == earlier.topics.get(vhost)
                )
            )
        )

    def check_vhost(self, vhost: str) -> None:
        """Raise NotAllowed (530) unless this user has permissions in `vhost`, if only empty ones.

        That the vhost exists is the caller's to check.
        """
        if vhost not in self.permissions:
            raise NotAllowed(f"access to vhost '{vhost}' refused for user '{self.name}'")


def guest(salt: bytes, vhost: str = "/") -> User:
    """Make RabbitMQ's default user: guest/guest, every right on "/", from loopback only.

    The password is no secret, so it is kept as RabbitMQ does: argon2 would only cost time.
    """
    return User(
        name=DEFAULT_USER,
        password=salted_sha256(DEFAULT_USER, salt),
        tags=("administrator",),
        permissions={vhost: EVERYTHING},
        loopback_only=True,
    )


@dataclass(slots=True)
class LoginAttempts:
    """Counts of logins since the start, or since the last reset.

    A login is one, however many back ends were asked.

    Attributes:
        granted: by mechanism; over HTTP each request is one.
        refused: likewise.
    """

    granted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def count(self, mechanism: str, *, granted: bool) -> None:
        """Count a login that was answered."""
        (self.granted if granted else self.refused)[mechanism] += 1

    def reset(self) -> None:
        """Begin anew."""
        self.granted.clear()
        self.refused.clear()


def compared_here(stored: Argon2Hash, password: bytes) -> bool:
    """Compare a password with an argon2 hash on this thread."""
    return stored.matches(password)


class Access:
    """The users of one broker.

    Args:
        users: the users to start with; later ones replace earlier ones of the same name.
        secret: random bytes made anew by each process, to key what is kept of good passwords.
        matches: compares a password with an argon2 hash; only `verify` calls it.

    Attributes:
        version: grows with each change of a user.
        attempts: counts logins.
    """

    def __init__(
        self,
        users: Iterable[User],
        secret: bytes,
        matches: Callable[[Argon2Hash, bytes], bool] = compared_here,
    ) -> None:
        self._secret = secret
        self._matches = matches
        self.version = 0
        self.attempts = LoginAttempts()
        self._users: dict[str, User] = {}
        # Per user the digest of the password that argon2 last found right.
        self._verified: dict[str, bytes] = {}
        # How many users have hashes of each cost.
        self._costs: Counter[str] = Counter()
        # By cost, what a password is hashed against where the user has no hash of that cost.
        self._decoys: Mapping[str, Argon2Hash] = {ARGON2_COST: decoy(ARGON2_COST)}
        for user in users:
            self.put_user(user)
        self.check_costs()

    def check_costs(self) -> None:
        """Warn of hashes that make refused logins expensive."""
        if len(self._costs) > 1:
            logger.warning(
                "the users' argon2 hashes have %d different sets of parameters: each refused login "
                "costs a hash of each; hash all passwords with the same parameters",
                len(self._costs),
            )

    def __repr__(self) -> str:
        return f"<Access users={len(self._users)}>"

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def user(self, name: str) -> User | None:
        """Return the user called `name`, as of now."""
        return self._users.get(name)

    def current(self, user: User) -> User | None:
        """Return a user as of now: one of another back end stays what it was when it logged in."""
        return user if user.backend else self._users.get(user.name)

    def require(self, name: str) -> User:
        """Return the user called `name`; raises LookupError without one."""
        user = self._users.get(name)
        if user is None:
            raise LookupError(f"there is no user '{name}'")
        return user

    def put_user(self, user: User) -> None:
        """Add or replace a user; what was verified for an older password stops counting."""
        old = self._users.get(user.name)
        self._users[user.name] = user
        self.version += 1
        if old is None or old.password != user.password:
            self._count_costs(old, user)

    def drop_user(self, name: str) -> None:
        """Remove a user."""
        old = self._users.pop(name)
        self._verified.pop(name, None)
        self.version += 1
        self._count_costs(old, None)

    def _count_costs(self, old: User | None, new: User | None) -> None:
        if old is not None and isinstance(old.password, Argon2Hash):
            self._costs[old.password.cost] -= 1
        if new is not None and isinstance(new.password, Argon2Hash):
            self._costs[new.password.cost] += 1
        self._costs = +self._costs
        # Replaced as a whole: another thread may be going through it.
        self._decoys = {cost: decoy(cost) for cost in self._costs or (ARGON2_COST,)}

    def needs_hashing(self, credentials: Credentials, loopback: bool) -> bool:
        """Say whether `verify` must run before `admit` is asked: unless it will grant the login."""
        user = self._users.get(credentials.username)
        return user is None or self._objection(user, credentials, loopback) is not None

    def verify(self, credentials: Credentials) -> bool:
        """Hash the claimed password and remember it if it is right; safe on any thread.

        Takes tens of milliseconds, with the interpreter lock released, and equally long for
        whatever is claimed. The dictionaries are each touched by one operation that is atomic in
        itself, so no lock is needed.
        """
        user = self._users.get(credentials.username)
        stored = None if user is None else user.password
        right = False
        if stored is not None and not isinstance(stored, Argon2Hash):
            right = stored.matches(credentials.password)
        for cost, other in self._decoys.items():
            if isinstance(stored, Argon2Hash) and stored.cost == cost:
                right = self._matches(stored, credentials.password)
            else:
                self._matches(other, credentials.password)
        if not right or not credentials.password:
            return False
        if user is not None and isinstance(stored, Argon2Hash):
            self._verified[user.name] = self._digest(stored, credentials)
        return True

    def admit(self, credentials: Credentials, loopback: bool) -> User:
        """Return the user, or refuse; costs microseconds.

        Raises:
            AccessRefused: unknown user, wrong or blank password, or a loopback-only user from
                elsewhere. The peer is told the same in all cases; the log is told which.
        """
        user = self._users.get(credentials.username)
        if user is None:
            self._refuse(credentials, INVALID if credentials.password else BLANK)
        objection = self._objection(user, credentials, loopback)
        if objection is not None:
            self._refuse(credentials, objection)
        return user

    def admit_certified(self, name: str | None, loopback: bool) -> User:
        """Return the user that a verified certificate stands for, or refuse as `admit`.

        Args:
            name: as the certificate has it; None: it has none that a user can have.
            loopback: whether the peer is of this machine.
        """
        claimed = Credentials(EXTERNAL, name or "", b"")
        try:
            if name is None:
                self._refuse(claimed, "the certificate has no such name (tls.login_from)")
            unknown = "the certificate is of no user (tls.login_from)"
            user = self.admit_known(claimed, loopback, unknown)
        except AccessRefused:
            self.attempts.count(EXTERNAL, granted=False)
            raise
        self.attempts.count(EXTERNAL, granted=True)
        return user

    def admit_known(self, claimed: Credentials, loopback: bool, unknown: str) -> User:
        """Return the user of a name that was found right elsewhere, or refuse as `admit`.

        Args:
            claimed: the name; its password is not looked at.
            loopback: whether the peer is of this machine.
            unknown: what the log is told if there is no such user.
        """
        user = self._users.get(claimed.username)
        if user is None:
            self._refuse(claimed, unknown)
        if user.loopback_only and not loopback:
            self._refuse(claimed, LOOPBACK_ONLY)
        return user

    def is_refused_as_remote(self, credentials: Credentials, loopback: bool) -> bool:
        """Say whether the password is right and the user may come from this machine only.

        To be asked after `admit` has refused. Who knows the password may be told; nobody else is.
        """
        user = self._users.get(credentials.username)
        return user is not None and self._objection(user, credentials, loopback) == LOOPBACK_ONLY

    def _objection(self, user: User, credentials: Credentials, loopback: bool) -> str | None:
        """Say why a user may not log in so, as far as is known now; None if nothing is against."""
        if not credentials.password:
            return BLANK
        if not self._is_right(user, credentials):
            return INVALID
        if user.loopback_only and not loopback:
            return LOOPBACK_ONLY
        return None

    def _is_right(self, user: User, credentials: Credentials) -> bool:
        if isinstance(user.password, Argon2Hash):
            return self._was_verified(user, credentials)
        return user.password.matches(credentials.password)

    def _was_verified(self, user: User, credentials: Credentials) -> bool:
        known = self._verified.get(user.name)
        if known is None or not isinstance(user.password, Argon2Hash):
            return False
        return hmac.compare_digest(known, self._digest(user.password, credentials))

    def _digest(self, stored: Argon2Hash, credentials: Credentials) -> bytes:
        return keyed_digest(self._secret, stored.text.encode(), credentials.password)

    def _refuse(self, credentials: Credentials, why: str) -> NoReturn:
        mechanism = credentials.mechanism
        # ascii() keeps line breaks and terminal escapes in a claimed name out of the log.
        name = ascii(credentials.username[:LOGGED_NAME_MAX])
        logger.warning("%s login refused: user %s - %s", mechanism, name, why)
        raise AccessRefused(login_refused(mechanism), connection=True)


def login_refused(mechanism: str) -> str:
    """Return the text of every refused login, whatever the reason; RabbitMQ's words."""
    return (
        f"Login was refused using authentication mechanism {mechanism}. "
        "For details see the broker logfile."
    )
