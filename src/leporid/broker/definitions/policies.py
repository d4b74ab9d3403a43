"""Policies and parameters of a document.

Responsible for reading them, for comparing them with what is there, and for putting them in force;
RabbitMQ keeps operator policies and limits of virtual hosts as parameters. Must not know the form
of a document. Invariant: a policy of the configuration file stays, whatever a document says.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from leporid.broker.definitions.access import plan_limits
from leporid.broker.definitions.members import Item, WrongDefinition, name_in, object_in
from leporid.broker.global_parameters import GlobalParameter
from leporid.broker.policy.policies import POLICIES_MAX, PolicyError, make_policy
from leporid.broker.stored import StoredGlobalParameter, StoredPolicy

if TYPE_CHECKING:
    from leporid.broker.definitions.plan import Plan
    from leporid.broker.policy.policies import Policy
    from leporid.broker.registry import Steps
    from leporid.broker.vhost import VirtualHost

OPERATOR_POLICY: Final = "operator_policy"
VHOST_LIMITS: Final = "vhost-limits"
LIMITS: Final = "limits"
"""The name of the one parameter of the component `vhost-limits`."""
NOT_THERE: Final = "there is nothing of this component here"
FEDERATION: Final = (
    "federation-upstream",
    "federation-upstream-pattern",
    "federation-upstream-set",
)
"""What policies say of a plugin whose parameters are ignored, too."""


def plan_policy(plan: Plan, item: Item) -> None:
    """Plan a policy."""
    vhost = plan.vhost_of(item)
    name, definition = name_in(item), item.get("definition")
    if isinstance(definition, dict) and not definition.keys().isdisjoint(FEDERATION):
        rest = {key: value for key, value in definition.items() if key not in FEDERATION}
        what = f"policy '{name}' in vhost '{vhost.name}'"
        plan.difference.ignore(
            f"federation in {what}" if rest else what, "there is no federation here"
        )
        if not rest:
            return
        item = {**item, "definition": rest}
    _plan_policy(plan, vhost, name, item, operator=False)


def plan_parameter(plan: Plan, item: Item) -> None:
    """Plan a parameter: an operator policy, or limits; what else there is, is ignored."""
    component, name = name_in(item, "component"), name_in(item)
    vhost = plan.vhost_of(item)
    if component == OPERATOR_POLICY:
        _plan_policy(plan, vhost, name, object_in(item, "value"), operator=True)
    elif component == VHOST_LIMITS and name == LIMITS:
        plan_limits(plan, vhost, object_in(item, "value"), "parameters")
    elif component == "policy":
        raise WrongDefinition("policies may not be set using this method")
    else:
        what = f"parameter '{name}' of component '{component}' in vhost '{vhost.name}'"
        plan.difference.ignore(what, NOT_THERE)


def _plan_policy(plan: Plan, vhost: VirtualHost, name: str, given: Item, *, operator: bool) -> None:
    policy = _policy(name, given, operator=operator)
    planned = plan.policies.get(vhost.name)
    if planned is None:
        planned = plan.policies[vhost.name] = {}
        plan.make(lambda: _setting(plan, vhost))
    if (operator, name) in planned:
        raise WrongDefinition("stands there twice")
    before = vhost.policies.find(name, operator=operator)
    noun = "parameters" if operator else "policies"
    names = (vhost.name, OPERATOR_POLICY, name) if operator else (vhost.name, name)
    if before != policy and vhost.policies.is_configured(name, operator=operator):
        reason = "the configuration file has another one of that name, which stays"
        plan.difference[noun].conflicting.append((names, reason))
        return
    if plan.note(noun, names, before, policy):
        if before is None:
            _check_room(plan, vhost, operator=operator)
        vhost.unknown_arguments.check_policy(name, given, plan.by)
        planned[operator, name] = policy
        plan.put(StoredPolicy.of(vhost.name, policy))


def _check_room(plan: Plan, vhost: VirtualHost, *, operator: bool) -> None:
    key = vhost.name, operator
    if key not in plan.policy_counts:
        plan.policy_counts[key] = sum(each.operator == operator for each in vhost.policies)
    plan.policy_counts[key] += 1
    if plan.policy_counts[key] > POLICIES_MAX:
        raise WrongDefinition(f"vhost '{vhost.name}' may have {POLICIES_MAX} of that kind")


def _policy(name: str, given: Item, *, operator: bool) -> Policy:
    for key in ("pattern", "definition"):
        if key not in given:
            raise WrongDefinition(f"{key} is missing")
    try:
        return make_policy(
            name,
            given["pattern"],
            given["definition"],
            priority=given.get("priority") or 0,
            apply_to=given.get("apply-to") or "all",
            operator=operator,
        )
    except PolicyError as error:
        raise WrongDefinition(str(error)) from None


def _setting(plan: Plan, vhost: VirtualHost) -> Steps:
    return vhost.governor.setting_all(plan.policies[vhost.name].values())


def plan_global_parameter(plan: Plan, item: Item) -> None:
    """Plan a global parameter; any name and any value is kept, as in RabbitMQ."""
    name = name_in(item)
    if "value" not in item:
        raise WrongDefinition("value is missing")
    there = plan.broker.global_parameters
    before = there.get(name)
    after = GlobalParameter(name, item["value"])
    if before is None:
        plan.new_parameters += 1
        there.check_room(plan.new_parameters)
    if plan.note("global_parameters", (name,), before, after):
        plan.put(StoredGlobalParameter(name, json.dumps(after.value)))

        def make() -> None:
            there.put(after)

        plan.make(make)
