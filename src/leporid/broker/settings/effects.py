"""How arguments and policies take effect in the engine: limits, time to live and others.

Responsible for handing each setting that has an effect to the engine's queue, when the queue is
made and when a policy or its arguments change. Must not know what values are allowed, nor which of
several counts (`table` has both, and which effects a setting has). Invariant: a setting that is
absent leaves the engine's default, also after it was there; and the engine is told only what has
changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from leporid.broker.queue.dead_letters import DeadLetters
from leporid.broker.settings.values import DELIVERY_LIMIT_MAX
from leporid.broker.stream import stream_arguments

if TYPE_CHECKING:
    from leporid.amqp.tables import Value
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.vhost import VirtualHost


QUORUM_DELIVERY_LIMIT: Final = 20
"""Of a quorum queue that says nothing, as in RabbitMQ 4; RabbitMQ 3.10 has none."""

NO_RETRIES: Final = ("disabled", 0, 0)
"""What comes back is ready at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """Something that the engine is told of a queue, and what it is told.

    Attributes:
        wanted: says what, by arguments and policies.
        tell: tells the engine; called when `wanted` says something else than before.
        default: what the engine does when it was told nothing.
        of_streams: whether it is of streams, or of other queues.
        once: whether it is told when the queue is made, and never again.
    """

    wanted: Callable[[QueueState], Any]
    tell: Callable[[VirtualHost, QueueState, Any], None]
    default: Any = None
    of_streams: bool = False
    once: bool = False


def apply(vhost: VirtualHost, queue: QueueState) -> None:
    """Give the engine's queue what it keeps for ever, and its limits; before the first message."""
    if queue.stream is not None:
        queue.stream.title = queue.title
    _tell(vhost, queue, once=True)
    adjust(vhost, queue)


def adjust(vhost: VirtualHost, queue: QueueState) -> None:
    """Give the engine's queue the limits that its arguments and policies mean now."""
    _tell(vhost, queue, once=False)


def _tell(vhost: VirtualHost, queue: QueueState, *, once: bool) -> None:
    for effect in EFFECTS:
        if effect.once is not once or effect.of_streams is not (queue.stream is not None):
            continue
        wanted = effect.wanted(queue)
        if wanted != queue.in_force.get(effect, effect.default):
            queue.in_force[effect] = wanted
            effect.tell(vhost, queue, wanted)


def expires_ms(queue: QueueState) -> int | None:
    """Return after how long without use a queue goes; None: never."""
    found: int | None = queue.in_force.get(EXPIRY)
    return found


def _priorities(queue: QueueState) -> int | None:
    return _whole(queue.arguments.get("x-max-priority"))


def _tell_priorities(_vhost: VirtualHost, queue: QueueState, highest: int) -> None:
    queue.engine.set_priorities(highest)


def _tell_single(_vhost: VirtualHost, queue: QueueState, single: bool) -> None:
    queue.engine.set_single_active_consumer(single)


def _bounds(queue: QueueState) -> tuple[int | None, int | None, str | None]:
    effective = queue.effective
    return (
        _whole(effective("max-length")),
        _whole(effective("max-length-bytes")),
        _text(effective("overflow")),
    )


def _tell_bounds(
    _vhost: VirtualHost, queue: QueueState, bounds: tuple[int | None, int | None, str | None]
) -> None:
    length, size, overflow = bounds
    queue.engine.set_limits(max_length=length, max_bytes=size, overflow=overflow or "drop-head")


def _refuses(queue: QueueState) -> bool:
    """Say whether publishes may be refused."""
    return queue.effective("overflow") in ("reject-publish", "reject-publish-dlx")


def _tell_refusing(vhost: VirtualHost, queue: QueueState, refuses: bool) -> None:
    if refuses:
        queue.engine.given_up = partial(vhost.gave_up, queue)
    if vhost.find_queue(queue.name) is queue:
        vhost.forget_routes_to(queue)  # the engine's routes know which of their queues refuse


def _ttl(queue: QueueState) -> int | None:
    return _whole(queue.effective("message-ttl"))


def _tell_ttl(_vhost: VirtualHost, queue: QueueState, ttl_ms: int | None) -> None:
    queue.engine.set_message_ttl(ttl_ms)


