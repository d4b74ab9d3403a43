"""What the broker does in steps, or with hashing on other threads, done at once for a test."""

from __future__ import annotations

from collections.abc import Sequence

from leporid.broker.access.access import Access, User
from leporid.broker.access.sasl import parse_response
from leporid.broker.broker import Broker
from leporid.broker.policy.policies import Policy
from leporid.broker.registry import finished
from leporid.broker.settings.values import Arguments
from leporid.broker.stream import partitions
from leporid.broker.vhost import VirtualHost


def set_policy(vhost: VirtualHost, policy: Policy) -> bool:
    """Put a policy in force; returns whether it is new."""
    return finished(vhost.governor.setting(policy))


def drop_policy(vhost: VirtualHost, name: str, *, operator: bool = False) -> None:
    """Take a policy out of force."""
    finished(vhost.governor.dropping(name, operator=operator))


def declare_partitioned_stream(
    vhost: VirtualHost,
    name: str,
    count: int | None,
    routing: str = "hash",
    keys: Sequence[str] | None = None,
    arguments: Arguments | None = None,
) -> bool:
    """Declare a partitioned stream; returns whether it is new."""
    wanted = partitions.plan(name, count, routing=routing, keys=keys, arguments=arguments)
    return finished(partitions.declaring(vhost, wanted))


def drop_vhost(broker: Broker, name: str) -> None:
    """Delete a virtual host with all that is in it."""
    finished(broker.dropping_vhost(name))


def authenticate(access: Access, mechanism: str, response: bytes, loopback: bool) -> User:
    """Log in, hashing on this thread if it must be."""
    credentials = parse_response(mechanism, response)
    if access.needs_hashing(credentials, loopback):
        access.verify(credentials)
    return access.admit(credentials, loopback)
