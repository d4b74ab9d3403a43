"""Who is asked about users beside the broker itself, as the configuration says.

Responsible for making these back ends, in their order, for the threads that their requests are
sent from, and for those of their settings that a reload changes. Must not know how any of them
finds out. Invariant: what an extra is needed for is
imported only if the configuration asks for it, and a missing one ends the start with its name.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from leporid.broker.access.backends import INTERNAL, Backend
from leporid.server import http_logins, http_rights
from leporid.server.auth_requests import AuthRequests
from leporid.server.http_logins import HttpLogins, InternalLogins
from leporid.server.http_rights import HttpRights
from leporid.server.oauth_settings import HTTP, INTERNAL_HTTP, OAUTH2
from leporid.server.settings import ConfigError

if TYPE_CHECKING:
    from leporid.broker.broker import Broker
    from leporid.management.sign_on import SignOn
    from leporid.server.config import Config
    from leporid.server.token_logins import TokenLogins

PIP_COMMAND: Final = "pip install 'leporid[oauth]'"
SECRET_BYTES: Final = 32
# Requests at a time: those of logins and about rights, the one for keys, and two of codes
# (`code_logins`). A thread is made when all there are have work.
THREADS: Final = http_logins.REQUESTS_MAX + http_rights.REQUESTS_MAX + 3


class LoginBackends:
    """The back ends of one broker.

    Args:
        config: whole and checked.
        broker: which asks them from now on.
        wake: says that something was given to the engine.

    Raises:
        ConfigError: a file cannot be used, or an extra is missing.

    Attributes:
        sign_on: logs in to the web UI by OAuth 2; None: nobody does.
    """

    def __init__(self, config: Config, broker: Broker, wake: Callable[[], None]) -> None:
        self._config = config
        self._refusals = broker.refusals
        self._wake = wake
        self._pool: _Threads | None = None
        self._tokens: TokenLogins | None = None
        self._requests: AuthRequests | None = None
        self._http_logins: HttpLogins | None = None
        self.sign_on: SignOn | None = None
        made: list[Backend] = []
        for name in config.auth.backends:
            if name == INTERNAL:
                made.append(broker.backends.internal)
            elif name == OAUTH2:
                self._tokens = self._make_tokens()
                made.append(self._tokens)
                self.sign_on = self._make_sign_on()
            elif name == HTTP:
                made.append(self._http(broker))
            elif name == INTERNAL_HTTP:
                made.append(InternalLogins(broker.backends.internal, self._http(broker)))
        broker.backends.use(made)

    def _make_tokens(self) -> TokenLogins:
        try:
            from leporid.server.token_logins import TokenLogins
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "joserfc":
                raise
            raise ConfigError(
                f"auth.backends has oauth2, which needs joserfc: {PIP_COMMAND}"
            ) from None
        secret = secrets.token_bytes(SECRET_BYTES)
        return TokenLogins(self._config.oauth2, self._threads(), self._refusals, secret, self._wake)

    def _make_sign_on(self) -> SignOn | None:
        if self._config.oauth2.client_id is None:
            return None
        # It is of HTTP, which not every broker has.
        from leporid.server.code_logins import CodeLogins

        return CodeLogins(self._config.oauth2, self._threads(), self._refusals)

    def _http(self, broker: Broker) -> HttpLogins:
        """Return what asks the server: the same for all who do, so that they share its limits."""
        if self._http_logins is None:
            self._http_logins = self._make_http(broker)
        return self._http_logins

    def _make_http(self, broker: Broker) -> HttpLogins:
        requests = self._requests = AuthRequests(self._config.auth_http)
        pool, refusals = self._threads(), broker.refusals
        rights = HttpRights(
            requests,
            self._cache_s,
            pool,
            refusals,
            self._wake,
            broker.recheck,
            broker.engine.jobs,
        )
        return HttpLogins(
            requests,
            self._cache_s,
            broker.access,
            rights,
            pool,
            refusals,
            secrets.token_bytes(SECRET_BYTES),
            self._wake,
        )

    def _cache_s(self) -> float:
        return self._config.auth.cache_seconds

    def reload(self, config: Config) -> None:
        """Have other settings: all that are declared live."""
        self._config = config
        if self._requests is not None:
            self._requests.settings = config.auth_http

    def _threads(self) -> _Threads:
        if self._pool is None:
            self._pool = _Threads()
        return self._pool

    def stop(self) -> None:
        """Ask nobody any more."""
        if self._tokens is not None:
            self._tokens.stop()
        if self._pool is not None:
            self._pool.stop()


class _Threads(ThreadPoolExecutor):
    """Those that requests are sent from.

    Of a request after `stop`, as of one that had to wait, the future is cancelled: clients may log
    in until the last moment.
    """

    def __init__(self) -> None:
        super().__init__(THREADS, "outgoing")
        self._stopped = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have something done on a thread; see `Executor`."""
        if not self._stopped:
            return super().submit(fn, *args, **kwargs)
        never: Future[Any] = Future()
        never.cancel()
        never.set_running_or_notify_cancel()
        return never

    def stop(self) -> None:
        """Begin nothing more; what is under way goes on."""
        self._stopped = True
        self.shutdown(wait=False, cancel_futures=True)
