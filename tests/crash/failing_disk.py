"""A broker whose disk fails as a file says, which may be changed while it runs.

    python failing_disk.py FAULTS serve …

A line of the file names a function of `os` and what becomes of its calls: the name of an error, or
"hang", which lasts until the line is gone.
"""

import errno
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

# Functions that are asked for the data's disk alone.
FAILING = ("fdatasync", "pwrite", "posix_fallocate", "statvfs", "unlink")
LOOK_AGAIN_S = 0.02


def failing(name: str, call: Callable[..., object], faults: Path) -> Callable[..., object]:
    """Return a function that does as the file says, or what it did before."""

    def called(*arguments: object, **options: object) -> object:
        while (fault := dict(map(str.split, faults.read_text().splitlines())).get(name)) == "hang":
            time.sleep(LOOK_AGAIN_S)
        if fault is not None:
            code = getattr(errno, fault)
            raise OSError(code, os.strerror(code))
        return call(*arguments, **options)

    return called


if __name__ == "__main__":
    path = Path(sys.argv[1])
    for each in FAILING:
        setattr(os, each, failing(each, getattr(os, each), path))
    from leporid.cli.main import main
    from leporid.server import durability

    # Nobody waits for half a minute here.
    durability.SILENT_S = 0.05  # type: ignore[misc]
    durability.WATCH_EVERY_S = 0.05  # type: ignore[misc]
    sys.exit(main(sys.argv[2:]))
