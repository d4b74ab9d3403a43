"""Filter classes over HTTP: register, look at, delete; for administrators only.

Responsible for these routes. Must not know what a class does, nor how it is run. Invariant: a
source is registered only after it was loaded, in a process of its own that is gone again; an answer
that something was registered or deleted leaves only when that is on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from leporid.broker.access.access import DEFAULT_USER
from leporid.broker.access.tags import ADMINISTRATOR, is_administrator
from leporid.broker.filter.filter_classes import FilterClassConflict
from leporid.filterserver.filter_class import FilterClass, FilterClassError
from leporid.filterserver.host import FilterFailure
from leporid.management.admission import holding
from leporid.management.listings import Written
from leporid.management.paging import Lists, Table, in_slices, query_in
from leporid.management.parameters import NUMBER_MAX, Parameters, raw_body_of
from leporid.management.paths import name_of
from leporid.management.refusals import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.broker.filter.filter_classes import FilterClasses
    from leporid.management.surroundings import Surroundings

CLASS_NAME: Final = "Filter"
"""What a class is called in its source when nobody says."""


class FilterClassRoutes:
    """The handlers.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._table: Table[FilterClass] = Table(
            {
                "name": lambda one: one.name,
                # Sorted by how many there are.
                "used_by": lambda one: list(self._classes.uses(one.name)),
            },
            lambda one: (one.name,),
            self._shown,
        )
        self._lists = Lists(around, self._table, lambda one: one.name)

    @property
    def _classes(self) -> FilterClasses:
        return self._around.broker.filter_classes

    async def listing(self, request: Request) -> Response:
        """GET /api/filter-classes."""
        user = await self._administrator(request)
        query, classes, table = query_in(request), tuple(self._classes), self._table
        paths = [query.sort or (), *(each.path for each in query.conditions)]
        if any(path[:1] == ("waiting",) for path in paths):
            # Unlike what is only shown, what decides must be counted before.
            counts = {one.name: await self._count_waiting(user, one.name) for one in classes}
            fields = {**table.fields, "waiting": lambda one: counts[one.name]}
            table = replace(table, fields=fields)
        return await self._lists.answer(request, user, classes, len(classes), table)

    async def show(self, request: Request) -> Response:
        """GET /api/filter-classes/{name}: with its source."""
        user = await self._administrator(request)
        Parameters(request, ())
        found = self._classes.require(name_of(request, "name"))
        source = found.source.decode("utf-8", "replace")
        return self._around.listing(user, {**self._shown(found), "source": source})

    async def put(self, request: Request) -> Response:
        """PUT /api/filter-classes/{name}?version=…&class=…: the body is the source.

        201 when the name is new, 204 when there was one.
        """
        user = await self._administrator(request)
        self._check_guest(user)
        name, given = name_of(request, "name"), Parameters(request, ("version", "class"))
        version = given.whole("version", self._classes.next_version(name), 1, NUMBER_MAX)
        class_name = given.text("class") or CLASS_NAME
        try:
            admission = self._around.admission
            source = await raw_body_of(admission, request, user)
            found = FilterClass(name, version, class_name, source)
            self._classes.check(found)
            async with holding(admission.shares.trials, user.name):
                await self._around.try_filter_class(found)
            self._around.check_unchanged(user)
            # Somebody else may have registered another one meanwhile.
            new = self._classes.put(found)
        except FilterClassConflict as error:
            raise Refusal(409, "conflict", str(error)) from None
        except FilterClassError as error:
            raise Refusal(400, "bad-request", f"no filter class: {error}") from None
        except FilterFailure as error:
            raise Refusal(
                400, "does-not-load", f"filter class '{name}' does not load: {error}"
            ) from None
        await self._around.recorded(user)
        return Response(status_code=201 if new else 204)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/filter-classes/{name}; 409 while something uses it."""
        user = await self._administrator(request)
        Parameters(request, ())
        try:
            self._classes.drop(name_of(request, "name"))
        except FilterClassConflict as error:
            raise Refusal(409, "conflict", str(error)) from None
        await self._around.recorded(user)
        return Response(status_code=204)

    async def _administrator(self, request: Request) -> User:
        """Return who asks; lets only those in who may have code of theirs run."""
        user = await self._around.user(request)
        if not is_administrator(user):
            raise Refusal(
                403,
                "forbidden",
                f"user '{user.name}' lacks the tag {ADMINISTRATOR}, which this needs",
            )
        return user

    def _check_guest(self, user: User) -> None:
        """Let no code in from a user whose password everybody knows."""
        if user.name == DEFAULT_USER and not self._around.guest_registers:
            raise Refusal(
                403,
                "forbidden",
                f"user '{user.name}', whose password everybody knows, registers no filter classes: "
                f"do it as another user with the tag {ADMINISTRATOR}, or set "
                "filter_server.allow_guest = true in the configuration",
            )

    async def _count_waiting(self, user: User, name: str) -> int:
        places = self._around.broker.waiting_for_verdicts(name)
        return sum([sum(some) async for some in in_slices(self._around, user, places)])

    def _waiting(self, name: str) -> Iterator[str]:
        """Write how many messages wait, after nothing for each place where some may."""
        count = 0
        for some in self._around.broker.waiting_for_verdicts(name):
            count += some
            yield ""
        yield str(count)

    def _shown(self, one: FilterClass) -> dict[str, Any]:
        return {
            "name": one.name,
            "version": one.version,
            "class": one.class_name,
            "source_bytes": len(one.source),
            "configured": self._classes.is_configured(one.name),
            "used_by": iter(self._classes.uses(one.name)),
            "waiting": Written(self._waiting(one.name)),
            **asdict(self._around.filter_class_status(one.name)),
        }
