"""Policies in the configuration file: `[[policies]]` and `[[operator_policies]]`.

Responsible for turning these tables into policies, with messages for the author of the file. Must
not know which virtual hosts there are, nor what a policy does. Invariant: what is allowed here is
what the broker's own rules allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from leporid.broker.policy.policies import APPLY_TO, Policy, PolicyError, make_policy
from leporid.broker.settings.table import KEYS
from leporid.broker.settings.values import NUMBER_MAX
from leporid.server.settings import (
    Check,
    Choice,
    ConfigError,
    join,
    many,
    nearest,
    read,
    refusal,
    setting,
    whole,
)
from leporid.server.settings import name as a_name


def _pattern(path: str, value: Any) -> str:
    if not isinstance(value, str):
        raise refusal(path, value, "must be a pattern, in quotes")
    return value


def _definition(path: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not value:
        raise refusal(path, value, "must be a table with at least one setting of policies")
    for key in value:
        if key not in KEYS:
            full = join(path, key)
            raise ConfigError(f"{full}: unknown setting{nearest(key, KEYS)}", full)
    return value


@dataclass(frozen=True, slots=True)
class _Settings:
    """One table."""

    name: str = setting(a_name)
    pattern: str = setting(_pattern)
    definition: Mapping[str, Any] = setting(_definition)
    vhost: str = setting(a_name, "/")
    apply_to: str = setting(Choice(*APPLY_TO), "all")
    priority: int = setting(whole(-NUMBER_MAX, NUMBER_MAX), 0)


@dataclass(frozen=True, slots=True)
class ConfiguredPolicy:
    """A policy, and the virtual host that it is of."""

    vhost: str
    policy: Policy


def policy_tables(*, operator: bool) -> Check[tuple[ConfiguredPolicy, ...]]:
    """Allow a list of tables, each a policy, no two of one name in one virtual host."""

    def check_one(path: str, value: Any) -> ConfiguredPolicy:
        if not isinstance(value, dict):
            raise refusal(path, value, "must be a table of settings")
        given = read(_Settings, value, path)
        try:
            policy = make_policy(
                given.name,
                given.pattern,
                given.definition,
                priority=given.priority,
                apply_to=given.apply_to,
                operator=operator,
            )
        except PolicyError as error:
            raise ConfigError(f"{path}: {error}", path) from None
        return ConfiguredPolicy(given.vhost, policy)

    def check_all(path: str, value: Any) -> tuple[ConfiguredPolicy, ...]:
        found = many(check_one)(path, value)
        known: set[tuple[str, str]] = set()
        for at, one in enumerate(found):
            key = one.vhost, one.policy.name
            if key in known:
                raise ConfigError(
                    f"{path}[{at}]: there is a policy '{one.policy.name}' in vhost '{one.vhost}' "
                    "already",
                    f"{path}[{at}]",
                )
            known.add(key)
        return found

    return check_all


def by_vhost(configured: Iterable[ConfiguredPolicy]) -> dict[str, list[Policy]]:
    """Return the policies of each virtual host."""
    found: dict[str, list[Policy]] = {}
    for one in configured:
        found.setdefault(one.vhost, []).append(one.policy)
    return found
