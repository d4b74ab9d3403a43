"""A stream: messages that stay, read by offset."""

from libc.stdint cimport uint32_t, uint64_t

cdef class Streams  # before the modules that know it, too

from leporid.engine.log.log cimport Log, Segment
from leporid.engine.log.producers cimport Producers
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.queues cimport Queues
from leporid.engine.stream.choice cimport Tally
from leporid.engine.stream.offset_index cimport OffsetIndex
from leporid.engine.wire.codec cimport Props
from leporid.engine.wire.record cimport Message, Record, targets_of

cdef struct Cursor:
    # A reader's place: its next message is at this position or behind it.
    uint64_t offset
    uint32_t segment
    uint32_t at

cdef class Stream(Queue):
    cdef Streams streams
    cdef readonly uint64_t first        # offset of the oldest message
    cdef readonly uint64_t end          # messages below are on disk, and may be read
    cdef readonly uint64_t last_chunk   # first offset of the newest sync that had messages
    cdef public object on_synced        # (): called when `end` has moved
    cdef public object on_skipped       # (skips): retention did not wait for these consumers
    cdef public str title               # its name in reply texts
    cdef readonly Log log
    cdef readonly Producers producers   # of its messages
    cdef dict readers                   # in the order in which they came
    cdef list visits                    # of these, who may deliver in this round; the next is last
    cdef bint again                     # there may be more to deliver since the round began
    cdef list dropped                   # numbers of segments whose files may be deleted
    cdef set unmapped                   # numbers of segments on disk that are read from memory
    cdef bint is_mapping                # a job looks at these
    cdef uint32_t retained              # the newest segment's number when retention ran last
    cdef readonly OffsetIndex offsets
    cdef Tally tally                    # of its readers' filters
    cdef bint gaps                      # some offsets are missing: their messages were damaged
    cdef uint64_t newest_ms             # of the newest message; timestamps never decrease
    cdef uint64_t end_ms                # of the newest message that may be read
    cdef Cursor end_place               # where the message with offset `end` will be, or before it
    cdef uint64_t closing               # `end` after the sync under way
    cdef uint64_t closing_ms
    cdef Cursor closing_place
    cdef uint64_t touched               # the newest generation with changes of this stream
    cdef uint64_t max_bytes, max_age_ms
    cdef size_t segment_bytes_max
    cdef void enlist(self)
    cdef int touch(self) except -1
    cdef int add_index_entry(self, uint64_t offset, uint64_t timestamp_ms, uint32_t segment,
                             uint32_t at) except -1
    cdef bint whole_step(self, size_t entry, Cursor *cursor, Segment segment) noexcept
    cdef int locate(self, uint64_t offset, Cursor *cursor) except -1
    cdef Record *message_at(self, Cursor *cursor) except? NULL
    cdef Record *look(self, Cursor *cursor) except? NULL
    cdef tuple begin_sync(self)
    cdef int append_synced(self) except -1
    cdef int end_sync(self, list writes) except -1
    cdef int map_sealed(self) except -1
    cdef int map_one(self, uint32_t number) except -1
    cdef void recount(self) noexcept
    cdef int retain(self) except -1
    cdef uint64_t slowest_position(self) except? 0
    cdef bint is_over_hold(self, uint64_t size, uint64_t timestamp_ms) noexcept
    cdef int skip_readers(self) except -1

cdef class Streams:
    cdef Queues queues
    cdef readonly dict by_id
    cdef public str incarnation_prefix  # of this data directory; given by the server
    cdef public object map_segment      # (stream id, number) -> buffer of the file
    cdef list unsynced                  # streams with changes of the generation at hand
    cdef list syncing                   # streams of the generation that was closed
    cdef list work                      # of those, or None if all was given to the storage
    cdef list written                   # of those: what is on disk; or None if that is noted
    cdef Py_ssize_t noted               # streams of these for which it is noted
    cdef list dropped                   # ids of streams whose files may be deleted
    cdef list dropping                  # of the generation that was closed
    cdef object scanning                # consumers that search, in order
    cdef list retaining                 # streams whose retention is still to be applied
    cdef Tally filtered                 # of all streams' readers' filters
    cdef uint64_t retained_ms
    cdef uint64_t hold_percent          # see `Stream.retain`; 0: a consumer holds any size and age
    cdef readonly uint64_t skipped_messages     # that consumers missed by retention
    cdef Stream add(self, uint32_t queue_id, str name)
    cdef int retain(self) except -1
    cdef int begin_sync(self) except -1
    cdef list collected(self, bint whole)
    cdef int end_sync(self, list streams) except -1
    cdef int note_written(self, bint whole) except -1


cdef inline uint64_t offset_of(const Record *record) noexcept nogil:
    return targets_of(record).seq
