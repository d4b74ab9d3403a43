"""What a user's tags allow in the management interface: RabbitMQ's rules, in one place.

Responsible for which tags contain which others, and for which virtual hosts a user sees there. Must
not know HTTP, nor what a route does. Invariant: tags say what a user may manage; what a user may do
with queues, exchanges and messages is said by permissions alone.

    administrator ⊃ monitoring ⊃ management
    administrator ⊃ policymaker ⊃ management

`impersonator` concerns messages: a user with it may publish with another `user_id`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from leporid.broker.access.access import User

ADMINISTRATOR: Final = "administrator"
MONITORING: Final = "monitoring"
POLICYMAKER: Final = "policymaker"
MANAGEMENT: Final = "management"
IMPERSONATOR: Final = "impersonator"
TAGS: Final = (ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT, IMPERSONATOR)
"""Those that mean something; users may have others, as in RabbitMQ."""

_MONITORS: Final = frozenset({ADMINISTRATOR, MONITORING})
_POLICYMAKERS: Final = frozenset({ADMINISTRATOR, POLICYMAKER})
_MANAGERS: Final = _MONITORS | _POLICYMAKERS | {MANAGEMENT}


def is_administrator(user: User) -> bool:
    """Say whether a user may do everything: users, permissions, virtual hosts, limits."""
    return ADMINISTRATOR in user.tags


def may_monitor(user: User) -> bool:
    """Say whether a user sees the node, and all connections and virtual hosts."""
    return not _MONITORS.isdisjoint(user.tags)


def may_make_policies(user: User) -> bool:
    """Say whether a user may set policies and parameters in virtual hosts that it may enter."""
    return not _POLICYMAKERS.isdisjoint(user.tags)


def may_manage(user: User) -> bool:
    """Say whether a user may use RabbitMQ's management routes at all."""
    return not _MANAGERS.isdisjoint(user.tags)


def may_impersonate(user: User) -> bool:
    """Say whether a user may publish with the `user_id` of another."""
    return IMPERSONATOR in user.tags


def may_enter(user: User, vhost: str) -> bool:
    """Say whether a user may manage what is in a virtual host."""
    return is_administrator(user) or vhost in user.permissions


def may_see(user: User, vhost: str) -> bool:
    """Say whether a user sees that there is a virtual host, and its limits."""
    return may_monitor(user) or vhost in user.permissions
