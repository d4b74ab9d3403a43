"""What arguments make the engine do: bounds, time to live, priorities, dead letters, retention.

Responsible for handing each argument that has an effect to the engine's queue. Must not know what
values are allowed (that is `arguments`, which has checked them). Invariant: an argument that is
absent leaves the engine's default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leporid.broker import streams
from leporid.broker.dead_letters import EXCHANGE, DeadLetters

if TYPE_CHECKING:
    from leporid.amqp.tables import Value
    from leporid.broker.queues import QueueState
    from leporid.broker.vhost import VirtualHost


def apply(vhost: VirtualHost, queue: QueueState) -> None:
    """Give the engine's queue its limits; before the first message."""
    arguments, engine = queue.arguments, queue.engine
    if queue.stream is not None:
        queue.stream.title = queue.title
        streams.retain(queue.stream, arguments)
        return
    bounds = arguments.keys() & {"x-max-length", "x-max-length-bytes", "x-overflow"}
    if bounds:
        engine.set_limits(
            max_length=_whole(arguments.get("x-max-length")),
            max_bytes=_whole(arguments.get("x-max-length-bytes")),
            overflow=str(arguments.get("x-overflow", "drop-head")),
        )
    ttl_ms = _whole(arguments.get("x-message-ttl"))
    if ttl_ms is not None:
        engine.set_message_ttl(ttl_ms)
    priority = _whole(arguments.get("x-max-priority"))
    if priority is not None:
        engine.set_priorities(priority)
    if queue.single_active_consumer:
        engine.set_single_active_consumer(True)
    if EXCHANGE in arguments:
        engine.dead_letters = DeadLetters(vhost, queue, lambda: vhost.plane.wall_ms)


def _whole(value: Value) -> int | None:
    return int(value) if isinstance(value, int) else None
