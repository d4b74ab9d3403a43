"""Runs of data pipelines over HTTP: pipelines report theirs, pages and commands look at them.

Responsible for these routes, and for what a report may say. Must not know what a pipeline does, nor
where reports are kept (`broker/pipeline_runs.py`). Invariants: a report is refused whole or kept
whole, and says only what is named here; a user reports its own pipelines only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leporid.amqp.constants import SHORTSTR_BYTES_MAX
from leporid.broker.access import tags
from leporid.broker.pipeline_runs import PipelineRun
from leporid.management.authorization import not_authorised, vhosts_listed
from leporid.management.paging import Lists, Table
from leporid.management.parameters import NUMBER_MAX, Parameters, body_of
from leporid.management.paths import name_of, takes
from leporid.management.refusals import Refusal, bad

if TYPE_CHECKING:
    from leporid.broker.access.access import User
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings

STATES: Final = ("running", "retrying", "done", "stopped", "failed")
# A line of an error, or a place on an object store.
TEXT_BYTES_MAX: Final = 1024
TEXTS: Final = {
    "pipeline": SHORTSTR_BYTES_MAX,
    "stream": SHORTSTR_BYTES_MAX,
    "reader": SHORTSTR_BYTES_MAX,
    "target": TEXT_BYTES_MAX,
    "error": TEXT_BYTES_MAX,
}
NUMBERS: Final = (
    "started_ms", "step_ms", "ended_ms", "exit_code",
    "records", "put_aside", "steps", "failures", "lag",
)  # fmt: skip
NEEDED: Final = ("pipeline", "state", "started_ms")
MEMBERS: Final = ("state", *TEXTS, *NUMBERS)

SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "state": {"enum": list(STATES)},
    **{name: {"type": "string", "maxLength": most} for name, most in TEXTS.items()},
    **{name: {"type": "integer", "minimum": 0} for name in NUMBERS},
}
REPORT: Final = {name: {**SCHEMAS[name], "required": name in NEEDED} for name in MEMBERS}


@dataclass(frozen=True, slots=True)
class Row:
    """A pipeline and its runs, the newest first."""

    vhost: str
    runs: list[PipelineRun]

    @property
    def last(self) -> PipelineRun:
        """The newest run."""
        return self.runs[0]


def _fact(name: str) -> Callable[[Row], Any]:
    return lambda row: row.last.facts.get(name)


FIELDS: Final[dict[str, Any]] = {
    "name": lambda row: row.last.name,
    "vhost": lambda row: row.vhost,
    "user": lambda row: row.last.user,
    **{name: _fact(name) for name in MEMBERS},
    "started_ms": lambda row: row.last.started_ms,
    "reported_ms": lambda row: row.last.reported_ms,
    "runs": lambda row: len(row.runs),
    "failed_runs": lambda row: sum(run.facts["state"] == "failed" for run in row.runs),
    "put_aside_in_runs": lambda row: sum(run.facts.get("put_aside") or 0 for run in row.runs),
}


class PipelineRoutes:
    """The handlers.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        table: Table[Row] = Table(FIELDS, attrgetter("vhost", "last.name", "last.user"))
        self._lists: Lists[Row] = Lists(around, table, lambda row: row.last.name)

    async def listing(self, request: Request) -> Response:
        """GET /api/pipelines, and /api/pipelines/{vhost}: each with its newest run."""
        user, vhosts = await vhosts_listed(self._around, request)
        count = sum(len(vhost.pipeline_runs) for vhost in vhosts)
        return await self._lists.answer(request, user, _rows(vhosts), count)

    @takes(user={"type": "string"})
    async def show(self, request: Request) -> Response:
        """GET /api/pipelines/{vhost}/{name}: the runs that are kept, the newest first."""
        _, vhost, owner, name = await self._found(request, "look at")
        runs = vhost.pipeline_runs.of(owner, name)
        if not runs:
            raise _unknown(owner, name)
        own = {"name": name, "vhost": vhost.name, "user": owner}
        return JSONResponse({**own, "runs": [_shown(run) for run in runs]})

    @takes(body=REPORT)
    async def report(self, request: Request) -> Response:
        """PUT /api/pipelines/{vhost}/{name}: report how a run of one's own is."""
        user, vhost = await self._around.enter(request)
        Parameters(request, ())
        name = name_of(request, "name")
        _check_text("name", name, SHORTSTR_BYTES_MAX)
        body = await body_of(self._around.admission, request, user, MEMBERS)
        facts = _facts(body)
        now_ms = self._around.engine.clock.wall_ms
        run = PipelineRun(user.name, name, facts.pop("started_ms"), now_ms, facts)
        vhost.pipeline_runs.report(run)
        await self._around.recorded(user)
        return Response(status_code=204)

    @takes(user={"type": "string"})
    async def forget(self, request: Request) -> Response:
        """DELETE /api/pipelines/{vhost}/{name}: forget a pipeline and its runs."""
        user, vhost, owner, name = await self._found(request, "delete")
        if not vhost.pipeline_runs.drop(owner, name):
            raise _unknown(owner, name)
        await self._around.recorded(user)
        return Response(status_code=204)

    async def _found(self, request: Request, act: str) -> tuple[User, VirtualHost, str, str]:
        """Return who asks, where, whose pipeline it is (the user's or another's), and its name.

        Raises:
            Refusal: it is another's, and the user is no administrator, or to look at it, has no
                tag of the management.
        """
        user, vhost = await self._around.enter(request)
        owner = Parameters(request, ("user",)).text("user") or user.name
        may = tags.may_manage(user) if act == "look at" else tags.is_administrator(user)
        if owner != user.name and not may:
            raise not_authorised(f"user '{user.name}' may not {act} pipelines of user '{owner}'")
        return user, vhost, owner, name_of(request, "name")


def _rows(vhosts: list[VirtualHost]) -> Iterator[Row | None]:
    for vhost in vhosts:
        for runs in vhost.pipeline_runs:
            yield Row(vhost.name, runs)


def _shown(run: PipelineRun) -> dict[str, Any]:
    facts = {name: run.facts.get(name) for name in MEMBERS}
    return {**facts, "started_ms": run.started_ms, "reported_ms": run.reported_ms}


def _facts(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a report says, without what it leaves out.

    Raises:
        Refusal: 400 if a member is missing, is of another type, or too large.
    """
    found = {name: value for name, value in body.items() if value is not None}
    for name in NEEDED:
        if name not in found:
            raise bad(name, "is missing")
    if found["state"] not in STATES:
        raise bad("state", f"is none of {', '.join(STATES)}")
    for name, most in TEXTS.items():
        if name in found:
            _check_text(name, found[name], most)
    for name in NUMBERS:
        value = found.get(name, 0)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= NUMBER_MAX:
            raise bad(name, f"is not a whole number from 0 to {NUMBER_MAX}")
    return found


def _check_text(name: str, value: object, bytes_max: int) -> None:
    if not isinstance(value, str):
        raise bad(name, "is not a text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise bad(name, "is not Unicode text") from None
    if size > bytes_max:
        raise bad(name, f"has {size} bytes; at most {bytes_max} are allowed")


def _unknown(owner: str, name: str) -> Refusal:
    return Refusal(404, "not-found", f"user '{owner}' has reported no pipeline '{name}' here")
