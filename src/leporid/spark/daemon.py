"""Spark's daemon of Python workers, without the traceback of a worker whose rows nobody wants.

After `limit(n)` Spark closes the connection to a worker that still has rows. PySpark's daemon then
prints a BrokenPipeError to the user's terminal, and ends the worker; here it only ends the worker.
`session` names this module as `spark.python.daemon.module`. It must import nothing that starts
threads: workers are forks of this process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import daemon

Worker = Callable[[Any, bool], int]

# What PySpark's daemon takes for a reason to end a worker.
EXIT_FAILED = 1


def quiet(worker: Worker) -> Worker:
    """Have a worker whose connection was closed end without a word."""

    def run(sock: Any, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except BrokenPipeError:
            return EXIT_FAILED

    return run


def main() -> None:
    """Serve workers until Spark ends."""
    daemon.worker = quiet(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    main()
