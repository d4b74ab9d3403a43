"""What the tests of the server share."""

from collections.abc import AsyncIterator, Callable

import pytest
from tests.server.stack import Clock, Stack

from leporid.server import listener, turns

# The listener looks at its links this often; nothing is judged by it, the clock stands still.
TICK_S = 0.002


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The server's clock, which stands still unless it is moved."""
    clock = Clock()
    monkeypatch.setattr(turns, "time", clock)
    monkeypatch.setattr(listener, "TICK_S", TICK_S)
    return clock


@pytest.fixture
async def make_stack(clock: Clock) -> AsyncIterator[Callable[..., Stack]]:
    """Makes brokers with a listener; they are stopped after the test."""
    made: list[Stack] = []

    def make(**settings: int) -> Stack:
        made.append(Stack(**settings))
        return made[-1]

    yield make
    for stack in made:
        stack.stop()


@pytest.fixture
async def stack(make_stack: Callable[..., Stack]) -> Stack:
    """A broker with a listener."""
    return make_stack()
