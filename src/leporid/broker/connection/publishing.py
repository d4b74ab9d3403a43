"""What the engine asks when a message is published and it does not know the answer.

Responsible for whether a connection may publish to an exchange, and with which routing keys, for
messages with several of these, and for the address of direct reply-to. Must not know messages.
Invariant: every fault raised here names basic.publish.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from leporid.amqp.errors import AccessRefused, Fault, PreconditionFailed
from leporid.amqp.methods import BasicPublish
from leporid.broker.access.remote_rights import RightPending
from leporid.broker.access.topics import AllowedKeys
from leporid.broker.names import exchange_in

if TYPE_CHECKING:
    from leporid.broker.access.access import User
    from leporid.broker.access.remote_rights import PendingRight
    from leporid.broker.connection.session import ConnectionState
    from leporid.broker.registry import StepsTo
    from leporid.broker.vhost import VirtualHost
    from leporid.engine.queue.queue import Queue
    from leporid.engine.routing.route_cache import RouteCache


def route_cache(session: ConnectionState, exchange: str) -> RouteCache:
    """Return the engine's half of an exchange that the connection may publish to.

    Raises:
        RightPending: whether the user may write to it is not known yet.
        AccessRefused: the user may not, or nobody may because it is internal.
        NotFound: there is none.
    """
    try:
        session.check("write", "exchange", exchange)
        found = session.vhost.exchange(exchange)
        if found.internal:
            title = exchange_in(session.vhost.name, exchange)
            raise AccessRefused(f"cannot publish to internal {title}")
    except Fault as fault:
        raise fault.blame(BasicPublish) from None
    return found.routes


def allowed_keys(
    user: Callable[[], User],
    vhost: VirtualHost,
    exchange: str,
    wait: Callable[[PendingRight], None],
) -> AllowedKeys | None:
    """Return what raises AccessRefused for keys that a user may not publish with; None: no key.

    Args:
        user: returns the user as of now.
        vhost: the virtual host.
        exchange: an exchange there; of another type than topic every key may be used.
        wait: is given each right that is not known yet, before the message is published again.
    """
    if exchange not in user().topics.get(vhost.name, ()):
        return None
    found = vhost.find_exchange(exchange)
    if found is None or not found.has_topics:
        return None

    def check(key: str) -> bool:
        try:
            user().check_key("write", exchange, key, vhost.name)
        except Fault as fault:
            raise fault.blame(BasicPublish) from None
        except RightPending as unknown:
            wait(unknown.pending)
            return True
        return False

    return AllowedKeys(check)


def copies(
    session: ConnectionState, exchange: str, keys: Sequence[str], properties: bytes
) -> StepsTo[list[Queue]]:
    """Route a message that has CC or BCC: each queue once, whichever keys lead there."""
    try:
        found = session.vhost.exchange(exchange)
        return (yield from session.vhost.routing.routing(found, keys, properties))
    except Fault as fault:
        raise fault.blame(BasicPublish) from None


def reply_address(session: ConnectionState, number: int) -> str:
    """Return where answers to what a channel publishes should go.

    Raises:
        PreconditionFailed: the channel does not consume replies.
    """
    channel = session.channels.get(number)
    if channel is None or channel.replies is None:
        raise PreconditionFailed("fast reply consumer does not exist").blame(BasicPublish)
    return channel.replies.queue.name
