"""Dead-lettering: what leaves a queue without having been acknowledged is made into a dead letter.

Responsible for how many of them a turn has, and for the end of what a letter was made of. It does
not know where letters go: the queue's `dead_letters` does. Invariant: an entry ends in the log
only together with its letter, or after the letter is on disk.
"""

from libc.stdint cimport uint32_t, uint64_t

from leporid.engine.log.facts cimport settle_with_letter
from leporid.engine.log.log cimport is_durable
from leporid.engine.log.logs cimport Logs
from leporid.engine.queue.index cimport GONE, READY, Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.queues cimport Queues
from leporid.engine.wire.record cimport (
    Message, body_bytes, message_in, names_bytes, properties_bytes,
)

from collections import deque


cdef class DeadLettering:
    """The dead letters of all queues."""

    def __cinit__(self, Queues queues):
        self.logs = queues.logs
        self.waiting = deque()
        self.overfull = {}
        self.refused = deque()
        self.deferred = []

    def __repr__(self):
        return f"<DeadLettering waiting={len(self.waiting)}>"

    cdef int turn(self) except -1:
        """Dead-letter what earlier turns could not, in the order in which it left its queue."""
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

    cdef bint put_off(self, Queue queue) except -1:
        """Whether so many are waiting that a queue keeps what it would drop; it is told when."""
        if len(self.waiting) < WAITING_MAX:
            return False
        self.overfull[queue] = None
        return True

    cdef int dead_letter(self, Queue queue, uint64_t seq, Slot *slot, str reason) except -1:
        """Hand a message that leaves a queue unacknowledged to the queue's dead letters."""
        cdef Logs logs = self.logs
        cdef Message message
        cdef uint64_t letters, in_streams
        if self.count >= LETTERS_MAX:
            # This turn had its dead letters: until one to come the entry is nobody's.
            if slot.state == READY:
                queue.take(slot)
            self.waiting.append((queue, seq, reason))
            return 0
        self.count += 1
        letters, in_streams = logs.durable.appended, logs.stream_messages
        message = message_in(logs.record(slot.position))
        self.replacing = queue.durable and is_durable(slot.position)
        self.hand_over(queue, names_bytes(&message), properties_bytes(&message),
                       body_bytes(&message), reason)
        self.replacing = False
        return self.end_with_letter(queue, seq, letters, in_streams)

    cdef int end_with_letter(self, Queue queue, uint64_t seq, uint64_t letters,
                             uint64_t in_streams) except -1:
        """End an entry whose letter was published since the logs had that many records.

        A letter in the same log is one transaction with the entry's end: a crash neither loses nor
        doubles it. One in a stream is on disk before the entry's end is in the log, so a crash may
        double it. (Within one write a power cut may keep what was written last.)
        """
        cdef Logs logs = self.logs
        cdef Slot *slot = queue.slot_of(seq)    # what was published may have moved it
        if queue.durable and is_durable(slot.position):
            if logs.stream_messages == in_streams and logs.durable.appended == letters:
                queue.settled.note(slot.position, seq)  # it went nowhere that lasts
            elif (logs.stream_messages != in_streams or logs.durable.appended != letters + 1
                    or not settle_with_letter(logs, queue.id, slot.position, seq)):
                self.defer(queue, slot.position, seq)
        return queue.forget(seq, slot)

    cdef int hand_over(self, Queue queue, bytes names, bytes properties, bytes body,
                       str reason) except -1:
        """Give a message, which may never have been in the queue, to the queue's dead letters."""
        cdef Py_ssize_t split = 1 + <unsigned char> names[0]
        queue.dead_letters(reason, names[1:split].decode(), names[split + 1:].decode(),
                           properties, body)
        return 0

    cdef int dead_letter_refused(self, list queues, const Message *message) except -1:
        """Make dead letters of a message for queues that were full (RabbitMQ, x-overflow).

        Where they go there may be such a queue again, so they are made one after the other.
        """
        cdef Queue queue
        cdef uint32_t left = REFUSED_MAX
        if not queues:
            return 0
        names, properties = names_bytes(message), properties_bytes(message)
        body = body_bytes(message)      # once: many queues may refuse what is large
        for queue in queues:
            self.refused.append((queue, names, properties, body))
        if self.handing:
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

    cdef int defer(self, Queue queue, uint64_t position, uint64_t seq) except -1:
        """Settled, but to be noted only when everything of this generation is on disk."""
        cdef Logs logs = self.logs
        logs.settles += 1
        logs.settles_generation = logs.generation + 1
        self.deferred.append((logs.generation, queue, position, seq))
        logs.dirty = True
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
            queue.settled.note(entry[2], entry[3])
            self.logs.dirty = True
        return 0
