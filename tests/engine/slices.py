"""Time for the engine's tests: a clock that decides where work is cut."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import count, pairwise
from typing import TypeVar

from leporid.engine.engine import Engine

T = TypeVar("T")

MS = 1_000_000
# More than a turn may do of anything that costs a unit, when each second reading of the clock ends
# a slice: a slice is cut after at most three times as many units as there are between readings.
SOME = 250
TURNS_MAX = 100_000


def cut_often(engine: Engine, units: int = 64) -> None:
    """From now on every second reading ends a slice; there is one every so many units of work."""
    engine.clock.monotonic_ns = count(0, MS).__next__
    engine.clock.units_a_reading = units


def turns(engine: Engine) -> Iterator[None]:
    """One turn after the other, until the engine has nothing to do."""
    for _ in range(TURNS_MAX):
        engine.run()
        yield
        if not engine.busy:
            return
    raise AssertionError("it never ends")


def steps_of(engine: Engine, done: Callable[[], int]) -> list[int]:
    """How much each turn did, until the engine has nothing to do."""
    seen = [done(), *(done() for _ in turns(engine))]
    return [after - before for before, after in pairwise(seen)]


def ended(steps: Generator[object, None, T]) -> T:
    """Take all steps of some work at once; returns what it returns."""
    found: list[T] = []

    def run() -> Generator[object]:
        found.append((yield from steps))

    for _ in run():
        pass
    return found[0]
