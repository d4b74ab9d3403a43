"""Writes the seeds of a target into a directory: what our own encoders make.

In a process of its own, on the engine that is fuzzed. Arguments: the target, the directory.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.corpora import name_of


def main() -> None:
    """Write each seed under its name."""
    target = importlib.import_module(f"fuzz.targets.{sys.argv[1]}")
    for data in target.seeds():
        (Path(sys.argv[2]) / name_of(data)).write_bytes(data)


main()
