"""One target under libFuzzer, in the process that `run.py` prepares.

Arguments: the target, then libFuzzer's own. Must not know how the engine was built. Invariant:
whatever a target raises ends the process with the input kept, and so does an input that takes more
than CPU_SECONDS_MAX.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import atheris

# On an engine with sanitizers, and Python with counters: ten times what it takes otherwise.
CPU_SECONDS_MAX: Final = 1.0
# Mutations of libFuzzer's for one of the target's own.
LIBFUZZERS_SHARE: Final = 2
# For when an input is run, and none is made.
WITHOUT_MUTATIONS: Final = "-without-mutations"


class TooSlow(AssertionError):
    """An input took too long for its size."""


def timed(one: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """The target, with a bound on the processor's time."""

    def run(data: bytes) -> None:
        start = time.process_time()
        one(data)
        took = time.process_time() - start
        if took > CPU_SECONDS_MAX:
            raise TooSlow(f"{took:.1f} s for {len(data)} bytes")

    return run


def mutator(target: Any) -> Callable[[bytes, int, int], bytes]:
    """A mutation of libFuzzer's, or now and then one of the target's own, if it has any."""
    from fuzz.drawing import Drawing

    own = hasattr(target, "mutate")

    def mutate(data: bytes, size_max: int, seed: int) -> bytes:
        drawing = Drawing(seed)
        if not own or drawing.below(LIBFUZZERS_SHARE + 1):
            return bytes(atheris.Mutate(data, size_max))
        return bytes(target.mutate(bytes(data), drawing)[:size_max])

    return mutate


def main() -> None:
    """Fuzz until libFuzzer says that it is enough."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    name = sys.argv.pop(1)
    with atheris.instrument_imports(include=["leporid"], enable_loader_override=False):
        target = importlib.import_module(f"fuzz.targets.{name}")
    # What was compiled before the first input is not what the first input costs.
    target.one(b"")
    options = {"custom_mutator": mutator(target)}
    if WITHOUT_MUTATIONS in sys.argv:
        sys.argv.remove(WITHOUT_MUTATIONS)
        options = {}
        # When libFuzzer starts itself anew, to merge, it puts these before its own in a shell.
        sys.argv[0] = f"{sys.executable} {Path(__file__).resolve()} {name} {WITHOUT_MUTATIONS}"
    atheris.Setup(sys.argv, timed(target.one), **options)
    atheris.Fuzz()


main()
