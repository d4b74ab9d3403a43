"""Whether a request was meant for this broker, and came from this machine.

A browser sends requests wherever a page tells it to, with the user's password if it knows one. What
gives such a request away is that its `Host` is the page's own name, which leads to our address for
this purpose (DNS rebinding), or that its `Origin` is another place (CSRF). Other clients ask for
whatever name leads to the broker, such as a container's. And whoever is behind a proxy on this
machine has an address of this machine.

Responsible for these headers, and those of browsers and proxies. Must not know users or routes.
Invariant: a request is of this machine only if nothing in it speaks against that.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection
from typing import Final

from starlette.requests import Request

from leporid.management.refusals import Refusal

# A name has 253 characters at most (RFC 1035, 2.3.4); a longer header is no name of ours.
SHOWN_CHARACTERS_MAX: Final = 255
DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
LOCALHOST: Final = "localhost"

# What pages cannot keep a browser from sending, and programs do not send: the language always
# (Fetch, "HTTP-network-or-cache fetch"), the others depending on the request.
BROWSER_HEADERS: Final = frozenset({"accept-language", "cookie", "origin", "referer"})
BROWSER_PREFIX: Final = "sec-"
BROWSER_AGENT: Final = "mozilla/"

# What proxies add, and nobody else; beside these everything that begins with x-forwarded-.
PROXY_HEADERS: Final = frozenset(
    {
        "cf-connecting-ip",
        "client-ip",
        "forwarded",
        "true-client-ip",
        "via",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-original-forwarded-for",
        "x-real-ip",
    }
)
FORWARDED: Final = "x-forwarded-"

PROXIED: Final = "proxied"
"""In the state of requests whose connection came through a proxy that says so below HTTP."""

_AUTHORITY: Final = re.compile(r"(?:\[([^\[\]]+)\]|([^:\[\]@/]+))(?::([0-9]{1,5}))?")


def check(request: Request, names: Collection[str]) -> None:
    """Refuse a request that was not meant for this broker, whoever sent it.

    Args:
        request: if a browser sends it, its `Host` must be an address, `localhost`, or one of the
            names, and its `Origin`, if there is one, the same place.
        names: what this broker is called beside that (`http.hosts`), in lower case.

    Raises:
        Refusal: 421 for another host, 403 for another origin.
    """
    given = request.headers.get("host", "")
    host = _split(given)
    ours = host is not None and (host[0] in names or host[0] == LOCALHOST or _address(host[0]))
    if host is None or (not ours and _is_of_browser(request)):
        raise Refusal(
            421,
            "unknown-host",
            f"Host {_shown(given)} is no name of this broker: ask for its address or localhost, or "
            "put the name into http.hosts of the configuration",
        )
    origin = request.headers.get("origin")
    if origin is not None and _place(origin) != host:
        raise Refusal(
            403,
            "other-origin",
            f"Origin {_shown(origin)} is another place than Host {_shown(given)}: pages of other "
            "places may not ask this broker",
        )


def is_of_this_machine(request: Request, is_loopback: Callable[[str], bool]) -> bool:
    """Say whether a request comes from this machine, and not through a proxy on it.

    A proxy that adds no header and asks for `localhost` itself cannot be told from a client.
    """
    if getattr(request.state, PROXIED, False):
        return False
    if request.client is None or not is_loopback(request.client.host):
        return False
    if any(name in PROXY_HEADERS or name.startswith(FORWARDED) for name in request.headers):
        return False
    host = _split(request.headers.get("host", ""))
    return host is not None and (host[0] == LOCALHOST or is_loopback(host[0]))


def _is_of_browser(request: Request) -> bool:
    return BROWSER_AGENT in request.headers.get("user-agent", "").lower() or any(
        name in BROWSER_HEADERS or name.startswith(BROWSER_PREFIX) for name in request.headers
    )


def _split(authority: str, scheme: str = "http") -> tuple[str, str] | None:
    """Return host and port, the scheme's own one as none; None if it is not of this form."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return None
    host = (match[1] or match[2]).lower()
    # With a dot at its end it is the same name, written in full.
    host = host.removesuffix(".")
    return host, "" if match[3] in (None, DEFAULT_PORTS[scheme]) else match[3]


def _place(origin: str) -> tuple[str, str] | None:
    scheme, _, authority = origin.partition("://")
    return _split(authority, scheme) if scheme in DEFAULT_PORTS else None


def _address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _shown(header: str) -> str:
    return ascii(header[:SHOWN_CHARACTERS_MAX])
