"""Sessions: who has logged in by the form of the web UI, and is known by a cookie since.

Responsible for making, finding and ending sessions, and for what a request with the cookie must
have beside it, so that no page of another place acts for its user. Must not know how a login is
checked (`login`), nor routes.

Invariants: of a session's token only the SHA-256 is kept, by which it is found, so that neither the
memory nor the time of an answer tells a token; a token is made here and never taken from a client.
What another back end has let in is asked about with each request, as without a session: with the
password or token of the login, which is kept encrypted by the session's token, and so is known only
while a request has that.
A session ends IDLE_SECONDS after its last request, LIFE_SECONDS after its login, with its token
(OAuth 2), with its user, and when the password is another one; what its user may do is what it may
do now. There are SESSIONS_MAX, fair by user: whoever has too many loses the one that was used
least recently, and nobody else's.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from leporid.broker.access.backends import INTERNAL
from leporid.limits.shares import NoSlot, Share, Slot
from leporid.management.admission import taken
from leporid.management.refusals import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import Access, User
    from leporid.broker.access.sasl import Credentials

COOKIE: Final = "leporid_session"
"""What the name of the cookie begins with; see `cookie_name`."""
PAGE: Final = "x-leporid-page"
"""The header of our own pages: no form has it, and no script of another place may send it without
being asked for by OPTIONS, which nothing here answers."""
TOKEN_BYTES: Final = 32
# An hour away from the desk; and a day at it.
IDLE_SECONDS: Final = 3600
LIFE_SECONDS: Final = 12 * 3600
# What only reads (RFC 9110, 9.2.1).
SAFE: Final = frozenset({"GET", "HEAD"})
# What only our page asks for.
QUIET_PATHS: Final = frozenset({"/api/session", "/api/live"})
_PORT: Final = re.compile(r":([0-9]{1,5})\Z")
# What browsers say of who has made them send a request (Fetch Metadata); "none": a person.
OWN_SITES: Final = frozenset({"same-origin", "none"})


@dataclass(slots=True)
class Session:
    """One login.

    Attributes:
        user: as it was then.
        digest: of the token.
        slot: of the share.
        begun_s: when, by a clock that only goes forward.
        seen_s: when it was used last.
        ends_ms: when it ends at the latest, by the wall's clock.
        address: from where.
        claim: what was claimed, if another back end has let the user in; its password is encrypted.
    """

    user: User
    digest: bytes
    slot: Slot
    begun_s: float
    seen_s: float
    ends_ms: int
    address: str
    claim: Credentials | None


class Sessions:
    """The sessions of one broker.

    Args:
        access: the users.
        share: of sessions.
        monotonic: seconds.
        now_s: the wall's clock.
        random_bytes: where tokens come from.
    """

    def __init__(
        self,
        access: Access,
        share: Share,
        monotonic: Callable[[], float],
        now_s: Callable[[], float] = time.time,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._access = access
        self._share = share
        self._monotonic = monotonic
        self._now_s = now_s
        self._random_bytes = random_bytes
        # By digest; the one that was used least recently comes first.
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Sessions {len(self._sessions)}>"

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, user: User, address: str, claim: Credentials) -> tuple[str, Session]:
        """Make a session; returns the token, which nobody can be told again.

        Args:
            user: whose.
            address: from where.
            claim: by which the user has logged in.

        Raises:
            Refusal: there are too many of others.
        """
        slot = self._slot_for(user)
        token = self._random_bytes(TOKEN_BYTES).hex()
        now_s = self._monotonic()
        ends_ms = int((self._now_s() + LIFE_SECONDS) * 1000)
        if user.expires_ms is not None:
            ends_ms = min(ends_ms, user.expires_ms)
        # What our own users may do is known; they end the session when their password changes.
        kept = _with_password(claim, token) if user.backend else None
        session = Session(user, _digest(token), slot, now_s, now_s, ends_ms, address, kept)
        self._sessions[session.digest] = session
        return token, session

    def find(self, token: str) -> Session | None:
        """Return a session that has not ended, and note that it is in use."""
        session = self._sessions.get(_digest(token))
        if session is None or self.user_of(session) is None:
            return None
        session.seen_s = self._monotonic()
        self._sessions.move_to_end(session.digest)
        return session

    def user_of(self, session: Session) -> User | None:
        """Return whose a session is, as of now; None: it has ended."""
        if session.digest not in self._sessions:
            return None
        user = self._access.current(session.user)
        now_s = self._monotonic()
        if (
            user is None
            or user.password != session.user.password
            or now_s - session.seen_s >= IDLE_SECONDS
            or now_s - session.begun_s >= LIFE_SECONDS
            or session.ends_ms <= self._now_s() * 1000
        ):
            self.end(session)
            return None
        return user

    def end(self, session: Session) -> None:
        """End one; after the first time, nothing happens."""
        if self._sessions.pop(session.digest, None) is not None:
            session.slot.release()

    def of(self, name: str) -> list[Session]:
        """Return the sessions of all users of a name, the one that was used last at the end."""
        found = [each for each in self._sessions.values() if each.user.name == name]
        return [each for each in found if self.user_of(each) is not None]

    def shown(self, session: Session) -> dict[str, Any]:
        """Return what an administrator sees of one."""
        ahead_s = self._now_s() - self._monotonic()
        return {
            "since_ms": int((session.begun_s + ahead_s) * 1000),
            "last_ms": int((session.seen_s + ahead_s) * 1000),
            "expires_at_ms": session.ends_ms,
            "address": session.address,
            "backend": session.user.backend or INTERNAL,
        }

    def _slot_for(self, user: User) -> Slot:
        key = _key(user)
        try:
            return self._share.take(key)
        except NoSlot:
            pass
        own = None
        for each in tuple(self._sessions.values()):
            if self.user_of(each) is not None and own is None and _key(each.user) == key:
                own = each
        try:
            return self._share.take(key)  # some may have ended without having been asked for
        except NoSlot:
            pass
        if own is not None:
            self.end(own)
        return taken(self._share, key)


def _key(user: User) -> Hashable:
    return user.backend, user.name


def _with_password(claim: Credentials, token: str) -> Credentials:
    """Return a claim with its password encrypted, or decrypted, by the token of a session.

    SHAKE-256 of the token is the key stream; a token is used for one password alone.
    """
    password = claim.password
    stream = hashlib.shake_256(b"password\0" + token.encode()).digest(len(password))
    mixed = int.from_bytes(password) ^ int.from_bytes(stream)
    return replace(claim, password=mixed.to_bytes(len(password)))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


# ------------------------------------------------------------------ requests


def session_in(request: Request, sessions: Sessions) -> Session | None:
    """Return the session of a request's cookie; None: it has no such cookie.

    A request that says by itself who asks (Basic, Bearer) has none.

    Raises:
        Refusal: the session has ended (401); or it may not act for its user (403).
    """
    token = cookie_in(request, cookie_name(request))
    if token is None or "authorization" in request.headers:
        return None
    found = sessions.find(token)
    if found is None:
        raise ended()
    check_page(request)
    return found


def claim_in(request: Request, session: Session) -> Credentials | None:
    """Return what another back end is asked about again; None: the user is one of ours.

    Args:
        request: one with the session's cookie.
        session: it.
    """
    token = cookie_in(request, cookie_name(request))
    if session.claim is None or token is None:
        return None
    return _with_password(session.claim, token)


def ended() -> Refusal:
    """Say that whoever asks has to log in again."""
    return Refusal(401, "not_authorized", "the session has ended; log in again")


def check_page(request: Request) -> None:
    """Refuse what a page of another place could have a browser send.

    That an Origin, if there is one, is ours is checked for all requests (`hosts.check`).

    Raises:
        Refusal: 403.
    """
    site = request.headers.get("sec-fetch-site", "none")
    if site not in OWN_SITES:
        raise Refusal(
            403,
            "other-origin",
            "a page of another place has made the browser ask (Sec-Fetch-Site), and may not use "
            "the session or password of this one",
        )
    if request.method not in SAFE and request.headers.get(PAGE) != "1":
        raise Refusal(
            403,
            "not-our-page",
            "a request that changes something by a session's cookie needs the header "
            "X-Leporid-Page: 1; other programs send name and password (HTTP Basic) or a token",
        )


def shows_form(path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Say whether who asks has a form of its own for logins, so that no browser need ask.

    Args:
        path: of the route.
        headers: of the request, as ASGI has them.
    """
    return path in QUIET_PATHS or any(
        name == PAGE.encode() or (name == b"cookie" and COOKIE.encode() in value)
        for name, value in headers
    )


