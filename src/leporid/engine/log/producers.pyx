"""Producers of one log and their sequence numbers, by which repeated publishes are skipped.

Responsible for the reference of a producer, its number in records and its highest sequence number.
A record carries both numbers itself, so whatever part of a log survives a crash says exactly which
messages are in it. References are in PRODUCER facts; each segment that is written has one for
every producer, so that older segments can be dropped. It must not know who a producer is.

Invariant: the producer that is forgotten is the one that published longest ago.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.log.log cimport KIND_PRODUCER, Log
from leporid.engine.wire.record cimport Record, Target, content_of, targets_of

cdef enum:
    # For each log. A producer is a partition of a streaming query, or a program; its fact takes
    # up to 300 bytes of each segment.
    PRODUCERS_MAX = 1000
    # Numbers of producers stand in the field of queue ids, and are no queue's.
    FIRST_NUMBER = 0xf0000000

REFERENCE_BYTES_MAX = 255


cdef class Producer:
    """One producer."""

    def __cinit__(self, bytes reference, uint32_t number, uint64_t next_sequence):
        self.reference = reference
        self.number = number
        self.next = next_sequence


cdef class Producers:
    """The producers of one log."""

    def __cinit__(self):
        self.by_reference = {}
        self.by_number = {}
        self.last_number = FIRST_NUMBER

    def __len__(self):
        return len(self.by_reference)

    def next_sequence(self, bytes reference not None):
        """The first sequence number that would not be a repetition."""
        cdef Producer producer = self.find(reference)
        return 0 if producer is None else producer.next

    cdef Producer find(self, bytes reference):
        return self.by_reference.get(reference)

    cdef Producer get(self, Log log, bytes reference, uint64_t timestamp_ms):
        """The producer that is about to publish; its fact is in the log when this returns."""
        cdef Producer producer = self.by_reference.pop(reference, None)
        if producer is None:
            if len(reference) > REFERENCE_BYTES_MAX:
                raise ValueError(f"a producer's reference has at most {REFERENCE_BYTES_MAX} bytes")
            self.last_number += 1
            if self.last_number < FIRST_NUMBER:
                self.last_number = FIRST_NUMBER
            producer = Producer(reference, self.last_number, 0)
            self.by_number[producer.number] = producer
            self.tell(log, producer, timestamp_ms)
            if len(self.by_reference) >= PRODUCERS_MAX:
                self.forget_oldest()
        self.by_reference[reference] = producer
        return producer

    def forget_oldest(self):
        """Forget the producer that published longest ago."""
        cdef Producer oldest = self.by_reference.pop(next(iter(self.by_reference)))
        self.by_number.pop(oldest.number, None)

    cdef int tell(self, Log log, Producer producer, uint64_t timestamp_ms) except -1:
        """Append a producer's fact: number, next sequence number, reference.

        The sequence number is the one that is on disk already: the fact may survive a write of
        which other parts are lost.
        """
        cdef Record *record = log.begin_fact(
            KIND_PRODUCER, 0, 12 + len(producer.reference), timestamp_ms)
        cdef uint8_t *p = content_of(record)
        memcpy(p, &producer.number, 4)
        memcpy(p + 4, &producer.safe, 8)
        memcpy(p + 12, PyBytes_AS_STRING(producer.reference), len(producer.reference))
        log.finish(record)
        return 0

    cdef int begin_sync(self, Log log, uint64_t timestamp_ms) except -1:
        """Append a fact about every producer if the newest segment has none yet; the previous
        sync is on disk by now."""
        cdef Producer producer
        cdef bint tell
        if not self.by_reference or log.active is None:
            return 0
        tell = log.active.number != self.told
        for producer in self.by_reference.values():
            producer.safe, producer.closing = producer.closing, producer.next
            if tell:
                self.tell(log, producer, timestamp_ms)
        self.told = log.active.number
        return 0

    # ------------------------------------------------------------- replay

    cdef int learn(self, const Record *record) except -1:
        """Replay read a producer's fact."""
        cdef const uint8_t *p = content_of(record)
        cdef uint32_t number
        cdef uint64_t next
        cdef bytes reference
        cdef Producer producer
        if record.body_len < 12:
            return 0
        memcpy(&number, p, 4)
        memcpy(&next, p + 4, 8)
        reference = p[12:record.body_len]
        producer = self.by_reference.pop(reference, None)
        if producer is None:
            producer = Producer(reference, number, next)
            if len(self.by_reference) >= PRODUCERS_MAX:
                self.forget_oldest()
        elif producer.number != number:
            self.by_number.pop(producer.number, None)
        producer.number = number
        producer.safe = max(producer.safe, next)
        producer.next = producer.closing = max(producer.next, next)
        self.by_reference[reference] = self.by_number[number] = producer
        self.last_number = max(self.last_number, number)
        return 0

    cdef int meet(self, const Record *record) except -1:
        """Replay read a message of a producer."""
        cdef const Target *target = targets_of(record) + record.targets - 1
        cdef Producer producer = self.by_number.get(target.queue)
        if producer is not None:
            producer.next = producer.closing = max(producer.next, target.seq + 1)
        return 0

    cdef int doubt(self) except -1:
        """Records may be missing before others that were read: rely on facts alone.

        A repeated publish may then be stored twice, but no missing message is skipped.
        """
        cdef Producer producer
        for producer in self.by_reference.values():
            producer.next = producer.closing = producer.safe
        return 0
