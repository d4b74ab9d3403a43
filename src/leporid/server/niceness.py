"""Niceness: how far threads stand back behind the broker's own.

Responsible for the priority of a thread that works on what nobody's message waits for. Must not
know what that is. Invariant: the broker's own thread is as it was.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Final

ENCODERS_NICENESS: Final = 10
"""Of threads that encode tables, as `nice` counts: somebody waits for each message, while tables
want throughput."""
NICENESS_MAX: Final = 19


def yield_to_messages(niceness: int = ENCODERS_NICENESS) -> None:
    """Let the broker's own thread go first where both want a core; of Linux alone, by thread.

    Threads that this one makes, as argon2 does for its lanes, do so, too.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        niceness += os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, min(niceness, NICENESS_MAX))
