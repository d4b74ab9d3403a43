"""The audit log: an entry for each administrative act over HTTP, whatever became of it.

Responsible for who, from where, what and the outcome: as lines of the logger `leporid.audit`, and
the newest of them in memory, which administrators read at /api/audit. Must not know what a route
does. Invariants: nothing of a body, of a query or of a header but the user's name stands in an
entry, so that no secret does; what stands in a line is ASCII without line breaks, whatever a peer
sends; of what administrators have done no line is left out, however many there are and whatever the
level of the log, as a restart forgets what is in memory; entries that others cause take no place of
these there.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from heapq import merge
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from leporid.broker.access.backends import INTERNAL
from leporid.broker.access.tags import is_administrator
from leporid.limits.log_lines import caused_by, unbounded
from leporid.limits.shares import address_key
from leporid.management.authorization import administrator
from leporid.management.paging import Lists, Table
from leporid.management.parameters import Parameters
from leporid.management.paths import takes, visit_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from leporid.broker.access.access import User
    from leporid.management.surroundings import Surroundings

logger = logging.getLogger("leporid.audit")
logger.setLevel(logging.INFO)

PATH_CHARACTERS_MAX: Final = 1000
REASON_CHARACTERS_MAX: Final = 200
NOBODY: Final = "nobody"
"""Who has not logged in."""

ENTRIES_MAX: Final = 5000
"""Of acts of administrators that were done, and again of all others: 500 bytes each as a rule, 4 KB
with the longest path and names."""

OUTCOMES: Final = ("done", "refused", "failed")
VHOSTS: Final = "/api/vhosts/"
LIST_PARAMETERS: Final = (
    "page", "page_size", "name", "use_regex", "sort", "sort_reverse", "columns",
)  # fmt: skip
TEXT: Final = {"type": "string"}
TIME: Final = {"type": "integer", "minimum": 0}
FILTERS: Final[dict[str, dict[str, Any]]] = {
    "user": TEXT,
    "vhost": TEXT,
    "outcome": {"enum": list(OUTCOMES)},
    "since_ms": TIME,
    "until_ms": TIME,
}


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One act.

    Attributes:
        id: grows with each entry, from 1 at the start of the broker.
        at_ms: when it was answered, by the wall's clock.
        user: who; None: somebody who has not logged in.
        backend: who knows that user; None likewise.
        address: host and port that the request came from.
        method: of the request.
        path: as it was sent, percent-encoded.
        vhost: the virtual host that the path names; None: it names none.
        status: of the answer.
        reason: why it was refused; "" if it was not.
    """

    id: int
    at_ms: int
    user: str | None
    backend: str | None
    address: str
    method: str
    path: str
    vhost: str | None
    status: int
    reason: str

    @property
    def outcome(self) -> str:
        """What became of it: "done"; "refused", which was the client's; "failed", the broker's."""
        return OUTCOMES[0 if self.status < 400 else 1 if self.status < 500 else 2]


class AuditLog:
    """Writes the log, and remembers its newest entries.

    Args:
        now_s: the wall's clock.
        entries_max: how many are remembered of each of the two kinds.
    """

    def __init__(
        self, now_s: Callable[[], float] = time.time, entries_max: int = ENTRIES_MAX
    ) -> None:
        self._now_s = now_s
        self._count = 0
        self._acts: deque[AuditEntry] = deque(maxlen=entries_max)
        self._others: deque[AuditEntry] = deque(maxlen=entries_max)

    def __repr__(self) -> str:
        return f"<AuditLog {len(self)}>"

    def __len__(self) -> int:
        return len(self._acts) + len(self._others)

    def note(self, request: Request, status: int, reason: object = "") -> None:
        """Add the entry of a request that was answered.

        Args:
            request: the request.
            status: of the answer.
            reason: why it was refused, if it was. Of a list, its first part: what follows is of the
                body, which may have a secret.
        """
        said = str(reason[0] if isinstance(reason, list) and reason else reason)
        user = visit_of(request).user
        host, port = request.client or ("", 0)
        self._count += 1
        entry = AuditEntry(
            id=self._count,
            at_ms=int(self._now_s() * 1000),
            user=None if user is None else user.name,
            backend=None if user is None else user.backend or INTERNAL,
            address=f"{host}:{port}",
            method=request.method,
            path=request.scope.get("raw_path", b"").decode("latin-1")[:PATH_CHARACTERS_MAX],
            vhost=_vhost_of(request),
            status=status,
            reason=said[:REASON_CHARACTERS_MAX],
        )
        # Others, and who is refused, could fill the log. Who has asked is known by the login, and
        # not by the name, which another back end may know for another user.
        is_act = user is not None and is_administrator(user) and status < 400
        (self._acts if is_act else self._others).append(entry)
        _write(entry, unbounded() if is_act else caused_by(entry.address, _peer(user, host)))

    def newest(self) -> Iterator[AuditEntry]:
        """Go through the entries as of now, the newest first."""
        return merge(
            list(reversed(self._acts)),
            list(reversed(self._others)),
            key=lambda entry: -entry.id,
        )


def _write(entry: AuditEntry, extra: dict[str, object]) -> None:
    logger.info(
        "%s %s by %s from %s: %d%s",
        entry.method,
        ascii(entry.path)[1:-1],
        NOBODY if entry.user is None else ascii(entry.user),
        ascii(entry.address)[1:-1],
        entry.status,
        f" ({ascii(entry.reason)[1:-1]})" if entry.reason else "",
        extra=extra,
    )


def _peer(user: User | None, host: str) -> str:
    return f"address {address_key(host)}" if user is None else f"user {user.name}"


def _vhost_of(request: Request) -> str | None:
    names = request.path_params
    path = request.scope.get("raw_path", b"").decode("latin-1")
    name = names.get("vhost", names.get("name") if path.startswith(VHOSTS) else None)
    if name is None:
        return None
    return unquote_to_bytes(name[:PATH_CHARACTERS_MAX]).decode("utf-8", "replace")


class AuditRoutes:
    """The handler of /api/audit.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        table: Table[AuditEntry] = Table({}, whole=_shown)
        self._lists = Lists(around, table, lambda entry: entry.path)

    @takes(**FILTERS)
    async def listing(self, request: Request) -> Response:
        """GET /api/audit: administrative acts and what became of them, the newest first."""
        around = self._around
        asking = await administrator(around, request)
        wanted = _wanted(Parameters(request, (*LIST_PARAMETERS, *FILTERS)))
        found = (entry if wanted(entry) else None for entry in around.audit.newest())
        return await self._lists.answer(request, asking, found, len(around.audit))


def _shown(entry: AuditEntry) -> dict[str, Any]:
    return asdict(entry) | {"outcome": entry.outcome}


def _wanted(parameters: Parameters) -> Callable[[AuditEntry], bool]:
    """Return what says whether an entry is asked for; raises Refusal (400)."""
    user, vhost = parameters.text("user"), parameters.text("vhost")
    outcome = parameters.choice("outcome", OUTCOMES) if "outcome" in parameters else None
    since_ms = parameters.whole("since_ms", 0)
    until_ms = parameters.whole("until_ms", 0) if "until_ms" in parameters else None

    def wanted(entry: AuditEntry) -> bool:
        return (
            (user is None or entry.user == user)
            and (vhost is None or entry.vhost == vhost)
            and (outcome is None or entry.outcome == outcome)
            and entry.at_ms >= since_ms
            and (until_ms is None or entry.at_ms < until_ms)
        )

    return wanted