def cookie_name(request: Request) -> str:
    """Return the name of the cookie, which has our port.

    Cookies know no ports: another broker of the same host would take ours away with its own.
    """
    port = _PORT.search(request.headers.get("host", ""))
    return COOKIE if port is None else f"{COOKIE}_{port[1]}"


def cookie_in(request: Request, name: str) -> str | None:
    """Return a cookie's value as it was sent, of several the last; None without one.

    A header is looked through once. Anybody may send one before a login, and the standard library's
    parser decodes quoted values: a quarter of a second for 16 KB of backslashes (CVE-2024-7592, not
    mended in each Python that the broker runs on). Ours are hexadecimal or base64url: they have no
    quotes (RFC 6265, 4.1.1).
    """
    found = None
    for header in request.headers.getlist("cookie"):
        for each in header.split(";"):
            key, equals, value = each.partition("=")
            if equals and key.strip() == name:
                found = value.strip()
    return found


def is_secure(request: Request) -> bool:
    """Say whether the browser speaks TLS, be it with a proxy in front of the broker.

    Whoever says so wrongly only loses the own cookie.
    """
    forwarded = request.headers.get("x-forwarded-proto", "")
    return "https" in (request.scope["scheme"], forwarded)


def cookie(request: Request, token: str, seconds: int) -> str:
    """Return the header that sets the cookie, or takes it away with 0 seconds."""
    secure = "; Secure" if is_secure(request) else ""
    named = f"{cookie_name(request)}={token}"
    return f"{named}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
