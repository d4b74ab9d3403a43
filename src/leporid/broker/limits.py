"""What arguments and policies make the engine do: bounds, time to live, dead letters, and so on.

Responsible for handing each setting that has an effect to the engine's queue, when the queue is
made and when a policy or its arguments change. Must not know what values are allowed (that is
`arguments` and `policy_keys`, which have checked them), nor which of several counts. Invariant: a
setting that is absent leaves the engine's default, also after it was there; and the engine is told
only what has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from leporid.broker import streams
from leporid.broker.arguments import DELIVERY_LIMIT_MAX
from leporid.broker.dead_letters import DeadLetters
from leporid.broker.queue_types import QUORUM
from leporid.broker.streams import Retention

if TYPE_CHECKING:
    from leporid.amqp.tables import Value
    from leporid.broker.queues import QueueState
    from leporid.broker.vhost import VirtualHost


QUORUM_DELIVERY_LIMIT: Final = 20
"""Of a quorum queue that says nothing, as in RabbitMQ 4; RabbitMQ 3.10 has none."""

NO_RETRIES: Final = ("disabled", 0, 0)
"""What comes back is ready at once."""


@dataclass(frozen=True, slots=True)
class InForce:
    """The settings of one queue that may change while it is there."""

    max_length: int | None = None
    max_bytes: int | None = None
    overflow: str | None = None
    message_ttl_ms: int | None = None
    dead_letter_exchange: str | None = None
    dead_letter_key: str | None = None
    expires_ms: int | None = None
    delivery_limit: int | None = None
    counted: bool = False
    """Deliveries say how often they came back."""
    retries: tuple[str, int, int] = NO_RETRIES
    """What is held when it comes back; for how long, each time; and at most."""
    consumer_timeout_ms: int | None = None
    timeout_requeues: bool = False
    """What is overdue goes back alone."""
    retention: Retention | None = None
    """Of a stream."""

    @property
    def bounds(self) -> tuple[int | None, int | None, str | None]:
        """What the engine takes at once."""
        return self.max_length, self.max_bytes, self.overflow

    @property
    def refuses(self) -> bool:
        """Whether publishes may be refused."""
        return self.overflow in ("reject-publish", "reject-publish-dlx")

    @property
    def returns(self) -> tuple[int | None, bool]:
        """How often a message may come back, and whether it says how often it did."""
        return self.delivery_limit, self.counted

    @property
    def timeout(self) -> tuple[int | None, bool]:
        """How long a delivery may be unsettled, and what then."""
        return self.consumer_timeout_ms, self.timeout_requeues

    @property
    def dead_letters(self) -> tuple[str | None, str | None]:
        """Where dead letters go."""
        return self.dead_letter_exchange, self.dead_letter_key


NO_LIMITS: Final = InForce()


def apply(vhost: VirtualHost, queue: QueueState) -> None:
    """Give the engine's queue what it keeps for ever, and its limits; before the first message."""
    if queue.stream is not None:
        queue.stream.title = queue.title
    else:
        priority = _whole(queue.arguments.get("x-max-priority"))
        if priority is not None:
            queue.engine.set_priorities(priority)
        if queue.single_active_consumer:
            queue.engine.set_single_active_consumer(True)
    adjust(vhost, queue)


def adjust(vhost: VirtualHost, queue: QueueState) -> None:
    """Give the engine's queue the limits that its arguments and policies mean now."""
    before, now = queue.in_force, wanted(queue)
    if now == before:
        return
    queue.in_force = now
    engine = queue.engine
    if queue.stream is not None:
        if now.retention is not None:
            streams.retain(queue.stream, now.retention)
        return
    if now.bounds != before.bounds:
        engine.set_limits(
            max_length=now.max_length,
            max_bytes=now.max_bytes,
            overflow=now.overflow or "drop-head",
        )
    if now.refuses:
        engine.given_up = partial(vhost.gave_up, queue)
    if now.refuses != before.refuses and vhost.find_queue(queue.name) is queue:
        vhost.forget_routes_to(queue)  # the engine's routes know which of their queues refuse
    if now.message_ttl_ms != before.message_ttl_ms:
        engine.set_message_ttl(now.message_ttl_ms)
    if now.dead_letters != before.dead_letters:
        engine.dead_letters = _dead_letters(vhost, queue)
    if now.returns != before.returns:
        engine.set_delivery_limit(*now.returns)
    if now.retries != before.retries:
        engine.set_retries(*now.retries)
    if now.timeout != before.timeout:
        engine.set_consumer_timeout(*now.timeout)


def wanted(queue: QueueState) -> InForce:
    """Return what a queue's arguments and policies mean."""
    if queue.stream is not None:
        return InForce(retention=streams.retention(queue.effective))
    effective = queue.effective
    limit, retries = _delivery_limit(queue), _retries(queue)
    return InForce(
        max_length=_whole(effective("max-length")),
        max_bytes=_whole(effective("max-length-bytes")),
        overflow=_text(effective("overflow")),
        message_ttl_ms=_whole(effective("message-ttl")),
        dead_letter_exchange=_text(effective("dead-letter-exchange")),
        dead_letter_key=_text(effective("dead-letter-routing-key")),
        expires_ms=_whole(effective("expires")),
        delivery_limit=limit,
        counted=queue.type is QUORUM or limit is not None or retries is not NO_RETRIES,
        retries=retries,
        consumer_timeout_ms=_whole(effective("consumer-timeout")),
        timeout_requeues=effective("consumer-timeout-action") == "requeue",
    )


def _delivery_limit(queue: QueueState) -> int | None:
    limit = _whole(queue.effective("delivery-limit"))
    if limit is None:
        return QUORUM_DELIVERY_LIMIT if queue.type is QUORUM else None
    # Above, it was recorded by a version that did not look at it.
    return limit if 0 <= limit <= DELIVERY_LIMIT_MAX else None


def _retries(queue: QueueState) -> tuple[str, int, int]:
    kind = queue.effective("delayed-retry-type") or "disabled"
    least, most = (_whole(queue.effective(f"delayed-retry-{each}")) for each in ("min", "max"))
    if kind == "disabled" or least is None:
        return NO_RETRIES
    return str(kind), least, least if most is None else most


def _dead_letters(vhost: VirtualHost, queue: QueueState) -> DeadLetters | None:
    exchange, key = queue.in_force.dead_letters
    if exchange is None:
        return None
    return DeadLetters(
        vhost,
        name=queue.name,
        title=queue.title,
        module=queue.type.module,
        wall_ms=lambda: vhost.engine.clock.wall_ms,
        exchange=exchange,
        key=key,
    )


def _whole(value: Value) -> int | None:
    return int(value) if isinstance(value, int) else None


def _text(value: Value) -> str | None:
    return None if value is None else str(value)
