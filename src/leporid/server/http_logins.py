"""Logins that another server decides: the back end `http`, which sends RabbitMQ's request.

Responsible for asking whether a name and a password belong together, for answers that are
remembered for a moment, and for how many ask at a time. Must not know what a user may do: that the
broker's own users say, or the server (`http_rights`). Invariants: whoever is not let in expressly
is refused; no password is kept, but a digest under a secret of this process; nothing that was asked
is in the log.

Source: RabbitMQ's rabbitmq_auth_backend_http, `user_path`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final

from leporid.amqp.errors import AccessRefused
from leporid.broker.access.access import DEFAULT_USER, LOOPBACK_ONLY, Access, User
from leporid.broker.access.backends import BEARER, Answer, Backend, Leave, LoginRequest
from leporid.broker.access.passwords import keyed_digest
from leporid.limits.refusals import Refusals
from leporid.limits.shares import NoSlot, Share, Slot
from leporid.server.auth_requests import AuthRequests
from leporid.server.oauth_settings import HTTP
from leporid.server.outgoing import OutgoingError

if TYPE_CHECKING:
    from leporid.server.http_rights import HttpRights

logger = logging.getLogger(__name__)

NAME: Final = "auth_requests"
"""As refusals name the limit."""
# One address has half of them, by the rule of `Share`.
REQUESTS_MAX: Final = 4
WAITING_MAX: Final = 256
REMEMBERED_MAX: Final = 1024


class HttpLogins:
    """The back end.

    Args:
        requests: sends the requests.
        cache_s: returns how long an answer counts that has let somebody in; 0: only once.
        access: the broker's own users.
        rights: asks the server what a user may do; used if it has an address for that.
        pool: where requests are sent.
        refusals: where those are counted that found no place.
        secret: of this process.
        wake: says that something was given to the engine.
        monotonic: seconds.
    """

    name = HTTP

    def __init__(
        self,
        requests: AuthRequests,
        cache_s: Callable[[], float],
        access: Access,
        rights: HttpRights,
        pool: Executor,
        refusals: Refusals,
        secret: bytes,
        wake: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._requests = requests
        self._cache_s = cache_s
        self._access = access
        self._rights = rights
        self._pool = pool
        self._share = Share(NAME, REQUESTS_MAX, refusals, WAITING_MAX)
        self._secret = secret
        self._wake = wake
        self._monotonic = monotonic
        # Since when each claim is known that was right, with the tags; the oldest first.
        self._remembered: OrderedDict[bytes, tuple[float, tuple[str, ...]]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<HttpLogins {self._requests!r} waiting={self._share.waiting}>"

    def log_in(self, login: LoginRequest, answer: Answer) -> Leave:
        """Ask the server; see `Backend`."""
        name, password = login.credentials.username, login.credentials.password
        if login.credentials.mechanism == BEARER or not password:
            answer("")
            return _nothing
        try:
            digest = keyed_digest(self._secret, name.encode(), password)
            text = password.decode()
        except UnicodeError:
            answer("name or password is not UTF-8")
            return _nothing
        fields = {"username": name, "password": text}
        return self._decide(
            login.address, digest, fields, answer, lambda tags: self._user(login, tags)
        )

    def authorize(self, login: LoginRequest, user: User, answer: Answer) -> Leave:
        """Ask about a user whose password the broker has found right; see `Backend.log_in`.

        The user that is answered with has the tags of both, and the rights that the server grants.
        """
        digest = keyed_digest(self._secret, b"", b"authorize", user.name.encode())
        return self._decide(
            login.address,
            digest,
            {"username": user.name},
            answer,
            lambda tags: self._rights.user(
                user.name, login.host, tuple(dict.fromkeys((*user.tags, *tags)))
            ),
        )

    def _decide(
        self,
        address: Hashable,
        digest: bytes,
        fields: dict[str, str],
        answer: Answer,
        made: Callable[[tuple[str, ...]], User | str],
    ) -> Leave:
        """Have the server asked, unless its answer is remembered.

        Args:
            address: who waits.
            digest: of what is asked.
            fields: what is asked.
            answer: called with what was made.
            made: makes it of the tags that the server has said.
        """
        since_s, known = self._remembered.get(digest, (None, ()))
        if since_s is not None and self._monotonic() - since_s < self._cache_s():
            answer(made(known))
            return _nothing
        login = _Login(answer)

        def answered(found: tuple[str, ...] | str) -> None:
            if isinstance(found, str):
                login.answer(found)
            else:
                self._remember(digest, found)
                login.answer(made(found))
            self._wake()

        try:
            waiter = self._share.wait(
                address, lambda slot: self._begin(fields, login, slot, answered)
            )
        except NoSlot:
            answer(f"too many logins wait for an answer ({NAME}: at most {WAITING_MAX} may wait)")
            return _nothing

        def leave() -> None:
            login.left = True
            if waiter.slot is None:
                waiter.leave()  # else the request is under way, and keeps its slot to its end

        return leave

    def renew(self, user: User, secret: bytes, answer: Answer) -> Leave:
        """Change nothing: who was let in by a password stays."""
        answer(user)
        return _nothing

    def _begin(
        self,
        fields: dict[str, str],
        login: _Login,
        slot: Slot,
        answered: Callable[[tuple[str, ...] | str], None],
    ) -> None:
        if login.left:
            slot.release()
            return
        asking = asyncio.get_running_loop().run_in_executor(self._pool, self._ask, fields)

        def done(asking: asyncio.Future[tuple[str, ...] | str]) -> None:
            slot.release()
            if asking.cancelled():
                return
            error = asking.exception()
            if error is None:
                answered(asking.result())
            elif isinstance(error, OutgoingError):
                answered(str(error))
            else:
                logger.error("defect: a login was not asked about", exc_info=error)
                answered("defect")

        asking.add_done_callback(done)

    def _ask(self, fields: dict[str, str]) -> tuple[str, ...] | str:
        """Return the tags of a user whose claim is right, or why it is not; on a thread."""
        allowed, words = self._requests.ask(self._requests.settings.user_path, fields)
        return tuple(dict.fromkeys(words)) if allowed else "denied"

    def _user(self, login: LoginRequest, tags: tuple[str, ...]) -> User | str:
        """Return the user that was let in: the broker's own, or the server's."""
        if self._requests.settings.vhost_path is not None:
            name = login.credentials.username
            if name == DEFAULT_USER and not login.loopback:
                return LOOPBACK_ONLY
            return self._rights.user(name, login.host, tags)
        try:
            return self._access.admit_known(
                login.credentials, login.loopback, "there is no user of that name"
            )
        except AccessRefused:
            return ""  # which `access` has logged

    def _remember(self, digest: bytes, tags: tuple[str, ...]) -> None:
        self._remembered[digest] = (self._monotonic(), tags)
        self._remembered.move_to_end(digest)
        if len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)


class InternalLogins:
    """The back end `internal:http`: passwords of the broker's own users, rights of the server.

    Args:
        internal: the broker's own users.
        http: asks the server.
    """

    name = HTTP

    def __init__(self, internal: Backend, http: HttpLogins) -> None:
        self._internal = internal
        self._http = http

    def __repr__(self) -> str:
        return f"<InternalLogins {self._http!r}>"

    def log_in(self, login: LoginRequest, answer: Answer) -> Leave:
        """Compare passwords, and then ask the server; see `Backend`."""
        leaves: list[Leave] = []

        def compared(found: User | AccessRefused | str) -> None:
            if isinstance(found, User):
                leaves.append(self._http.authorize(login, found, answer))
            else:
                answer(found)

        leaves.append(self._internal.log_in(login, compared))

        def leave() -> None:
            for each in leaves:
                each()

        return leave

    def renew(self, user: User, secret: bytes, answer: Answer) -> Leave:
        """Change nothing: our users' passwords do not expire."""
        answer(user)
        return _nothing


class _Login:
    """One login that waits.

    Attributes:
        left: whether nobody waits for it any more.
    """

    __slots__ = ("_answer", "left")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.left = False

    def answer(self, found: User | str) -> None:
        """Say how it went, if anybody waits for it."""
        if not self.left:
            self._answer(found)


def _nothing() -> None:
    """There is nothing to give up."""
