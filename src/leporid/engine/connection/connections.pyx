"""What all connections share: buffers, lists of those that wait, and the engine's other parts.

Responsible for connections that wait for a sync, for room in their output or for their next slice,
and for channels with unconfirmed publishes. It must not know frames. Invariant: no answer or
confirm that waits for a generation leaves before every byte and every definition of that generation
is on disk.
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc

from leporid.engine.bounds.jobs cimport Jobs
from leporid.engine.bounds.lines cimport Lines
from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.connection cimport Connection
from leporid.engine.connection.timeouts cimport Timeouts
from leporid.engine.publishing.publishing cimport Publishing
from leporid.engine.selecting.filtered_consumers cimport Searches
from leporid.engine.stream.stream cimport Streams

# One message at most (RabbitMQ 3.13's max_message_size).
MESSAGE_BYTES_MAX = 128 * 1024 * 1024
# Publishes to one queue, and settles, of one transaction. Its facts are adjacent in the log, so
# that nobody else's turn comes while it is committed, and each takes half a microsecond.
TRANSACTION_ENTRIES_MAX = 10_000

cdef enum:
    # The input of one connection that may wait for its next frame (a method, a header and a body
    # frame with a payload of 128 KiB), and what is read in one turn.
    INBOX_BYTES = 512 * 1024


cdef class Connections:
    """All connections of one broker."""

    def __cinit__(self, Jobs jobs not None, Publishing publishing not None,
                  Streams streams not None, Searches searches not None):
        self.jobs = jobs
        self.publishing = publishing
        self.streams = streams
        self.searches = searches
        self.verdicts = searches.verdicts
        self.queues = publishing.queues
        self.logs = publishing.logs
        self.clock = publishing.logs.clock
        self.timeouts = Timeouts(self)
        self.message_bytes_max = MESSAGE_BYTES_MAX
        self.transaction_entries_max = TRANSACTION_ENTRIES_MAX
        self.touched = []
        self.confirming = []
        self.held = []
        self.resuming = Lines()
        self.inbox_bytes = INBOX_BYTES
        self.inbox = <uint8_t *> malloc(INBOX_BYTES)
        if self.inbox == NULL:
            raise MemoryError("no memory for the input buffer")
        self.outbox = <uint8_t *> malloc(OUTBOX_BYTES)
        if self.outbox == NULL:
            raise MemoryError("no memory for the frames of large bodies")

    def __dealloc__(self):
        free(self.inbox)
        free(self.outbox)
        for at in range(self.spare_output_count):
            free(self.spare_outputs[at])

    def set_consumer_timeout(self, uint64_t timeout_ms):
        """Set `consumer_timeout_ms`, for deliveries that are there, too."""
        self.consumer_timeout_ms = timeout_ms
        self.queues.timeouts_changed = True

    def take_touched(self):
        """Connections that have output or want to be closed, since the last call."""
        touched, self.touched = self.touched, []
        return touched

    cdef int resume_input(self) except -1:
        """Let connections handle their input again that had paused it, while the stage lasts."""
        cdef Connection connection
        cdef Py_ssize_t left = self.resuming.count
        while left:
            left -= 1
            connection = self.resuming.begin_slice(self.clock)
            if connection is None:
                break
            connection.resuming = False
            if not connection.is_lost and not connection.jobs:
                connection.paused = False
                connection.resume_input()
                connection.output.touch()
        return 0

    cdef int confirm(self) except -1:
        """Confirm publishes that are on disk."""
        cdef Channel channel
        if not self.confirming:
            return 0
        waiting, self.confirming = self.confirming, []
        for channel in waiting:
            if channel.confirm():
                self.confirming.append(channel)
        return 0

    cdef int end_sync(self, uint64_t generation) except -1:
        """The generation is on disk: release the connections that waited for it."""
        cdef Connection connection
        held, self.held = self.held, []
        for connection in held:
            if connection.is_lost:
                continue
            if connection.held > generation:
                self.held.append(connection)
                self.logs.awaited = True
            else:
                connection.release()
        return 0
