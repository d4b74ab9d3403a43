"""Routes whose path is matched before it is decoded, so that a name may hold a slash.

Responsible for the names in a path: the virtual host "/" is written `%2F`. Starlette matches the
decoded path, in which that is a separator. Invariant: a name reaches a handler decoded once, as
UTF-8, or the request is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from leporid.management.refusals import bad


class RawRoute(Route):
    """A route over the path as it came."""

    def matches(self, scope: Any) -> tuple[Match, Any]:
        """Match the encoded path; see Starlette."""
        raw = scope.get("raw_path")
        if scope["type"] != "http" or not raw:
            return super().matches(scope)
        return super().matches({**scope, "path": raw.decode("latin-1")})


def route(path: str, handler: Callable[[Request], Awaitable[Response]], *methods: str) -> RawRoute:
    """Make a route for these methods."""
    return RawRoute(path, handler, methods=list(methods))


def name_of(request: Request, parameter: str) -> str:
    """Return a decoded name from the path.

    Raises:
        Refusal: it is not UTF-8.
    """
    try:
        return unquote_to_bytes(request.path_params[parameter]).decode()
    except UnicodeDecodeError:
        raise bad(parameter, "is not percent-encoded UTF-8") from None
