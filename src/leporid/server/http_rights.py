"""Rights that another server decides: RabbitMQ's requests about virtual hosts, queues, keys.

Responsible for asking it on threads, a few requests at a time, and for one `RemoteRights` for all
logins of a user from one address. Must not know what a right is for, nor who waits for it.
Invariants: what is not allowed expressly is refused; users take turns, and one alone has half of
the requests and of the places to wait; of users who have no connection, RECENT_MAX are kept.

Source: RabbitMQ's rabbitmq_auth_backend_http, `vhost_path`, `resource_path` and `topic_path`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from leporid.broker.access.access import User
from leporid.broker.access.passwords import NoPassword
from leporid.broker.access.remote_rights import (
    RemotePermissions,
    RemoteRights,
    RemoteTopics,
    RightQuery,
)
from leporid.limits.log_lines import caused_by
from leporid.limits.shares import NoSlot, Share, Slot
from leporid.server.oauth_settings import HTTP
from leporid.server.outgoing import OutgoingError

if TYPE_CHECKING:
    from leporid.engine.bounds.jobs import Jobs
    from leporid.limits.refusals import Refusals
    from leporid.server.auth_requests import AuthRequests

logger = logging.getLogger(__name__)

NAME: Final = "auth_right_requests"
"""As refusals name the limit."""
REQUESTS_MAX: Final = 8
# Each keeps names of 255 octets at most. A server that answers within 10 ms has answered all of
# them after 5 s; it is asked the same once, however many connections wait for it.
WAITING_MAX: Final = 4096

# Of users without a connection, so that one who comes again (each request over HTTP is a login) is
# not asked about again; and what is known of all of these, at half a kilobyte an answer.
RECENT_MAX: Final = 256
RECENT_ANSWERS_MAX: Final = 65_536

_Answered = Callable[[bool | None], None]
_Key = tuple[str, str, tuple[str, ...]]


class HttpRights:
    """Asks about rights.

    Args:
        requests: sends the requests.
        age_s: returns how long an answer counts.
        pool: where requests are sent.
        refusals: where those are counted that found no place.
        wake: says that something was given to the engine.
        revoked: (name) is called when that user had a right, and has it no more.
        jobs: where those that wait are told.
        now_s: seconds.
    """

    def __init__(
        self,
        requests: AuthRequests,
        age_s: Callable[[], float],
        pool: Executor,
        refusals: Refusals,
        wake: Callable[[], None],
        revoked: Callable[[str], None],
        jobs: Jobs,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._requests = requests
        self._age_s = age_s
        self._pool = pool
        self._share = Share(NAME, REQUESTS_MAX, refusals, WAITING_MAX)
        self._wake = wake
        self._revoked = revoked
        self._jobs = jobs
        self._now_s = now_s
        # By name, address and tags: what the server is told of a user.
        self._users: WeakValueDictionary[_Key, RemoteRights] = WeakValueDictionary()
        self._recent: OrderedDict[_Key, RemoteRights] = OrderedDict()

    def __repr__(self) -> str:
        return f"<HttpRights users={len(self._users)} waiting={self._share.waiting}>"

    def user(self, name: str, host: str, tags: tuple[str, ...]) -> User:
        """Return a user whose rights the server decides.

        Args:
            name: the user's.
            host: the address that the user has logged in from.
            tags: as the server has said.
        """
        key = (name, host, tags)
        rights = self._users.get(key)
        if rights is None:
            rights = self._users[key] = self._rights(name, host, tags)
        self._keep(key, rights)
        return User(
            name,
            NoPassword(),
            tags,
            RemotePermissions(rights),
            topics=RemoteTopics(rights),
            backend=HTTP,
            remote=rights,
        )

    def _keep(self, key: _Key, rights: RemoteRights) -> None:
        """Keep the rights of a user for a while, and forget others."""
        recent = self._recent
        recent[key] = rights
        recent.move_to_end(key)
        known = sum(each.answer_count for each in recent.values())
        while len(recent) > RECENT_MAX or (known > RECENT_ANSWERS_MAX and len(recent) > 1):
            known -= recent.popitem(last=False)[1].answer_count

    def _rights(self, name: str, host: str, tags: tuple[str, ...]) -> RemoteRights:
        of_user = {"username": name, "tags": " ".join(tags)}

        def send(query: RightQuery, answered: _Answered) -> None:
            self._send(name, query, {**of_user, **_fields(query, name, host)}, answered)

        return RemoteRights(send, self._age_s, self._now_s, lambda: self._revoked(name), self._jobs)

    def _send(
        self, name: str, query: RightQuery, fields: dict[str, str], answered: _Answered
    ) -> None:
        try:
            self._share.wait(name, lambda slot: self._begin(name, query, fields, answered, slot))
        except NoSlot as none:
            self._tell(name, str(none))
            answered(None)

    def _begin(
        self,
        name: str,
        query: RightQuery,
        fields: dict[str, str],
        answered: _Answered,
        slot: Slot,
    ) -> None:
        loop = asyncio.get_running_loop()
        asking = loop.run_in_executor(self._pool, self._ask, query, fields)

        def done(asking: asyncio.Future[bool]) -> None:
            slot.release()
            if asking.cancelled():
                return  # the broker stops
            error = asking.exception()
            if error is None:
                answered(asking.result())
            else:
                if isinstance(error, OutgoingError):
                    self._tell(name, str(error))
                else:
                    logger.error("defect: a right was not asked about", exc_info=error)
                answered(None)
            self._wake()

        asking.add_done_callback(done)

    def _ask(self, query: RightQuery, fields: dict[str, str]) -> bool:
        """Ask the server; on a thread."""
        settings = self._requests.settings
        if query.resource == "vhost":
            url = settings.vhost_path
        else:
            url = settings.topic_path if query.resource == "topic" else settings.resource_path
        return self._requests.ask(url, fields)[0]

    def _tell(self, name: str, why: str) -> None:
        logger.warning(
            "a right of user %s is refused, as the server that decides did not say: %s",
            ascii(name),
            why,
            extra=caused_by(f"user {name}", f"user {name}", user=name),
        )


def _fields(query: RightQuery, name: str, host: str) -> dict[str, str]:
    """Return what the server is told of a right, in the names of RabbitMQ's requests."""
    if query.resource == "vhost":
        return {"vhost": query.vhost, "ip": host}
    fields = {
        "vhost": query.vhost,
        "resource": query.resource,
        "name": query.name,
        "permission": query.right,
    }
    if query.resource == "topic":
        fields["routing_key"] = query.key
        fields["variable_map.username"] = name
        fields["variable_map.vhost"] = query.vhost
    return fields
