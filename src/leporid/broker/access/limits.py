"""Limits that administrators set for virtual hosts and for users: which there are, what they mean.

Responsible for their names, for what values mean, and for RabbitMQ's texts. Must not know what is
counted, nor where limits are kept. Invariant: what is compared with a limit is a count that is
there already, so that asking costs the same however much there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from leporid.amqp.errors import NotAllowed, PreconditionFailed

MAX_CONNECTIONS: Final = "max-connections"
MAX_QUEUES: Final = "max-queues"
MAX_CHANNELS: Final = "max-channels"

VHOST_LIMITS: Final = (MAX_CONNECTIONS, MAX_QUEUES)
USER_LIMITS: Final = (MAX_CONNECTIONS, MAX_CHANNELS)

VALUE_MAX: Final = 2**31 - 1
NO_LIMITS: Final[Mapping[str, int]] = {}


def most(limits: Mapping[str, int], name: str) -> int | None:
    """Return a limit; None: there is none, which a value below 0 says, too."""
    value = limits.get(name, -1)
    return None if value < 0 else value


def check_vhost_connections(
    limits: Mapping[str, int], count: int, *, vhost: str, user: str
) -> None:
    """Raise NotAllowed (530) unless one more connection may be opened to a virtual host."""
    limit = most(limits, MAX_CONNECTIONS)
    if limit is not None and count >= limit:
        raise NotAllowed(
            f"access to vhost '{vhost}' refused for user '{user}': "
            f"connection limit ({limit}) is reached"
        )


def check_user_connections(limits: Mapping[str, int], count: int, *, user: str) -> None:
    """Raise NotAllowed (530) unless a user may open one more connection."""
    limit = most(limits, MAX_CONNECTIONS)
    if limit is not None and count >= limit:
        raise NotAllowed(
            f"connection refused for user '{user}': user connection limit ({limit}) is reached"
        )


def check_user_channels(limits: Mapping[str, int], count: int, *, user: str) -> None:
    """Raise NotAllowed (530, closes the connection) unless a user may open one more channel."""
    limit = most(limits, MAX_CHANNELS)
    if limit is not None and count >= limit:
        raise NotAllowed(
            f"number of channels opened for user '{user}' has reached the maximum allowed user "
            f"limit of ({limit})"
        )


def check_vhost_queues(limits: Mapping[str, int], count: int, *, vhost: str, queue: str) -> None:
    """Raise PreconditionFailed (406) unless one more queue may be declared in a virtual host."""
    limit = most(limits, MAX_QUEUES)
    if limit is not None and count >= limit:
        raise PreconditionFailed(
            f"cannot declare queue '{queue}': queue limit in vhost '{vhost}' ({limit}) is reached"
        )
