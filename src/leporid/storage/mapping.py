"""Files as read-only memory, without a file descriptor for each.

Python's mmap keeps a descriptor of its file for as long as the mapping lives (3.13 can leave it
out), and a log of 16 GiB has a thousand files. Most systems give a process 1,024 descriptors, which
are for its clients; out of them, a broker with such a log could not start any more.

Responsible for mapping whole files and for the life of a mapping; must not know what is in them.
Invariant: memory is unmapped when the last buffer of it is released, and not before.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import weakref
from pathlib import Path
from typing import Final, TypeAlias

# Linux's MADV_POPULATE_READ (5.14).
POPULATE_READ: Final = 22
FAILED: Final = ctypes.c_void_p(-1).value

# A buffer, to be looked at through a memoryview. Its memory can only be read: writing to it is a
# segmentation fault. (A read-only memoryview would say so, but the garbage collector complains
# when it meets one that somebody holds a buffer of.)
Mapping: TypeAlias = "ctypes.Array[ctypes.c_char]"

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
    ctypes.c_long,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def map_file(path: Path, *, whole: bool = False) -> Mapping:
    """Map a file that is not empty.

    Args:
        path: the file.
        whole: have all of it read from the disk before this returns. Whoever touches a part that
            the disk cannot give ends with SIGBUS; so it is an error instead. (Linux before 5.14
            cannot tell.)

    Raises:
        OSError: it cannot be opened, mapped, or read.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        if address == FAILED:
            raise _error(ctypes.get_errno(), path)
    memory = (ctypes.c_char * size).from_address(address)
    # At the end of the process the kernel does it; somebody may still read until then.
    weakref.finalize(memory, _libc.munmap, address, size).atexit = False
    if whole and _libc.madvise(address, size, POPULATE_READ):
        code = ctypes.get_errno()
        if code == errno.EFAULT:
            raise _error(errno.EIO, path)
    return memory


def _error(code: int, path: Path) -> OSError:
    return OSError(code, os.strerror(code), str(path))
