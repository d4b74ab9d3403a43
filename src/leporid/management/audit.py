"""The audit log: one line for each administrative act over HTTP, whatever became of it.

Responsible for who, from where, what and the outcome, in the logger `leporid.audit`. Must not know
what a route does. Invariants: nothing of a body, of a query or of a header but the user's name
stands in a line, so that no secret does; what stands there is ASCII without line breaks, whatever a
peer sends; of what administrators have done no line is left out, however many there are.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from leporid.broker.access.tags import is_administrator
from leporid.limits.log_lines import caused_by, unbounded
from leporid.limits.shares import address_key
from leporid.management.paths import visit_of

if TYPE_CHECKING:
    from starlette.requests import Request

logger = logging.getLogger("leporid.audit")

PATH_CHARACTERS_MAX: Final = 1000
REASON_CHARACTERS_MAX: Final = 200
NOBODY: Final = "nobody"
"""Who has not logged in."""


def note(request: Request, status: int, reason: object = "") -> None:
    """Write the line of a request that was answered.

    Args:
        request: the request.
        status: of the answer.
        reason: why it was refused, if it was. Of a list, its first part: what follows is of the
            body, which may have a secret.
    """
    said = str(reason[0] if isinstance(reason, list) and reason else reason)
    said = said[:REASON_CHARACTERS_MAX]
    user = visit_of(request).user
    host, port = request.client or ("", 0)
    path = request.scope.get("raw_path", b"").decode("latin-1")[:PATH_CHARACTERS_MAX]
    peer = f"address {address_key(host)}" if user is None else f"user {user.name}"
    logger.info(
        "%s %s by %s from %s: %d%s",
        request.method,
        ascii(path)[1:-1],
        NOBODY if user is None else ascii(user.name),
        ascii(f"{host}:{port}")[1:-1],
        status,
        f" ({ascii(said)[1:-1]})" if said else "",
        # Others, and who is refused, could fill the log. Who has asked is known by the login, and
        # not by the name, which another back end may know for another user.
        extra=unbounded()
        if user is not None and is_administrator(user) and status < 400
        else caused_by(f"{host}:{port}", peer),
    )
