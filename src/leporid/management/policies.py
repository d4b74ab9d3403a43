"""Policies and operator policies over HTTP, as RabbitMQ's management plugin has them.

Responsible for these routes: paths, answers, and who may use them are RabbitMQ's, so that its tools
work unchanged. Must not know what a policy does. Invariant: an answer that something was set or
deleted leaves only when that is in force and on disk.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.access import tags
from leporid.broker.definitions.exporting import policy_definition
from leporid.broker.policy.policies import APPLY_TO, PolicyError, make_policy
from leporid.broker.policy.preview import Preview
from leporid.management.authorization import (
    administrator,
    manager,
    not_authorised,
    not_found,
    vhosts_listed,
)
from leporid.management.paging import Lists, Table
from leporid.management.parameters import flag_of, object_of, policy_body_of
from leporid.management.paths import name_of, takes
from leporid.management.policy_preview import previewed
from leporid.management.refusals import Refusal, bad_request

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.broker.policy.policies import Policy
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings


class PolicyRoutes:
    """The handlers for policies, or for operator policies.

    Args:
        around: the broker.
        operator: for which kind.
    """

    def __init__(self, around: Surroundings, *, operator: bool) -> None:
        self._around = around
        self._operator = operator
        table: Table[dict[str, Any]] = Table({}, itemgetter("priority", "vhost", "name"), dict)
        self._lists = Lists(around, table, lambda each: str(each["name"]))

    async def listing(self, request: Request) -> Response:
        """GET /api/policies, and /api/policies/{vhost}."""
        user, vhosts = await vhosts_listed(self._around, request)
        found = (
            policy_definition(vhost.name, policy) if policy.operator == self._operator else None
            for vhost in vhosts
            for policy in tuple(vhost.policies)
        )
        count = sum(len(tuple(vhost.policies)) for vhost in vhosts)
        return await self._lists.answer(request, user, found, count)

    async def show(self, request: Request) -> Response:
        """GET /api/policies/{vhost}/{name}."""
        _, vhost = await self._enter(request)
        policy = self._find(vhost, name_of(request, "name"))
        if vhost is None or policy is None:
            raise not_found()
        return JSONResponse(policy_definition(vhost.name, policy))

    def _find(self, vhost: VirtualHost | None, name: str) -> Policy | None:
        return vhost.policies.find(name, operator=self._operator) if vhost is not None else None

    @takes(
        {
            "pattern": {"type": "string", "required": True},
            "definition": {"type": "object", "required": True},
            "priority": {"type": "integer"},
            "apply-to": {"type": "string", "enum": list(APPLY_TO)},
        },
        dry_run={"type": "boolean"},
    )
    async def put(self, request: Request) -> Response:
        """PUT /api/policies/{vhost}/{name}: 201 when it is new, 204 when there was one.

        With `?dry_run=true` nothing is changed, and 200 says what it would govern.
        """
        user, vhost = await self._enter(request)
        if vhost is None:
            raise Refusal(404, "not_found", "vhost_not_found")
        admission = self._around.admission
        name, data = name_of(request, "name"), await policy_body_of(admission, request, user)
        self._around.check_unchanged(user, vhost.name)
        given = object_of(admission, data, ("pattern", "definition"))
        try:
            policy = make_policy(
                name,
                given["pattern"],
                given["definition"],
                priority=given.get("priority", 0),
                apply_to=given.get("apply-to", "all"),
                operator=self._operator,
            )
        except PolicyError as error:
            raise bad_request(f"Validation failed\n\n{error}\n") from None
        try:
            governor = vhost.governor
            if flag_of(request, "dry_run"):
                governor.check_settable(policy)
                return await self._preview(user, vhost, name, policy)
            vhost.unknown_arguments.check_policy(name, given, f"user '{user.name}'")
            new = await self._around.job(lambda: governor.setting(policy))
        except PreconditionFailed as fault:
            raise _of(fault) from None
        await self._around.recorded(user)
        return Response(status_code=201 if new else 204)

    @takes(dry_run={"type": "boolean"})
    async def delete(self, request: Request) -> Response:
        """DELETE /api/policies/{vhost}/{name}; with `?dry_run=true` as PUT."""
        (user, vhost), name = await self._enter(request), name_of(request, "name")
        if vhost is None or self._find(vhost, name) is None:
            raise not_found()
        try:
            governor = vhost.governor
            if flag_of(request, "dry_run"):
                governor.check_not_configured(name, operator=self._operator)
                return await self._preview(user, vhost, name, None)
            await self._around.job(lambda: governor.dropping(name, operator=self._operator))
        except PreconditionFailed as fault:
            raise _of(fault) from None
        await self._around.recorded(user)
        return Response(status_code=204)

    async def _preview(
        self, user: User, vhost: VirtualHost, name: str, policy: Policy | None
    ) -> Response:
        preview = Preview(vhost, name, operator=self._operator, policy=policy)
        return await previewed(self._around, user, preview)

    async def _enter(self, request: Request) -> tuple[User, VirtualHost | None]:
        """Return who may rule in the virtual host in the path, and it, if there is one."""
        around = self._around
        user = await (administrator if self._operator else manager)(around, request)
        vhost = around.broker.vhosts.get(name_of(request, "vhost"))
        may = tags.may_make_policies(user)
        if may and vhost is not None:
            entered = vhost.name
            may = await around.decided(lambda: tags.may_enter(user, entered))
        if not may:
            raise not_authorised("User not authorised to access object")
        return user, vhost


def _of(fault: PreconditionFailed) -> Refusal:
    return bad_request(fault.text.partition(" - ")[2])
