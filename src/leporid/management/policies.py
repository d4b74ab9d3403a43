"""Policies and operator policies over HTTP, as RabbitMQ's management plugin has them.

Responsible for these routes: paths, answers, and who may use them are RabbitMQ's, so that its tools
work unchanged. Must not know what a policy does. Invariant: an answer that something was set or
deleted leaves only when that is in force and on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse, Response

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.policy.policies import PolicyError, make_policy
from leporid.management.listings import in_order
from leporid.management.parameters import json_of, raw_body_of
from leporid.management.paths import name_of
from leporid.management.refusals import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.broker.policy.policies import Policy
    from leporid.broker.vhost import VirtualHost
    from leporid.management.admission import Admission
    from leporid.management.surroundings import Surroundings

ADMINISTRATOR: Final = "administrator"
POLICYMAKERS: Final = frozenset({ADMINISTRATOR, "policymaker"})
# Whoever has none of these tags may not use RabbitMQ's management at all.
MANAGERS: Final = POLICYMAKERS | {"management", "monitoring"}


class PolicyRoutes:
    """The handlers for policies, or for operator policies.

    Args:
        around: the broker.
        operator: for which kind.
    """

    def __init__(self, around: Surroundings, *, operator: bool) -> None:
        self._around = around
        self._operator = operator

    async def listing(self, request: Request) -> Response:
        """GET /api/policies: those of the virtual hosts that the user may enter."""
        user = await self._manager(request)
        vhosts = self._around.broker.vhosts.values()
        return self._list(user, [vhost for vhost in vhosts if _may_enter(user, vhost.name)])

    async def listing_of_vhost(self, request: Request) -> Response:
        """GET /api/policies/{vhost}."""
        user = await self._manager(request)
        vhost = self._vhost(request)
        if vhost is None:
            raise _missing()
        if not _may_enter(user, vhost.name):
            raise _unauthorised("User not authorised to access virtual host")
        return self._list(user, [vhost])

    def _list(self, user: User, vhosts: list[VirtualHost]) -> Response:
        found = (
            _shown(vhost.name, policy) if policy.operator == self._operator else None
            for vhost in vhosts
            for policy in vhost.policies
        )
        ordered = in_order(found, key=lambda each: (each["priority"], each["vhost"], each["name"]))
        return self._around.listing(user, ordered)

    async def show(self, request: Request) -> Response:
        """GET /api/policies/{vhost}/{name}."""
        _, vhost = await self._enter(request)
        policy = self._find(vhost, name_of(request, "name"))
        if vhost is None or policy is None:
            raise _missing()
        return JSONResponse(_shown(vhost.name, policy))

    def _find(self, vhost: VirtualHost | None, name: str) -> Policy | None:
        return vhost.policies.find(name, operator=self._operator) if vhost is not None else None

    async def put(self, request: Request) -> Response:
        """PUT /api/policies/{vhost}/{name}: 201 when it is new, 204 when there was one."""
        user, vhost = await self._enter(request)
        if vhost is None:
            raise Refusal(404, "not_found", "vhost_not_found")
        admission = self._around.admission
        name, data = name_of(request, "name"), await raw_body_of(admission, request, user)
        given = _given(admission, data)
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
            raise Refusal(400, "bad_request", f"Validation failed\n\n{error}\n") from None
        except RecursionError:
            raise _no_json() from None  # it is, but too deep to be told what is wrong with it
        try:
            vhost.unknown_arguments.check_policy(name, given, f"user '{user.name}'")
            governor = vhost.governor
            new = await self._around.job(lambda: governor.setting(policy))
        except PreconditionFailed as fault:
            raise _of(fault) from None
        await self._around.recorded(user)
        return Response(status_code=201 if new else 204)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/policies/{vhost}/{name}."""
        (user, vhost), name = await self._enter(request), name_of(request, "name")
        if vhost is None or self._find(vhost, name) is None:
            raise _missing()
        try:
            governor = vhost.governor
            await self._around.job(lambda: governor.dropping(name, operator=self._operator))
        except PreconditionFailed as fault:
            raise _of(fault) from None
        await self._around.recorded(user)
        return Response(status_code=204)

    async def _manager(self, request: Request) -> User:
        """Return who asks, if that is a user of the management."""
        user = await self._around.user(request)
        if MANAGERS.isdisjoint(user.tags):
            raise _unauthorised("Not management user")
        return user

    async def _enter(self, request: Request) -> tuple[User, VirtualHost | None]:
        """Return who may rule in the virtual host in the path, and it, if there is one."""
        user, vhost = await self._manager(request), self._vhost(request)
        if self._operator:
            if ADMINISTRATOR not in user.tags:
                raise _unauthorised("Not administrator user")
        elif POLICYMAKERS.isdisjoint(user.tags) or (vhost and not _may_enter(user, vhost.name)):
            raise _unauthorised("User not authorised to access object")
        return user, vhost

    def _vhost(self, request: Request) -> VirtualHost | None:
        return self._around.broker.vhosts.get(name_of(request, "vhost"))


def _may_enter(user: User, vhost: str) -> bool:
    return ADMINISTRATOR in user.tags or vhost in user.permissions


def _shown(vhost: str, policy: Policy) -> dict[str, Any]:
    return {
        "vhost": vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def _given(admission: Admission, data: bytes) -> dict[str, Any]:
    """Read the body; members that are none of a policy's are left out, as in RabbitMQ."""
    try:
        given = json_of(admission, data) if data.strip() else {}
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise _no_json()
    missing = [f"{{key_missing,{key}}}" for key in ("pattern", "definition") if key not in given]
    if missing:
        raise Refusal(400, "bad_request", f"[{','.join(missing)}]")
    return given


def _no_json() -> Refusal:
    return Refusal(400, "bad_request", "not_json")


def _missing() -> Refusal:
    return Refusal(404, "Object Not Found", "Not Found")


def _unauthorised(reason: str) -> Refusal:
    return Refusal(401, "not_authorised", reason)


def _of(fault: PreconditionFailed) -> Refusal:
    return Refusal(400, "bad_request", fault.text.partition(" - ")[2])