def _returns(queue: QueueState) -> tuple[int | None, bool]:
    """Return how often a message may come back, and whether it says how often it did."""
    limit, is_quorum = _whole(queue.effective("delivery-limit")), queue.type.name == "quorum"
    if limit is None:
        limit = QUORUM_DELIVERY_LIMIT if is_quorum else None
    elif not 0 <= limit <= DELIVERY_LIMIT_MAX:
        limit = None  # above, it was recorded by a version that did not look at it
    return limit, is_quorum or limit is not None or _retries(queue) is not NO_RETRIES


def _tell_returns(_vhost: VirtualHost, queue: QueueState, returns: tuple[int | None, bool]) -> None:
    queue.engine.set_delivery_limit(*returns)


def _retries(queue: QueueState) -> tuple[str, int, int]:
    """Return what is held when it comes back; for how long, each time; and at most."""
    kind = queue.effective("delayed-retry-type") or "disabled"
    least, most = (_whole(queue.effective(f"delayed-retry-{each}")) for each in ("min", "max"))
    if kind == "disabled" or least is None:
        return NO_RETRIES
    return str(kind), least, least if most is None else most


def _tell_retries(_vhost: VirtualHost, queue: QueueState, retries: tuple[str, int, int]) -> None:
    queue.engine.set_retries(*retries)


def _timeout(queue: QueueState) -> tuple[int | None, bool]:
    """Return how long a delivery may be unsettled, and whether what is overdue goes back alone."""
    requeues = queue.effective("consumer-timeout-action") == "requeue"
    return _whole(queue.effective("consumer-timeout")), requeues


def _tell_timeout(_vhost: VirtualHost, queue: QueueState, timeout: tuple[int | None, bool]) -> None:
    queue.engine.set_consumer_timeout(*timeout)


def _dead_letters(queue: QueueState) -> tuple[str | None, str | None]:
    exchange = _text(queue.effective("dead-letter-exchange"))
    return exchange, _text(queue.effective("dead-letter-routing-key"))


def _tell_dead_letters(
    vhost: VirtualHost, queue: QueueState, where: tuple[str | None, str | None]
) -> None:
    exchange, key = where
    queue.engine.dead_letters = (
        None
        if exchange is None
        else DeadLetters(
            vhost,
            name=queue.name,
            title=queue.title,
            module=queue.type.module,
            wall_ms=lambda: vhost.engine.clock.wall_ms,
            exchange=exchange,
            key=key,
        )
    )


def _expiry(queue: QueueState) -> int | None:
    return _whole(queue.effective("expires"))


def _tell_nothing(_vhost: VirtualHost, _queue: QueueState, _expires_ms: int | None) -> None:
    """`unused` looks at it."""


def _retention(queue: QueueState) -> stream_arguments.Retention:
    return stream_arguments.retention(queue.effective)


def _tell_retention(
    _vhost: VirtualHost, queue: QueueState, kept: stream_arguments.Retention
) -> None:
    assert queue.stream is not None
    stream_arguments.retain(queue.stream, kept)


def _whole(value: Value) -> int | None:
    return int(value) if isinstance(value, int) else None


def _text(value: Value) -> str | None:
    return None if value is None else str(value)


PRIORITIES: Final = Effect(_priorities, _tell_priorities, once=True)
SINGLE_ACTIVE_CONSUMER: Final = Effect(
    lambda queue: queue.single_active_consumer, _tell_single, False, once=True
)
BOUNDS: Final = Effect(_bounds, _tell_bounds, (None, None, None))
REFUSING: Final = Effect(_refuses, _tell_refusing, False)
MESSAGE_TTL: Final = Effect(_ttl, _tell_ttl)
DEAD_LETTERS: Final = Effect(_dead_letters, _tell_dead_letters, (None, None))
RETURNS: Final = Effect(_returns, _tell_returns, (None, False))
RETRIES: Final = Effect(_retries, _tell_retries, NO_RETRIES)
CONSUMER_TIMEOUT: Final = Effect(_timeout, _tell_timeout, (None, False))
EXPIRY: Final = Effect(_expiry, _tell_nothing)
RETENTION: Final = Effect(_retention, _tell_retention, of_streams=True)

EFFECTS: Final = (
    PRIORITIES,
    SINGLE_ACTIVE_CONSUMER,
    BOUNDS,
    REFUSING,
    MESSAGE_TTL,
    DEAD_LETTERS,
    RETURNS,
    RETRIES,
    CONSUMER_TIMEOUT,
    EXPIRY,
    RETENTION,
)
"""All of them, in the order in which the engine is told: what a smaller bound drops goes where dead
letters went before."""
