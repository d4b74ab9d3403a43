"""Parameters and global parameters over HTTP: RabbitMQ's routes, answers and refusals.

Responsible for these routes and for who asks. RabbitMQ keeps operator policies and limits of
virtual hosts as parameters, which are shown and set here, too; here, no other component has any.
Must not know what a policy or a limit does. Invariant: an answer that something was set or deleted
leaves only when that is in force and on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse, Response

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.access import tags
from leporid.broker.access.limits import VALUE_MAX, VHOST_LIMITS
from leporid.broker.definitions import policies as defined
from leporid.broker.definitions.exporting import parameters as parameters_of
from leporid.broker.definitions.policies import LIMITS, OPERATOR_POLICY
from leporid.broker.global_parameters import CLUSTER_NAME, GlobalParameter
from leporid.broker.policy.policies import PolicyError, make_policy
from leporid.management.authorization import (
    administrator,
    manager,
    not_authorised,
    not_found,
)
from leporid.management.paging import Lists, Table
from leporid.management.parameters import object_of, policy_body_of, raw_body_of, text_in
from leporid.management.paths import name_of, takes
from leporid.management.refusals import Refusal, bad_request
from leporid.management.users import NAME_BYTES_MAX, new_name

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.broker.global_parameters import GlobalParameters
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings

COMPONENTS: Final = (OPERATOR_POLICY, defined.VHOST_LIMITS)

Parameter = dict[str, Any]


async def policymaker(around: Surroundings, request: Request) -> User:
    """Return who asks, if that is somebody who may set policies and parameters."""
    user = await manager(around, request)
    if not tags.may_make_policies(user):
        raise not_authorised("User not authorised to access object")
    return user


class ParameterRoutes:
    """The handlers of /api/parameters.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        table: Table[Parameter] = Table({}, itemgetter("component", "vhost", "name"), dict)
        self._lists = Lists(around, table, lambda each: str(each["name"]))

    # ------------------------------------------------------------- looking

    async def listing(self, request: Request) -> Response:
        """GET /api/parameters, /api/parameters/{component}, /api/parameters/{component}/{vhost}."""
        user = await policymaker(self._around, request)
        path, vhosts = request.path_params, self._around.broker.vhosts
        wanted = name_of(request, "component") if "component" in path else None
        found = await self._around.entered_vhosts(user)
        if "vhost" in path:
            vhost = vhosts.get(name_of(request, "vhost"))
            if vhost is None:
                raise not_found()
            await self._check_may(user, vhost)
            found = [vhost]
        shown = (
            each if each is None or wanted in (None, each["component"]) else None
            for vhost in found
            for each in parameters_of(vhost)
        )
        count = sum(len(list(vhost.policies)) + 1 for vhost in found)
        return await self._lists.answer(request, user, shown, count)

    async def show(self, request: Request) -> Response:
        """GET /api/parameters/{component}/{vhost}/{name}."""
        _, vhost, component, name = await self._one(request)
        found = None if vhost is None else self._find(vhost, component, name)
        if found is None:
            raise not_found()
        return JSONResponse(found)

    def _find(self, vhost: VirtualHost, component: str, name: str) -> Parameter | None:
        found: Iterator[Parameter | None] = parameters_of(vhost)
        wanted = component, name
        return next((p for p in found if p and (p["component"], p["name"]) == wanted), None)

    async def _one(self, request: Request) -> tuple[User, VirtualHost | None, str, str]:
        """Return who asks, and what the path names."""
        user = await policymaker(self._around, request)
        vhost = self._around.broker.vhosts.get(name_of(request, "vhost"))
        if vhost is not None:
            await self._check_may(user, vhost)
        return user, vhost, name_of(request, "component"), name_of(request, "name")

    async def _check_may(self, user: User, vhost: VirtualHost) -> None:
        if not await self._around.decided(lambda: tags.may_enter(user, vhost.name)):
            raise not_authorised("User not authorised to access virtual host")

    # ------------------------------------------------------------- changing

    @takes({"value": {"type": "object", "required": True}})
    async def put(self, request: Request) -> Response:
        """PUT /api/parameters/{component}/{vhost}/{name}: 201 when it is new, 204 otherwise."""
        around = self._around
        user, vhost, component, name = await self._one(request)
        if vhost is None:
            raise Refusal(404, "not_found", "vhost_not_found")
        data = await policy_body_of(around.admission, request, user)
        around.check_unchanged(user, vhost.name)
        value = object_of(around.admission, data, ("value",))["value"]
        new = self._find(vhost, component, name) is None
        if component == OPERATOR_POLICY and tags.is_administrator(user):
            await self._put_policy(vhost, name, value, user)
        elif component == defined.VHOST_LIMITS and tags.is_administrator(user):
            self._put_limits(vhost, name, value)
        elif component in COMPONENTS:
            raise not_authorised("Not administrator user")
        elif component == "policy":
            raise bad_request("policies may not be set using this method")
        else:
            raise _invalid(f"component {component} not found")
        await around.recorded(user)
        return Response(status_code=201 if new else 204)

    async def _put_policy(self, vhost: VirtualHost, name: str, value: Any, user: User) -> None:
        given = value if isinstance(value, dict) else {}
        needed = ("definition", "pattern", "priority", "apply-to")
        missing = [f'Key "{key}" not found in {name}' for key in needed if key not in given]
        if missing:
            raise _invalid("\n".join(missing))
        try:
            policy = make_policy(
                name,
                given["pattern"],
                given["definition"],
                priority=given.get("priority", 0),
                apply_to=given.get("apply-to", "all"),
                operator=True,
            )
            vhost.unknown_arguments.check_policy(name, given, f"user '{user.name}'")
            await self._around.job(lambda: vhost.governor.setting(policy))
        except PolicyError as error:
            raise _invalid(str(error)) from None
        except PreconditionFailed as fault:
            raise bad_request(fault.text.partition(" - ")[2]) from None

    def _put_limits(self, vhost: VirtualHost, name: str, value: Any) -> None:
        if name != LIMITS:
            raise _invalid(f"there is no parameter '{name}' of limits, only '{LIMITS}'")
        if not isinstance(value, dict) and value != []:
            raise _invalid(f"limits not a list {str(value)[:40]}")
        given = value or {}
        for limit, number in given.items():
            if limit not in VHOST_LIMITS:
                raise _invalid(f'Unrecognised terms [{{<<"{limit}">>,{number}}}] in limits')
            whole = isinstance(number, int) and not isinstance(number, bool)
            if not whole or abs(number) > VALUE_MAX:
                raise _invalid(f"{limit} should be a number, actually was {number}")
        for limit in VHOST_LIMITS:
            if limit in given:
                vhost.limit(limit, given[limit])
            else:
                vhost.unlimit(limit)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/parameters/{component}/{vhost}/{name}."""
        around = self._around
        user, vhost, component, name = await self._one(request)
        if vhost is None or self._find(vhost, component, name) is None:
            raise not_found()
        if not tags.is_administrator(user):
            raise not_authorised("Not administrator user")
        if component == OPERATOR_POLICY:
            try:
                await around.job(lambda: vhost.governor.dropping(name, operator=True))
            except PreconditionFailed as fault:
                raise bad_request(fault.text.partition(" - ")[2]) from None
        else:
            for limit in VHOST_LIMITS:
                vhost.unlimit(limit)
        await around.recorded(user)
        return Response(status_code=204)


class GlobalParameterRoutes:
    """The handlers of /api/global-parameters and /api/cluster-name.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        table: Table[GlobalParameter] = Table(
            {"name": lambda each: each.name, "value": lambda each: each.value},
            lambda each: (each.name,),
        )
        self._table = table
        self._lists = Lists(around, table, lambda each: each.name)

    @property
    def _parameters(self) -> GlobalParameters:
        return self._around.broker.global_parameters

    async def listing(self, request: Request) -> Response:
        """GET /api/global-parameters."""
        user = await policymaker(self._around, request)
        found = list(self._parameters)
        return await self._lists.answer(request, user, found, len(found))

    async def show(self, request: Request) -> Response:
        """GET /api/global-parameters/{name}."""
        await policymaker(self._around, request)
        found = self._parameters.get(name_of(request, "name"))
        if found is None:
            raise not_found()
        return JSONResponse(self._table.show(found))

    @takes({"value": {"required": True}})
    async def put(self, request: Request) -> Response:
        """PUT /api/global-parameters/{name}: 201 when it is new, 204 otherwise."""
        user = await policymaker(self._around, request)
        name = new_name(name_of(request, "name"))
        data = await raw_body_of(self._around.admission, request, user)
        self._around.check_unchanged(user)
        given = object_of(self._around.admission, data, ("value",))
        return await self._put(user, GlobalParameter(name, given["value"]))

    async def _put(self, user: User, parameter: GlobalParameter) -> Response:
        try:
            new = self._parameters.put(parameter)
        except PreconditionFailed as fault:
            raise bad_request(fault.text.partition(" - ")[2]) from None
        await self._around.recorded(user)
        return Response(status_code=201 if new else 204)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/global-parameters/{name}."""
        user = await policymaker(self._around, request)
        if not self._parameters.drop(name_of(request, "name")):
            raise not_found()
        await self._around.recorded(user)
        return Response(status_code=204)

    # ------------------------------------------------------------- the cluster's name

    async def cluster_name(self, request: Request) -> Response:
        """GET /api/cluster-name."""
        await manager(self._around, request)
        return JSONResponse({"name": self._around.broker.cluster_name})

    @takes({"name": {"type": "string", "required": True}})
    async def put_cluster_name(self, request: Request) -> Response:
        """PUT /api/cluster-name."""
        user = await administrator(self._around, request)
        data = await raw_body_of(self._around.admission, request, user)
        self._around.check_unchanged(user)
        given = object_of(self._around.admission, data, ("name",))
        name = text_in(given, "name", NAME_BYTES_MAX)
        await self._put(user, GlobalParameter(CLUSTER_NAME, name))
        return Response(status_code=204)


def _invalid(reason: str) -> Refusal:
    return bad_request(f"Validation failed\n\n{reason}\n")
