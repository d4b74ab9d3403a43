"""Names: which are reserved, how they are cleaned, and how reply texts write them.

Responsible for the name rules of AMQP 0-9-1 as RabbitMQ applies them, and for the wording that
clients, and their tests, compare: `queue 'q' in vhost '/'`. Must not know what exists.
Invariant: pure functions of their arguments.
"""

from __future__ import annotations

from typing import Final

from leporid.amqp.errors import AccessRefused

SYSTEM_PREFIX: Final = "amq."
GENERATED_QUEUE_PREFIX: Final = "amq.gen-"
GENERATED_TAG_PREFIX: Final = "amq.ctag-"

REPLY_QUEUE: Final = "amq.rabbitmq.reply-to"
"""The pseudo-queue of direct reply-to, in basic.consume and in the property reply-to."""

REPLY_PREFIX: Final = REPLY_QUEUE + "."
"""What the address of one waiting channel begins with."""


def check_new_name(kind: str, name: str) -> None:
    """Raise AccessRefused for a name that only the broker itself may give."""
    if name.startswith(SYSTEM_PREFIX):
        raise AccessRefused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def without_line_breaks(name: str) -> str:
    """Strip CR and LF from a name, as RabbitMQ does before it looks for one."""
    return name.replace("\n", "").replace("\r", "")


def queue_in(vhost: str, name: str) -> str:
    """Name a queue as RabbitMQ does."""
    return f"queue '{name}' in vhost '{vhost}'"


def exchange_in(vhost: str, name: str) -> str:
    """Name an exchange as RabbitMQ does."""
    return f"exchange '{name}' in vhost '{vhost}'"
