"""How RabbitMQ writes names and values into its reply texts.

Responsible for the wording that clients, and their tests, compare: `queue 'q' in vhost '/'`, and
the names of types. Must not know what any argument means. Invariant: pure functions of their
arguments.
"""

from __future__ import annotations

from typing import Final

from leporid.amqp.tables import Value
from leporid.broker.exchanges.values import erlang_text

INTEGER_TYPES: Final = frozenset(
    {"byte", "unsignedbyte", "short", "unsignedshort", "signedint", "unsignedint", "long"}
)


def queue_in(vhost: str, name: str) -> str:
    """Name a queue as RabbitMQ does."""
    return f"queue '{name}' in vhost '{vhost}'"


def exchange_in(vhost: str, name: str) -> str:
    """Name an exchange as RabbitMQ does."""
    return f"exchange '{name}' in vhost '{vhost}'"


def plain(value: Value) -> str:
    """Write a value the way RabbitMQ quotes it: text as it is, the rest as a term."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return erlang_text(value)
