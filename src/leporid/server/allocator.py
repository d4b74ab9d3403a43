"""How much freed memory the C library keeps for the next who asks.

Responsible for two of its settings, and for having it keep none, where it can do that. It must not
know what the memory is for.

A table's batch takes a few megabytes for a millisecond, again and again. By default the C library
gives that back to the kernel each time, and the kernel clears every page once more: more than half
of what the kernel did for a download. The settings are what glibc itself would come to after one
block of `KEPT_BLOCK_BYTES` was freed.
"""

from __future__ import annotations

import ctypes
from typing import Final

# Blocks up to here come from memory that may be used again; larger ones go back at once.
KEPT_BLOCK_BYTES: Final = 8 * 1024 * 1024
# As much as that may be free at the end of a heap, of which each thread has one.
KEPT_FREE_BYTES: Final = 2 * KEPT_BLOCK_BYTES

# From glibc's malloc.h.
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> bool:
    """Set it for this process; False where the C library knows no such settings."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {M_MMAP_THRESHOLD: KEPT_BLOCK_BYTES, M_TRIM_THRESHOLD: KEPT_FREE_BYTES}
    return all(mallopt(name, value) == 1 for name, value in settings.items())


def give_back_freed_memory() -> None:
    """Give all freed memory back to the kernel, that between used blocks as well.

    It takes milliseconds for each hundred MB, and as much for hundreds of thousands of small
    blocks; other threads run meanwhile, until they need memory themselves.
    """
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
