"""Dead letters: what leaves a queue without having been acknowledged is made into one.

Responsible for how many of them a turn has, and for the end of what a letter was made of. It does
not know where letters go: the queue's `dead_letters` does. Invariant: an entry ends in the log
only together with its letter, or after the letter is on disk.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.log.facts cimport settle_with_letter
from leporid.engine.queue.index cimport GONE, READY, UNACKED, Slot
from leporid.engine.plane cimport Plane
from leporid.engine.queue.queue cimport Queue
from leporid.engine.wire.wire cimport Record, Target

from collections import deque


cdef class DeadLettering:
    """The dead letters of one plane."""

    def __cinit__(self, Plane plane):
        self.plane = plane
        self.waiting = deque()
        self.overfull = {}
        self.refused = deque()
        self.deferred = []

    def __repr__(self):
        return f"<DeadLettering waiting={len(self.waiting)}>"

    cdef int turn(self) except -1:
        """Bury what earlier turns could not, in the order in which it died."""
        cdef Queue queue
        cdef Slot *slot
        self.count = 0
        while self.waiting and self.count < LETTERS_MAX:
            queue, seq, reason = self.waiting.popleft()
            slot = queue.slot_of(seq)
            if slot != NULL and slot.state != GONE:
                queue.drop(seq, slot, reason)
        if self.overfull and len(self.waiting) < WAITING_MAX:
            overfull, self.overfull = self.overfull, {}
            for queue in overfull:
                queue.wake()
        return 0

    cdef bint put_off(self, object queue) except -1:
        """Whether so many are waiting that a queue keeps what it would drop; it is told when."""
        if len(self.waiting) < WAITING_MAX:
            return False
        self.overfull[queue] = None
        return True

    cdef int dead_letter(self, object given, uint64_t seq, Slot *slot, str reason) except -1:
        """Hand a message that leaves a queue unacknowledged to the queue's dead letters."""
        cdef Queue queue = <Queue> given
        cdef Plane plane = self.plane
        cdef Record *record
        cdef const uint8_t *names
        cdef const uint8_t *properties
        cdef const uint8_t *body
        cdef uint64_t letters, in_streams
        if self.count >= LETTERS_MAX:
            return self.dead_letter_later(queue, seq, slot, reason)
        self.count += 1
        letters, in_streams = plane.durable.appended, plane.appended_to_streams
        record = plane.record(slot.position)
        names = (<const uint8_t *> record + sizeof(Record) + record.targets * sizeof(Target))
        properties = names + record.names_len
        body = properties + record.properties_len
        self.replacing = queue.durable and slot.position >> 63
        self.hand_over(queue, names[:record.names_len], properties[:record.properties_len],
                       body[:record.body_len], reason)
        self.replacing = False
        return self.end_with_letter(queue, seq, letters, in_streams)

    cdef int dead_letter_later(self, object given, uint64_t seq, Slot *slot, str reason) except -1:
        """This turn had its dead letters: until one to come the entry is nobody's."""
        cdef Queue queue = <Queue> given
        if slot.state == READY:
            slot.state = UNACKED
            queue.ready_count -= 1
            queue.unacked_count += 1
            queue.ready_bytes -= self.plane.record(slot.position).body_len
        self.waiting.append((queue, seq, reason))
        return 0

    cdef int end_with_letter(self, object given, uint64_t seq, uint64_t letters,
                             uint64_t in_streams) except -1:
        """End an entry whose letter was published since the logs had that many records.

        A letter in the same log is one transaction with the entry's end: a crash neither loses nor
        doubles it. One in a stream is on disk before the entry's end is in the log, so a crash may
        double it. (Within one write a power cut may keep what was written last.)
        """
        cdef Queue queue = <Queue> given
        cdef Plane plane = self.plane
        cdef Slot *slot = queue.slot_of(seq)    # what was published may have moved it
        if queue.durable and slot.position >> 63:
            if plane.appended_to_streams == in_streams and plane.durable.appended == letters:
                queue.note_settled(slot.position, seq)  # it went nowhere that lasts
            elif (plane.appended_to_streams != in_streams
                    or plane.durable.appended != letters + 1
                    or not settle_with_letter(plane, queue.id, slot.position, seq)):
                self.defer(queue, slot.position, seq)
        return queue.forget(seq, slot)

    cdef int hand_over(self, object given, bytes names, bytes properties, bytes body,
                       str reason) except -1:
        """Give a message, which may never have been in the queue, to the queue's dead letters."""
        cdef Queue queue = <Queue> given
        cdef Py_ssize_t split = 1 + <unsigned char> names[0]
        queue.dead_letters(reason, names[1:split].decode(), names[split + 1:].decode(),
                           properties, body)
        return 0

    cdef int dead_letter_refused(self, list queues, bytes names, bytes properties,
                          bytes body) except -1:
        """Make dead letters of a message for queues that were full (RabbitMQ, x-overflow).

        Where they go there may be such a queue again, so they are made one after the other.
        """
        cdef Queue queue
        cdef uint32_t left = REFUSED_MAX
        for queue in queues:
            self.refused.append((queue, names, properties, body))
        if self.handing or not queues:
            return 0
        self.handing = True
        try:
            while self.refused and left:
                left -= 1
                queue, names, properties, body = self.refused.popleft()
                self.hand_over(queue, names, properties, body, "maxlen")
        finally:
            self.refused.clear()
            self.handing = False
        return 0

    cdef int defer(self, object queue, uint64_t position, uint64_t seq) except -1:
        """Settled, but to be noted only when everything of this generation is on disk."""
        cdef Plane plane = self.plane
        plane.noted += 1
        plane.noted_by = plane.generation + 1
        self.deferred.append((plane.generation, queue, position, seq))
        plane.dirty = True
        return 0

    cdef int end_sync(self, uint64_t generation) except -1:
        """That generation is on disk: note what waited for it."""
        cdef Queue queue
        deferred, self.deferred = self.deferred, []
        for entry in deferred:
            if entry[0] > generation:
                self.deferred.append(entry)
                continue
            queue = entry[1]
            queue.note_settled(entry[2], entry[3])
            self.plane.dirty = True
        return 0
