"""What a batch of an answer takes of memory, and when that is given back."""

from __future__ import annotations

from typing import Any

import pytest
from tests.management.conftest import World

from leporid.management.batches import BatchMaker
from leporid.management.refusals import Refusal


class Window:
    """As much of a window as is looked at before its batch is made."""

    rows = 10
    bytes = 1000
    closed = 0

    def close(self) -> None:
        self.closed += 1


def maker_of(world: World) -> BatchMaker:
    return BatchMaker(world.around, "guest", ("body",), "s")


async def test_a_batch_is_counted_until_it_is_sent(world: World) -> None:
    memory = world.around.admission.shares.tables_memory
    maker, window = maker_of(world), Window()
    before = memory.free
    seen: list[int] = []

    def encode(_: Any) -> tuple[bytes]:
        seen.append(memory.free)
        return (b"x" * 100,)

    assert await maker.make(window, encode) == (b"x" * 100,)  # type: ignore[arg-type]
    assert seen[0] < before
    assert memory.free == before - 100
    assert window.closed == 1
    maker.release()
    assert memory.free == before


async def test_what_fails_takes_nothing(world: World) -> None:
    memory = world.around.admission.shares.tables_memory
    maker, window = maker_of(world), Window()
    before = memory.free

    def encode(_: Any) -> tuple[bytes]:
        raise Refusal(400, "bad", "no")

    with pytest.raises(Refusal):
        await maker.make(window, encode)  # type: ignore[arg-type]
    assert (memory.free, window.closed) == (before, 1)
