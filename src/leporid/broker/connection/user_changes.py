"""What a live connection does when its user is another one than when it logged in.

Responsible for asking again what was allowed before, and for ending what is not allowed any more.
Must not know who has changed a user, nor why. Invariant: when the steps have ended, the connection
does nothing that its user may not do now.

A user changes when an administrator changes it, when the client shows another token, when a token
ends, and when a server that decides about rights decides otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leporid.amqp.errors import ConnectionForced, Fault
from leporid.broker.access.remote_rights import RightsJob, decided

if TYPE_CHECKING:
    from leporid.broker.access.access import User
    from leporid.broker.connection.session import ConnectionState
    from leporid.broker.registry import Steps


def look_at_user(session: ConnectionState) -> None:
    """See what has become of the user in time; the server calls this once a second.

    That of a token ends. Of one whose rights a server decides, those in use are asked about again.
    """
    user, clock = session.user, session.broker.engine.clock
    if user.expires_ms is not None and user.expires_ms <= clock.wall_ms:
        session.close_for(ConnectionForced(f"the token of user '{user.name}' has expired"))
    elif user.remote is not None and clock.now_ms - session.rechecked_ms >= user.remote.recheck_ms:
        recheck(session)


def recheck(session: ConnectionState) -> None:
    """Ask about the rights that are in use, of a user whose rights a server decides."""
    if session.rechecking:
        session.rechecked_ms = 0  # once more: what was asked already may be another one now
    if session.rechecking or session.released or not session.opened:
        return
    session.rechecking = True
    session.rechecked_ms = session.broker.engine.clock.now_ms

    def ended(_: object = None) -> None:
        session.rechecking = False

    def failed(error: Exception) -> None:
        session.rechecking = False
        if isinstance(error, Fault):
            session.close_for(error)
        else:
            session.on_defect(error)

    steps = becoming(session, session.user)
    RightsJob(session.broker.engine.jobs, steps, ended, failed, session.waiting, ended)


def renewing(session: ConnectionState) -> Steps:
    """The broker's own user was changed: give the steps that put it in force."""
    user = session.broker.access.current(session.user)
    if user is not None and not session.released and user is not session.user:
        yield from becoming(session, user)


def renew(session: ConnectionState, user: User) -> None:
    """The client has shown a new secret, which may allow something else."""
    session.broker.engine.jobs.start(becoming(session, user))


def becoming(session: ConnectionState, user: User) -> Steps:
    """Give the steps after which a connection does what `user` may do, and nothing else."""
    session.user = user
    session.set_user_id()
    if not session.opened:
        return
    name = session.vhost.name
    if not (yield from decided(lambda: name in user.permissions)):
        session.close_for(
            ConnectionForced(f"access to vhost '{name}' was revoked from user '{user.name}'")
        )
        return
    for channel in tuple(session.channels.values()):
        channel.engine.forget_exchange()
        yield None
        yield from channel.revoking()
