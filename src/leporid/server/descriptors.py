"""File descriptors: how many there may be, and who gets them.

Responsible for these numbers, and for the system's table. Must not know who opens what. Invariant:
peers of all kinds together leave those of the log, of streams and of the definitions, without which
the broker stops.
"""

from __future__ import annotations

import fcntl
import os
import resource
from pathlib import Path
from typing import Final

from leporid.storage.streams import OPEN_MAX

# Of the process's file descriptors, those that peers never get: the files of the log and of the
# streams, the definitions, the sockets that listen, HTTP's connections and who waits to be one.
# Without one the log cannot go on, and the broker stops.
DESCRIPTORS_KEPT: Final = 1184
# Of these, those that listen beside the bound ones (`server.listening`): of AMQP, of HTTP and of
# the port for metrics. Where descriptors are few, there are none.
DESCRIPTORS_LISTENING: Final = 96
LISTENING_PROTOCOLS: Final = 3
# Of these, the files of the log and the definitions, and what is open for a moment only.
DESCRIPTORS_OF_FILES: Final = 64
# An HTTP connection, and who waits to be one on each of the two ports.
PLACES_OF_HTTP: Final = 3
# For so many descriptors their table is made at the start, 8 bytes each. Later, Linux doubles it
# when it is full, and has whoever needs one more wait for all processors (RCU): 10 to 20 ms.
DESCRIPTOR_PLACES_MAX: Final = 131_072
# Of a process's file descriptors, one in so many may be that of a stream's file.
STREAM_FILES_SHARE: Final = 8


def descriptors() -> int:
    """The most file descriptors that this process may have."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def descriptor_places(connections_max: int, most: int) -> int:
    """For how many descriptors a table is made at the start, if there may be `most`."""
    places = min(connections_max + DESCRIPTORS_KEPT, DESCRIPTOR_PLACES_MAX)
    return places if most == resource.RLIM_INFINITY else min(places, most)


def make_descriptor_places(places: int) -> None:
    """Have the operating system's table of this process's descriptors be large from now on.

    It never becomes smaller, and costs no time to enlarge while there is one thread.
    """
    with Path(os.devnull).open("rb") as file:
        os.close(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, places - 1))


def links_max(configured: int, most: int) -> int:
    """How many peers there may be at a time, of which each takes one of `most` descriptors."""
    if most == resource.RLIM_INFINITY:
        return configured
    return min(configured, most - min(DESCRIPTORS_KEPT, most // 2))


def stream_files_max(most: int) -> int:
    """How many files of streams stay open, of `most` descriptors."""
    if most == resource.RLIM_INFINITY:
        return OPEN_MAX
    return max(1, min(OPEN_MAX, most // STREAM_FILES_SHARE))


def http_connections_max(most: int) -> int:
    """How many HTTP connections there is room for, and for as many who wait on each port."""
    if most == resource.RLIM_INFINITY:
        return DESCRIPTORS_KEPT
    kept = min(DESCRIPTORS_KEPT, most // 2) - stream_files_max(most) - DESCRIPTORS_OF_FILES
    if not are_few(most):
        kept -= DESCRIPTORS_LISTENING
    return max(1, kept // PLACES_OF_HTTP)


def lines_max(bound: int, most: int) -> int:
    """How many sockets may listen for each of those that are bound for one protocol."""
    return 1 if are_few(most) else max(1, DESCRIPTORS_LISTENING // LISTENING_PROTOCOLS // bound)


def are_few(most: int) -> bool:
    """Whether less is kept than usually."""
    return most != resource.RLIM_INFINITY and most // 2 < DESCRIPTORS_KEPT
