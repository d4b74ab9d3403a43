"""Cookies of requests: ours, among whatever a browser or anybody else sends.

Responsible for finding one by its name. Must not know what a cookie is for. Invariant: a header is
looked through once, however it is written. Before a login nothing may cost more: the standard
library's parser decodes quoted values, which takes a quarter of a second for 16 KB of backslashes
(CVE-2024-7592, not mended in each Python that the broker runs on).
"""

from __future__ import annotations

from starlette.requests import Request


def cookie_in(request: Request, name: str) -> str | None:
    """Return a cookie's value as it was sent, of several the last; None without one.

    Ours are hexadecimal or base64url: they have no quotes (RFC 6265, 4.1.1).
    """
    found = None
    for header in request.headers.getlist("cookie"):
        for each in header.split(";"):
            key, equals, value = each.partition("=")
            if equals and key.strip() == name:
                found = value.strip()
    return found
