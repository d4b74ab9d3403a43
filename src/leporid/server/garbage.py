"""Python's garbage collector, within the length of a turn.

Responsible for what the collector looks at. It must not know what the objects are.

The collector looks for objects that are kept only by each other. A full collection looks at all
that survived the young ones, in one piece: 0.2 s with 200,000 bindings. So what a full
collection was slow with, and has kept, is *frozen*: no later one looks at it. What is frozen is
freed when the last reference to it goes, as most of Python's objects are; only a cycle of frozen
objects would stay for ever. So nothing that a peer has made may end as a cycle: whatever lives long
lets go of what refers to it when it ends. `tests/server/test_garbage.py` counts cycles.

Invariant: a full collection looks only at what came since the last one, and at what that one needed
less than `FULL_NS` for.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

# A full collection that takes longer is the last one for what it has kept.
FULL_NS: Final = 1_000_000
# A young collection after more new objects than freed ones than this; a middle one after more young
# ones; a full one after more middle ones. So 1,500 objects have come since the last full one, or
# twice as many, as Python leaves out one that seems too early: 2 ms with cold caches. As what was
# slow is frozen, many short ones take no more in all than few long ones.
THRESHOLDS: Final = (500, 2, 0)
OLDEST: Final = 2
# Of methods, requests, definitions and so on, each of which makes some ten objects that stay.
HANDLED_MAX: Final = 500


class Freezing:
    """Freezes what a full collection was slow with; to be called by `gc`."""

    def __init__(self) -> None:
        self._began_ns = 0

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        """A collection starts or stops."""
        if info["generation"] != OLDEST:
            return
        if phase == "start":
            self._began_ns = time.monotonic_ns()
        elif time.monotonic_ns() - self._began_ns > FULL_NS:
            gc.freeze()


class GarbageTrigger:
    """A full collection after so much that was handled; one of `Turns.timed`.

    Python counts what is made less what is freed. So while for each thing that is made an old one
    goes, it counts nothing, and all that is new waits for one collection: 0.25 s after 60,000
    queues were replaced.

    Args:
        handled: counts all that may have made something.
    """

    def __init__(self, handled: Callable[[], int]) -> None:
        self._handled = handled
        self._looked = 0

    @property
    def next_due_ms(self) -> int:
        """When there is something to do; 0 for never, and before now for at once."""
        return int(self._handled() - self._looked >= HANDLED_MAX)

    def run(self, _now_ms: int) -> None:
        """Look at what came."""
        self._looked = self._handled()
        gc.collect()


@contextmanager
def without_collections() -> Iterator[None]:
    """Load what stays, without looking for garbage among it.

    The objects of many modules have the collector look at all of them again and again.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def bounded_collections() -> Iterator[None]:
    """Freeze all there is, and later what makes collections slow; to enter when all is loaded.

    The process may live longer than its broker: afterwards the collector is as it was.
    """
    freezing, thresholds = Freezing(), gc.get_threshold()
    gc.collect()
    gc.freeze()
    # Python puts off a full collection until a quarter as much has come as the last one has kept.
    # That is nothing now.
    gc.collect()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(freezing)
    try:
        yield
    finally:
        gc.callbacks.remove(freezing)
        gc.set_threshold(*thresholds)
        gc.unfreeze()
