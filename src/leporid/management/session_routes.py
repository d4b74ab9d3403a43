"""Log in by a form, and out: the routes of sessions.

Responsible for these routes. Must not know how passwords are checked (`login`), nor when a session
ends (`sessions`). Invariants: a password is looked at as in any other login, with the same limits,
counts and lines of log; each login makes a new token, whatever cookie came with it; no answer has
`WWW-Authenticate`, so that no browser asks for a password by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from leporid.broker.access import tags
from leporid.broker.access.access import Credentials
from leporid.broker.access.permissions import RIGHTS
from leporid.broker.events.actor import set_actor
from leporid.limits.shares import address_key
from leporid.management import hosts
from leporid.management.authorization import administrator, not_authorised, not_found
from leporid.management.bodies import body_in
from leporid.management.login import BasicLogin
from leporid.management.parameters import flag_of, object_of, text_in
from leporid.management.paths import name_of, takes, visit_of
from leporid.management.refusals import Refusal
from leporid.management.sessions import (
    LIFE_SECONDS,
    Session,
    check_page,
    cookie,
    cookie_in,
    cookie_name,
    session_in,
)

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.management.surroundings import Surroundings

# A token in the place of a password has 24 KiB at most (`server.tokens`).
LOGIN_BYTES_MAX: Final = 32 * 1024
LOGIN_BYTES: Final = "http_login_bytes"
TEXT: Final = {"type": "string", "required": True}


class SessionRoutes:
    """The handlers of /api/session.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    @takes({"username": TEXT, "password": TEXT})
    async def log_in(self, request: Request) -> Response:
        """POST /api/session: 200 and a cookie; needs the header X-Leporid-Page: 1."""
        around = self._around
        hosts.check(request, around.http_hosts)
        check_page(request)
        address = address_key("" if request.client is None else request.client.host)
        async with body_in(
            around.admission, request, address, LOGIN_BYTES, LOGIN_BYTES_MAX
        ) as data:
            given = object_of(around.admission, bytes(data), ("username", "password"))
        name, password = text_in(given, "username"), text_in(given, "password")
        claim = Credentials("Basic", name, password.encode())
        user = await BasicLogin(around.broker).check(
            request,
            claim,
            loopback=hosts.is_of_this_machine(request, around.is_loopback),
        )
        visit_of(request).log_in(user)
        set_actor(user.name)
        session, set_cookie = begin_session(around, request, user, claim)
        return self._shown(user, session, [(b"set-cookie", set_cookie.encode())])

    @takes(optional={"type": "boolean"})
    async def show(self, request: Request) -> Response:
        """GET /api/session: who has logged in, until when, and what that user may do; 200.

        With `?optional=true` it is 204 if nobody has, and the request names no user.
        """
        optional = flag_of(request, "optional")
        try:
            user = await self._around.user(request)
        except Refusal as refusal:
            if optional and refusal.status == 401 and "authorization" not in request.headers:
                return Response(status_code=204)
            raise
        return self._shown(user, session_in(request, self._around.sessions))

    async def log_out(self, request: Request) -> Response:
        """DELETE /api/session: 204, and the cookie is taken away."""
        around = self._around
        await around.user(request)
        found = session_in(request, around.sessions)
        if found is not None:
            around.sessions.end(found)
        answer = Response(status_code=204)
        answer.headers["set-cookie"] = cookie(request, "", 0)
        return answer

    async def of_user(self, request: Request) -> Response:
        """GET /api/users/{name}/sessions: where a user has logged in by the form."""
        around = self._around
        asking = await administrator(around, request)
        sessions = around.sessions
        found = sessions.of(self._name(request))
        return around.listing(asking, (sessions.shown(each) for each in found))

    async def end_of_user(self, request: Request) -> Response:
        """DELETE /api/users/{name}/sessions: the user has to log in again, everywhere."""
        await administrator(self._around, request)
        for each in self._around.sessions.of(self._name(request)):
            self._around.sessions.end(each)
        return Response(status_code=204)

    def _shown(
        self, user: User, session: Session | None, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> Response:
        around = self._around
        shown = {
            "name": user.name,
            "tags": list(user.tags),
            "expires_at_ms": user.expires_ms if session is None else session.ends_ms,
            # Another server decides about each name by itself: there are no patterns.
            "permissions": None if user.remote else _permissions(user, around.broker.vhosts),
        }
        return around.listing(user, shown, headers=headers)

    def _name(self, request: Request) -> str:
        """Return the user in the path; raises Refusal if nobody is called so."""
        name = name_of(request, "name")
        around = self._around
        # Users of tokens are in no list of users.
        if around.broker.access.user(name) is None and not around.sessions.of(name):
            raise not_found()
        return name


def begin_session(
    around: Surroundings, request: Request, user: User, claim: Credentials
) -> tuple[Session, str]:
    """Begin a session, and return the header that sets its cookie.

    The session that the browser had has ended.

    Raises:
        Refusal: the user may not use the interface, or there are too many sessions.
    """
    if not tags.may_manage(user):
        raise not_authorised(
            f"user '{user.name}' may not use the web UI: it needs the tag management, "
            "policymaker, monitoring or administrator"
        )
    before = around.sessions.find(cookie_in(request, cookie_name(request)) or "")
    if before is not None:
        around.sessions.end(before)
    host = "" if request.client is None else request.client.host
    token, session = around.sessions.begin(user, host, claim)
    return session, cookie(request, token, LIFE_SECONDS)


def _permissions(user: User, vhosts: Iterable[str]) -> Iterator[dict[str, str] | None]:
    """Go through the virtual hosts that a user may enter, with its patterns there."""
    for vhost in sorted(vhosts):
        granted = user.permissions.get(vhost)
        if granted is None:
            yield None  # that was one look
            continue
        patterns = {str(right): getattr(granted, right).text for right in RIGHTS}
        yield {"vhost": vhost, **patterns}
