"""Who is acting: the user whose method or request the broker handles now.

Responsible for that name while an act lasts, also if it goes on in later turns. Must not know what
the act is. Events say it (`user_who_performed_action`), and definitions are charged to it, so that
what makes these need not be told by everything in between. Invariant: what the broker does by
itself is done by INTERNAL_USER.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from leporid.broker.registry import StepsTo

T = TypeVar("T")

INTERNAL_USER: Final = "rmq-internal"
"""RabbitMQ's name for itself."""

_actor: ContextVar[str] = ContextVar("actor", default=INTERNAL_USER)


def actor() -> str:
    """Return the name of the user who acts."""
    return _actor.get()


def set_actor(user: str) -> None:
    """Say who acts from now on in the asyncio task at hand, such as that of an HTTP request."""
    _actor.set(user)


@contextmanager
def acting(user: str) -> Iterator[None]:
    """Say who acts within the block."""
    token = _actor.set(user)
    try:
        yield
    finally:
        _actor.reset(token)


def acting_steps(user: str, steps: StepsTo[T]) -> StepsTo[T]:
    """Give the same steps, in each of which that user acts."""
    while True:
        with acting(user):
            try:
                step = next(steps)
            except StopIteration as end:
                outcome: T = end.value
                return outcome
        yield step
