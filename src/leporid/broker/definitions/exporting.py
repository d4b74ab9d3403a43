"""What is there as a document: RabbitMQ's JSON.

Responsible for what a definition of each noun looks like. Must not know who asks, nor how long
lists are written. Invariants: nothing goes through many objects in one piece, as each noun is an
iterator; what is listed can be imported: each binding is between what was listed before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from leporid.amqp.json_values import shown
from leporid.broker.access.access import DEFAULT_USER
from leporid.broker.access.passwords import algorithm_of
from leporid.broker.definitions.policies import LIMITS, OPERATOR_POLICY, VHOST_LIMITS
from leporid.broker.exchange.exchange import DEFAULT_EXCHANGE
from leporid.broker.names import SYSTEM_PREFIX

if TYPE_CHECKING:
    from leporid.broker.access.access import User
    from leporid.broker.broker import Broker
    from leporid.broker.policy.policies import Policy
    from leporid.broker.vhost import VirtualHost

Items = Iterator[dict[str, Any] | None]
"""The definitions of a noun; None for what was looked at only."""


def exported(broker: Broker) -> dict[str, Items]:
    """Return everything that there is, noun by noun in RabbitMQ's order."""
    vhosts = sorted(broker.vhosts.values(), key=lambda vhost: vhost.name)
    users = sorted(broker.access, key=lambda user: user.name)
    return {
        "users": (user_definition(user) for user in users),
        "vhosts": (vhost_definition(vhost) for vhost in vhosts),
        "permissions": (each for user in users for each in permissions(user)),
        "topic_permissions": (each for user in users for each in topic_permissions(user)),
        "parameters": (each for vhost in vhosts for each in parameters(vhost)),
        "global_parameters": (
            {"name": each.name, "value": each.value} for each in tuple(broker.global_parameters)
        ),
        **_of_vhosts(vhosts),
    }


def exported_of(vhost: VirtualHost) -> dict[str, Items]:
    """Return what belongs to a virtual host; it is not named in what it has."""
    found: dict[str, Items] = {"parameters": parameters(vhost), **_of_vhosts([vhost])}
    return {noun: _without_vhost(items) for noun, items in found.items()}


def _without_vhost(items: Items) -> Items:
    for item in items:
        if item is not None:
            del item["vhost"]
        yield item


def _of_vhosts(vhosts: list[VirtualHost]) -> dict[str, Items]:
    # Bindings are listed last, and only between what was listed.
    listed: set[tuple[str, str, str]] = set()

    def all_of(items: Callable[[VirtualHost, set[tuple[str, str, str]]], Items]) -> Items:
        return (each for vhost in vhosts for each in items(vhost, listed))

    return {
        "policies": (
            policy_definition(vhost.name, policy)
            for vhost in vhosts
            for policy in sorted(vhost.policies, key=lambda each: each.name)
            if not policy.operator
        ),
        "queues": all_of(_queues),
        "exchanges": all_of(_exchanges),
        "bindings": all_of(_bindings),
    }


# ------------------------------------------------------------- who may do what


def user_definition(user: User) -> dict[str, Any]:
    """Return a user, with the hash of the password."""
    found: dict[str, Any] = {
        "name": user.name,
        "password_hash": user.password.text,
        "hashing_algorithm": algorithm_of(user.password),
        "tags": list(user.tags),
        "limits": dict(user.limits),
    }
    if user.loopback_only != (user.name == DEFAULT_USER):
        # RabbitMQ has it in its configuration alone, and leaves out a member that it does not know.
        found["loopback_only"] = user.loopback_only
    return found


def permissions(user: User) -> Items:
    """Go through what a user may do, by virtual host."""
    for vhost, granted in sorted(user.permissions.items()):
        patterns = {
            "configure": granted.configure.text,
            "write": granted.write.text,
            "read": granted.read.text,
        }
        yield {"user": user.name, "vhost": vhost, **patterns}


def topic_permissions(user: User) -> Items:
    """Go through the routing keys that a user may use, by virtual host and exchange."""
    for vhost, there in sorted(user.topics.items()):
        for exchange, topic in sorted(there.items()):
            yield {
                "user": user.name,
                "vhost": vhost,
                "exchange": exchange,
                "write": topic.write,
                "read": topic.read,
            }


def vhost_definition(vhost: VirtualHost) -> dict[str, Any]:
    """Return what a virtual host is for, as RabbitMQ 3.13 has it."""
    own: dict[str, Any] = {"description": vhost.description, "tags": list(vhost.tags)}
    if vhost.default_queue_type:
        own["default_queue_type"] = vhost.default_queue_type
    protected = {"protected_from_deletion": True} if vhost.protected else {}
    return {"name": vhost.name, **own, "metadata": {**own, **protected}}


# ------------------------------------------------------------- policies and parameters


def parameters(vhost: VirtualHost) -> Items:
    """Go through what RabbitMQ keeps as parameters: operator policies, limits."""
    for policy in sorted(vhost.policies, key=lambda each: each.name):
        if policy.operator:
            value = policy_definition(vhost.name, policy)
            del value["vhost"], value["name"]
            yield parameter(vhost.name, OPERATOR_POLICY, policy.name, value)
        else:
            yield None
    if vhost.limits:
        yield parameter(vhost.name, VHOST_LIMITS, LIMITS, dict(vhost.limits))


def parameter(vhost: str, component: str, name: str, value: Any) -> dict[str, Any]:
    """Return a parameter."""
    return {"value": value, "vhost": vhost, "component": component, "name": name}


def policy_definition(vhost: str, policy: Policy) -> dict[str, Any]:
    """Return a policy."""
    return {
        "vhost": vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": dict(policy.definition),
        "priority": policy.priority,
    }


# ------------------------------------------------------------- exchanges, queues, bindings


def _queues(vhost: VirtualHost, listed: set[tuple[str, str, str]]) -> Items:
    """Exclusive queues cannot be made again, nor those whose names the broker gave."""
    for queue in vhost.all_queues():
        if queue.deleted or queue.owner is not None or queue.name.startswith(SYSTEM_PREFIX):
            yield None
            continue
        listed.add((vhost.name, "queue", queue.name))
        yield {
            "name": queue.name,
            "vhost": vhost.name,
            "durable": queue.durable,
            "auto_delete": queue.auto_delete,
            "arguments": _arguments(queue.arguments),
        }


def _exchanges(vhost: VirtualHost, listed: set[tuple[str, str, str]]) -> Items:
    for exchange in vhost.all_exchanges():
        if exchange.deleted or exchange.name == DEFAULT_EXCHANGE:
            yield None
            continue
        listed.add((vhost.name, "exchange", exchange.name))
        if exchange.name.startswith(SYSTEM_PREFIX):
            yield None
            continue
        yield {
            "name": exchange.name,
            "vhost": vhost.name,
            "type": exchange.type,
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            "arguments": _arguments(exchange.arguments),
        }


def _bindings(vhost: VirtualHost, listed: set[tuple[str, str, str]]) -> Items:
    for exchange in vhost.all_exchanges():
        yield None
        for binding in exchange.outgoing:
            ends = (
                (vhost.name, "exchange", binding.source),
                (vhost.name, binding.destination_kind, binding.destination),
            )
            if not listed.issuperset(ends):
                yield None
                continue
            yield {
                "source": binding.source,
                "vhost": vhost.name,
                "destination": binding.destination,
                "destination_type": binding.destination_kind,
                "routing_key": shown(binding.key),
                "arguments": _arguments(binding.arguments),
            }


def _arguments(arguments: Mapping[str, Any]) -> Any:
    return shown(dict(arguments))
