"""Who may log in, and what they may do then.

Responsible for the users, for checking a login (password, and that loopback-only users come
from loopback), and for refusing with RabbitMQ's texts. Must not know sockets or threads, and
draws nothing random: the secret of this process is given.

Invariant: a login is granted only on an answer that is in memory on the loop's thread. The slow
part, `verify`, may run on any thread; all it can do is put that answer there, and what it puts
there is bound to the very hash it was checked against, so a password changed meanwhile makes it
worthless. A server does

    credentials = parse_response(mechanism, response)
    if access.needs_hashing(credentials):
        await loop.run_in_executor(pool, access.verify, credentials)
    user = access.admit(credentials, loopback)
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from leporid.amqp.errors import AccessRefused, NotAllowed
from leporid.broker.access.passwords import Argon2Hash, StoredPassword, from_clear, keyed_digest
from leporid.broker.access.permissions import EVERYTHING, NO_PERMISSIONS, Kind, Permissions, Right
from leporid.broker.access.sasl import MECHANISMS, Credentials, parse_response

__all__ = ["MECHANISMS", "Access", "Credentials", "User", "guest", "parse_response"]

logger = logging.getLogger(__name__)

# As many characters of a claimed user name as are worth a log line; AMQP names have 255 bytes.
LOGGED_NAME_MAX = 255


@dataclass(frozen=True, slots=True)
class User:
    """One user as the configuration or an administrator wrote them down; never changed."""

    name: str
    password: StoredPassword
    tags: frozenset[str] = frozenset()
    permissions: Mapping[str, Permissions] = field(default_factory=lambda: NO_PERMISSIONS)
    loopback_only: bool = False

    def may(self, right: Right, kind: Kind, name: str, vhost: str) -> bool:
        """Say whether this user has `right` on the exchange or queue `name` of `vhost`."""
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

    def check_vhost(self, vhost: str) -> None:
        """Raise NotAllowed (530) unless this user has permissions in `vhost`, if only empty ones.

        That the vhost exists is the caller's to check.
        """
        if vhost not in self.permissions:
            raise NotAllowed(f"access to vhost '{vhost}' refused for user '{self.name}'")


def guest(secret: bytes, vhost: str = "/") -> User:
    """Make RabbitMQ's default user: guest/guest, every right on "/", from loopback only."""
    return User(
        name="guest",
        password=from_clear("guest", secret),
        tags=frozenset({"administrator"}),
        permissions={vhost: EVERYTHING},
        loopback_only=True,
    )


class Access:
    """The users of one broker.

    Args:
        users: the users to start with; later ones replace earlier ones of the same name.
        secret: random bytes made anew by each process, to key what is kept of good passwords.
    """

    def __init__(self, users: Iterable[User], secret: bytes) -> None:
        self._secret = secret
        self._users: dict[str, User] = {}
        # Per user the digest of the password that argon2 last found right.
        self._verified: dict[str, bytes] = {}
        # What the password of an unknown user is hashed against, so that the time an answer
        # takes does not tell which users exist.
        self._decoy: Argon2Hash | None = None
        for user in users:
            self.put_user(user)

    def __repr__(self) -> str:
        return f"<Access users={len(self._users)}>"

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def user(self, name: str) -> User | None:
        """Return the user called `name`, as of now."""
        return self._users.get(name)

    def put_user(self, user: User) -> None:
        """Add or replace a user; what was verified for an older password stops counting."""
        self._users[user.name] = user
        self._choose_decoy()

    def authenticate(self, mechanism: str, response: bytes, loopback: bool) -> User:
        """Check a login in one go, hashing on this thread if it must be.

        Args:
            mechanism: the client's choice from MECHANISMS.
            response: the SASL response of connection.start-ok.
            loopback: whether the PEER's address (not the listener's) is a loopback one.

        Raises:
            AccessRefused: as `admit`.
            CommandInvalid, SyntaxFault: as `parse_response`.
        """
        credentials = parse_response(mechanism, response)
        if self.needs_hashing(credentials):
            self.verify(credentials)
        return self.admit(credentials, loopback)

    def needs_hashing(self, credentials: Credentials) -> bool:
        """Say whether `verify` must run before `admit` can know the answer."""
        if not credentials.password:
            return False
        user = self._users.get(credentials.username)
        if user is None:
            return self._decoy is not None
        return isinstance(user.password, Argon2Hash) and not self._was_verified(user, credentials)

    def verify(self, credentials: Credentials) -> bool:
        """Hash the claimed password and remember it if it is right; safe on any thread.

        Takes tens of milliseconds, with the interpreter lock released. The two dictionaries are
        each touched by one operation that is atomic in itself, so no lock is needed.
        """
        user = self._users.get(credentials.username)
        if user is None:
            if self._decoy is not None:
                self._decoy.matches(credentials.password)
            return False
        if not credentials.password or not user.password.matches(credentials.password):
            return False
        if isinstance(user.password, Argon2Hash):
            self._verified[user.name] = self._digest(user.password, credentials)
        return True

    def admit(self, credentials: Credentials, loopback: bool) -> User:
        """Return the user, or refuse; costs microseconds.

        Raises:
            AccessRefused: unknown user, wrong or blank password, or a loopback-only user from
                elsewhere. The peer is told the same in all cases; the log is told which.
        """
        user = self._users.get(credentials.username)
        if not credentials.password:
            self._refuse(credentials, "attempted to log in with a blank password")
        if user is None or not self._is_right(user, credentials):
            self._refuse(credentials, "invalid credentials")
        if user.loopback_only and not loopback:
            self._refuse(credentials, "can only connect via localhost")
        return user

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

    def _choose_decoy(self) -> None:
        stored = (user.password for user in self._users.values())
        self._decoy = next((one for one in stored if isinstance(one, Argon2Hash)), None)

    def _refuse(self, credentials: Credentials, why: str) -> NoReturn:
        mechanism = credentials.mechanism
        # ascii() keeps line breaks and terminal escapes in a claimed name out of the log.
        name = ascii(credentials.username[:LOGGED_NAME_MAX])
        logger.warning("%s login refused: user %s - %s", mechanism, name, why)
        raise AccessRefused(
            f"Login was refused using authentication mechanism {mechanism}. "
            "For details see the broker logfile.",
            connection=True,
        )
