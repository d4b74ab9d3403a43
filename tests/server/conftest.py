"""What the tests of the server share."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
import uvloop
from tests.server.certificates import Files, make_files
from tests.server.stack import Clock, Stack

from leporid.server import listener, turns

# The listener looks at its links this often; nothing is judged by it, the clock stands still.
TICK_S = 0.002


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The event loop that the broker runs on; others differ in what they tell of a socket."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """An authority, and the certificates that the tests of a module have it issue."""
    return make_files(tmp_path_factory.mktemp("certificates"))


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

    def make(**settings: Any) -> Stack:
        made.append(Stack(**settings))
        return made[-1]

    yield make
    for stack in made:
        stack.stop()


@pytest.fixture
async def stack(make_stack: Callable[..., Stack]) -> Stack:
    """A broker with a listener."""
    return make_stack()
