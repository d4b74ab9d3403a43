"""Logins by token: the back end `oauth2`, and the keys that tokens are signed with.

Responsible for keys, those in files and those that the issuer publishes, and for tokens that were
verified before. Must not know what a token says. Invariants: keys are asked for one request at a
time, and not more often than every REFRESH_S; logins that wait for them are bounded, and one
address has half of the places; nothing of a token is kept but a digest under a secret of this
process.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from pathlib import Path
from typing import Final

from leporid.amqp.errors import AccessRefused
from leporid.broker.access.access import User
from leporid.broker.access.backends import (
    BEARER,
    EXPIRED,
    UNTOLD,
    Answer,
    Leave,
    LoginRequest,
    TokenRefused,
    log_refusal,
)
from leporid.broker.access.passwords import keyed_digest
from leporid.limits.refusals import Refusals
from leporid.limits.shares import NoSlot, Share, Slot
from leporid.server.oauth_settings import OAUTH2, OAuth2
from leporid.server.outgoing import Endpoint, OutgoingError, ask, trusting, url
from leporid.server.settings import ConfigError
from leporid.server.tokens import (
    Key,
    TokenError,
    TokenExpired,
    UnknownKey,
    Verifier,
    import_keys,
    import_pem,
    key_name,
    looks_like_a_token,
)

logger = logging.getLogger(__name__)

DISCOVERY: Final = "/.well-known/openid-configuration"
# A request for the keys, or for where they are.
FETCH_S: Final = 5.0
# A token may name a key that the issuer has made meanwhile; anybody may name one that there is not.
REFRESH_S: Final = 10.0
# Keys that the issuer has taken back are known for so long at most, as long as it answers.
STALE_S: Final = 300.0
KEYS_BYTES_MAX: Final = 256 * 1024
# Verified tokens that are remembered: clients over HTTP show theirs with each request.
VERIFIED_MAX: Final = 1024
WAITING: Final = "token_keys"
"""As refusals name the limit."""
# Logins that wait for keys; others are refused until these are there.
WAITING_MAX: Final = 256


class Keys:
    """The keys of one issuer.

    Args:
        settings: whole and checked.
        pool: where requests are sent.
        refusals: where those are counted that found no place to wait.
        monotonic: seconds.

    Raises:
        ConfigError: a key's file cannot be used.
    """

    def __init__(
        self,
        settings: OAuth2,
        pool: Executor,
        refusals: Refusals,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._monotonic = monotonic
        self._context = trusting(settings.ca) if settings.issuer or settings.jwks_url else None
        self._own = {name: _read(path) for name, path in (settings.signing_keys or {}).items()}
        self._published: dict[str, Key] = {}
        self._asked_at = self._fetched_at = -1e9
        self._places = Share(WAITING, WAITING_MAX, refusals)
        self._waiting: dict[Slot, Callable[[], None]] = {}
        # Those of them whose keys are there, or could not be had.
        self._served: OrderedDict[Slot, Callable[[], None]] = OrderedDict()
        self._fetching: asyncio.Future[dict[str, Key]] | None = None
        # What is to be forgotten when keys have changed.
        self.changed: Callable[[], None] = lambda: None

    def __repr__(self) -> str:
        return f"<Keys {len(self._own)} own, {len(self._published)} published>"

    def get(self, name: str | None) -> Key:
        """Return a key.

        Raises:
            UnknownKey: there is none of that name.
            TokenError: no name, and no default one.
        """
        name = name if name is not None else self._settings.default_key
        if name is None:
            raise TokenError("it names no key (kid), and there is no oauth2.default_key")
        key = self._own.get(name) or self._published.get(name)
        if key is None:
            raise UnknownKey("it names a key that the issuer does not publish (kid)")
        return key

    def freshen(self) -> None:
        """Ask for the keys again if that was long ago; who logs in meanwhile does not wait."""
        if self._published and self._monotonic() - self._fetched_at > STALE_S:
            self._fetch()

    def wait(self, key: Hashable, ready: Callable[[], None]) -> Leave | None:
        """Have keys asked for that may have been published meanwhile.

        Args:
            key: who waits.
            ready: called when they are there, or could not be had.

        Returns:
            What ends the waiting; None: they were asked for a moment ago.

        Raises:
            NoSlot: too many wait.
        """
        if not self._fetch():
            return None
        slot = self._places.take(key)
        self._waiting[slot] = ready

        def leave() -> None:
            self._waiting.pop(slot, None)
            self._served.pop(slot, None)
            slot.release()

        return leave

    def stop(self) -> None:
        """Nobody waits any more."""
        self._waiting.clear()
        self._served.clear()
        if self._fetching is not None:
            self._fetching.cancel()

    def _fetch(self) -> bool:
        """Ask unless that was a moment ago; returns whether it is under way."""
        if self._fetching is not None:
            return True
        if self._context is None or self._monotonic() - self._asked_at < REFRESH_S:
            return False
        self._asked_at = self._monotonic()
        loop = asyncio.get_running_loop()
        self._fetching = loop.run_in_executor(self._pool, self._ask)
        self._fetching.add_done_callback(self._fetched)
        return True

    def _ask(self) -> dict[str, Key]:
        """Return the published keys; on a thread."""
        address = self._settings.jwks_url
        if address is None:
            issuer = (self._settings.issuer or "").rstrip("/")
            document = _ask(Endpoint(issuer + DISCOVERY, self._context))
            try:
                address = url("jwks_uri", json.loads(document)["jwks_uri"])
            except (ValueError, KeyError, TypeError, RecursionError, ConfigError):
                raise OutgoingError(
                    f"{issuer + DISCOVERY}: does not say where keys are (jwks_uri)"
                ) from None
            if issuer.startswith("https:") and not address.startswith("https:"):
                raise OutgoingError(f"{issuer + DISCOVERY}: names keys that are not on https")
        try:
            return import_keys(_ask(Endpoint(address, self._context)))
        except ValueError as error:
            raise OutgoingError(f"{address}: {error}") from None

    def _fetched(self, fetching: asyncio.Future[dict[str, Key]]) -> None:
        self._fetching = None
        if fetching.cancelled():
            return
        error = fetching.exception()
        if error is None:
            self._published = fetching.result()
            self._fetched_at = self._monotonic()
            self.changed()
            logger.info("oauth2: the issuer publishes %d keys", len(self._published))
        elif isinstance(error, OutgoingError):
            logger.error("oauth2: the keys cannot be had: %s", error)
        else:
            logger.error("defect: oauth2: the keys were not read", exc_info=error)
        served = bool(self._served)
        self._served.update(self._waiting)
        self._waiting.clear()
        if not served:
            self._serve()

    def _serve(self) -> None:
        """Tell one that waited, and the others in later rounds: each has a token verified."""
        if self._served:
            slot, ready = self._served.popitem(last=False)
            slot.release()
            asyncio.get_running_loop().call_soon(self._serve)
            ready()


def _ask(endpoint: Endpoint) -> bytes:
    status, document = ask(endpoint, seconds=FETCH_S, bytes_max=KEYS_BYTES_MAX)
    if status != 200:
        raise OutgoingError(f"{endpoint.url}: answers {status}")
    return document


def _read(path: Path) -> Key:
    try:
        with path.open("rb") as file:
            return import_pem(file.read(KEYS_BYTES_MAX))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


class TokenLogins:
    """The back end.

    Args:
        settings: whole and checked.
        pool: where requests are sent.
        refusals: where those are counted that found no place to wait.
        secret: of this process.
        wake: says that something was given to the engine.
        now_s: the wall's clock.

    Raises:
        ConfigError: a key's file cannot be used.
    """

    name = OAUTH2

    def __init__(
        self,
        settings: OAuth2,
        pool: Executor,
        refusals: Refusals,
        secret: bytes,
        wake: Callable[[], None],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._keys = Keys(settings, pool, refusals)
        self._keys.changed = self._forget
        self._verifier = Verifier(settings)
        self._secret = secret
        self._wake = wake
        self._now_s = now_s
        self._verified: OrderedDict[bytes, User] = OrderedDict()

    def __repr__(self) -> str:
        return f"<TokenLogins {self._keys!r}>"

    def log_in(self, login: LoginRequest, answer: Answer) -> Leave:
        """Verify a token, which stands in the place of a password; see `Backend`."""
        token = login.credentials.password
        if not looks_like_a_token(token):
            answer("")
            return _nothing
        if login.credentials.mechanism != BEARER:
            return self._check(login.address, token, answer)

        def checked(found: User | AccessRefused | str) -> None:
            # No other back end takes a token by itself.
            if isinstance(found, str):
                log_refusal(self.name, login.credentials, found)
                found = TokenRefused(UNTOLD)
            answer(found)

        def expired() -> None:
            log_refusal(self.name, login.credentials, EXPIRED)
            answer(TokenRefused(EXPIRED))

        return self._check(login.address, token, checked, expired)

    def renew(self, user: User, secret: bytes, answer: Answer) -> Leave:
        """Verify a new token of the same user."""

        def checked(found: User | AccessRefused | str) -> None:
            if isinstance(found, User) and found.name != user.name:
                found = "the new token is another user's"
            answer(found)

        return self._check(("user", user.name), secret, checked)

    def stop(self) -> None:
        """Nobody is answered any more."""
        self._keys.stop()

    def _check(
        self,
        key: Hashable,
        token: bytes,
        answer: Answer,
        expired: Callable[[], None] | None = None,
    ) -> Leave:
        """Verify a token, as soon as its key is known; `key` is for whom it may wait."""

        def refuse(bad: TokenError) -> None:
            if expired is not None and isinstance(bad, TokenExpired):
                expired()
            else:
                answer(str(bad))

        def ready() -> None:
            try:
                user = self._user(token)
            except TokenError as bad:
                refuse(bad)
            else:
                answer(user)
            self._wake()

        try:
            user = self._user(token)
        except UnknownKey as unknown:
            try:
                leave = self._keys.wait(key, ready)
            except NoSlot as none:
                answer(str(none))
                return _nothing
            if leave is not None:
                return leave
            refuse(unknown)
        except TokenError as bad:
            refuse(bad)
        else:
            answer(user)
            self._keys.freshen()
        return _nothing

    def _user(self, token: bytes) -> User:
        name = key_name(token)
        digest = keyed_digest(self._secret, token)
        known = self._verified.get(digest)
        now_s = self._now_s()
        if known is not None and known.expires_ms is not None and known.expires_ms > now_s * 1000:
            self._verified.move_to_end(digest)
            return known
        user = self._verifier.user(token, self._keys.get(name), now_s)
        self._verified[digest] = user
        if len(self._verified) > VERIFIED_MAX:
            self._verified.popitem(last=False)
        return user

    def _forget(self) -> None:
        """A token may have been signed with a key that is no more."""
        self._verified.clear()


def _nothing() -> None:
    """There is nothing to give up."""
