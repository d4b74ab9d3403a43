"""Who is acting: the user whose method or request the broker handles now.

Responsible for that name while an act lasts, also if it goes on in later turns. Must not know what
the act is. Events say it (`user_who_performed_action`), and definitions are charged to it, so that
what makes these need not be told by everything in between. Invariant: what the broker does by
itself is done by nobody, which no user can be called.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from leporid.broker.registry import StepsTo

T = TypeVar("T")

_actor: ContextVar[str | None] = ContextVar("actor", default=None)


def actor() -> str | None:
    """Return the name of the user who acts; None: the broker does it by itself."""
    return _actor.get()


def set_actor(user: str) -> None:
    """Say who acts from now on in the asyncio task at hand, such as that of an HTTP request."""
    _actor.set(user)


@contextmanager
def acting(user: str | None) -> Iterator[None]:
    """Say who acts within the block."""
    token = _actor.set(user)
    try:
        yield
    finally:
        _actor.reset(token)


def acting_steps(user: str | None, steps: StepsTo[T]) -> StepsTo[T]:
    """Give the same steps, in each of which that user acts."""
    while True:
        with acting(user):
            try:
                step = next(steps)
            except StopIteration as end:
                outcome: T = end.value
                return outcome
        yield step
