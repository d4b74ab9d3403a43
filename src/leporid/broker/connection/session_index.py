"""Which connections and channels each user and each virtual host has.

Responsible for finding and counting them at a cost that does not depend on how many others there
are: limits are compared with these counts, and who is changed or deleted concerns these
connections only. Must not know limits, nor what happens to a connection. Invariant: a connection
is among its user's from its login to its end, and among its virtual host's, and counted, from
connection.open to its end.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leporid.broker.connection.session import ConnectionState


class SessionIndex:
    """The connections of one broker."""

    def __init__(self) -> None:
        self._of_users: dict[str, dict[ConnectionState, None]] = {}
        self._of_vhosts: dict[str, dict[ConnectionState, None]] = {}
        self._opened: Counter[str] = Counter()
        self._channels: Counter[str] = Counter()
        self.channel_count = 0

    def __repr__(self) -> str:
        return f"<SessionIndex users={len(self._of_users)} vhosts={len(self._of_vhosts)}>"

    def entered(self, session: ConnectionState) -> None:
        """A connection has logged in."""
        self._of_users.setdefault(session.user.name, {})[session] = None

    def opened(self, session: ConnectionState) -> None:
        """A connection has opened its virtual host."""
        self._of_vhosts.setdefault(session.vhost.name, {})[session] = None
        self._opened[session.user.name] += 1

    def left(self, session: ConnectionState) -> None:
        """A connection has ended; its channels ended before."""
        if not session.authenticated:
            return
        name = session.user.name
        _remove(self._of_users, name, session)
        # One that acts for a request over HTTP never opened it.
        if session.opened and _remove(self._of_vhosts, session.vhost.name, session):
            self._opened[name] -= 1
            if not self._opened[name]:
                del self._opened[name]

    def channels_changed(self, session: ConnectionState, by: int) -> None:
        """Channels of a connection were opened, or as many closed as it is below 0."""
        self.channel_count += by
        name = session.user.name if session.authenticated else ""
        self._channels[name] += by
        if not self._channels[name]:
            del self._channels[name]

    def of_user(self, name: str) -> tuple[ConnectionState, ...]:
        """Return the connections that are logged in as a user."""
        return tuple(self._of_users.get(name, ()))

    def of_vhost(self, name: str) -> tuple[ConnectionState, ...]:
        """Return the open connections to a virtual host."""
        return tuple(self._of_vhosts.get(name, ()))

    def count_of_user(self, name: str) -> int:
        """Return how many connections of a user are open."""
        return self._opened[name]

    def count_of_vhost(self, name: str) -> int:
        """Return how many connections to a virtual host are open."""
        return len(self._of_vhosts.get(name, ()))

    def channels_of_user(self, name: str) -> int:
        """Return how many channels a user has open."""
        return self._channels[name]


def _remove(
    index: dict[str, dict[ConnectionState, None]], name: str, session: ConnectionState
) -> bool:
    """Take a connection out; returns whether it was there."""
    there = index.get(name)
    if there is None or session not in there:
        return False
    del there[session]
    if not there:
        del index[name]
    return True
