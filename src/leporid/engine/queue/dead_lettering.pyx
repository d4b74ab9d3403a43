"""Dead-lettering of messages that leave a queue unacknowledged: rejected, expired, over a limit.

Responsible for how many letters a turn makes, and for settling the entry that a letter was made of.
It must not know where letters go: the queue's `dead_letters` publishes them. Invariant: an entry is
settled in the log only in one transaction with its letter, or after the letter is on disk.
"""

from libc.stdint cimport uint64_t

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
    """Dead-lettering for all queues."""

    def __cinit__(self, Queues queues):
        self.logs = queues.logs
        self.clock = queues.clock
        self.waiting = deque()
        self.overfull = {}
        self.refused = deque()
        self.deferred = []

    def __repr__(self):
        return f"<DeadLettering waiting={len(self.waiting)}>"

    cdef int turn(self) except -1:
        """Dead-letter entries that earlier turns left waiting, in the order in which they came."""
        cdef Queue queue
        cdef Slot *slot
        self.count = 0
        self.make_refused()
        while self.waiting and not self.refused and self.has_time():
            self.granted = True
            queue, seq, reason = self.waiting.popleft()
            slot = queue.slot_of(seq)
            if slot != NULL and slot.state != GONE:
                queue.drop(seq, slot, reason)
        self.granted = False
        if self.overfull and len(self.waiting) < WAITING_MAX:
            overfull, self.overfull = self.overfull, {}
            for queue in overfull:
                queue.wake()
        return 0

    cdef bint has_time(self) except -1:
        """Whether one more letter may be made now; the first of a turn may always."""
        if self.count and self.count < LETTERS_MAX and self.clock.over():
            self.count = LETTERS_MAX
        return self.count < LETTERS_MAX

    cdef bint put_off(self, Queue queue) except -1:
        """Whether too many entries are waiting, so that a queue must not drop more now; it is
        woken when there is room."""
        if len(self.waiting) < WAITING_MAX:
            return False
        self.overfull[queue] = None
        return True

    cdef int dead_letter(self, Queue queue, uint64_t seq, Slot *slot, str reason) except -1:
        """Publish the dead letter of a message that leaves a queue, and settle its entry."""
        cdef Logs logs = self.logs
        cdef Message message
        cdef uint64_t letters, in_streams
        if not self.granted and (self.refused or not self.has_time()):
            # This turn has made its letters: until a later one, no consumer can take the entry.
            if slot.state == READY:
                queue.take(slot)
            self.waiting.append((queue, seq, reason))
            return 0
        self.granted = False
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
        """Settle an entry whose letter was published after the logs had so many records.

        A letter in the same log is in one transaction with the entry's settle: a crash neither
        loses nor duplicates it. One in a stream is on disk before the settle is in the log, so a
        crash may duplicate it. (Within one write a power cut may keep what was written last.)
        """
        cdef Logs logs = self.logs
        cdef Slot *slot = queue.slot_of(seq)    # publishing may have moved it
        if queue.durable and is_durable(slot.position):
            if logs.stream_messages == in_streams and logs.durable.appended == letters:
                queue.settled.note(slot.position, seq)  # the letter went to no durable queue
            elif (logs.stream_messages != in_streams or logs.durable.appended != letters + 1
                    or not settle_with_letter(logs, queue.id, slot.position, seq)):
                self.defer(queue, slot.position, seq)
        return queue.forget(seq, slot)

    cdef int hand_over(self, Queue queue, bytes names, bytes properties, bytes body,
                       str reason) except -1:
        """Call the queue's `dead_letters` with a message, which may never have been in it."""
        cdef Py_ssize_t split = 1 + <unsigned char> names[0]
        queue.dead_letters(reason, names[1:split].decode(), names[split + 1:].decode(),
                           properties, body)
        return 0

    cdef int dead_letter_refused(self, list queues, const Message *message) except -1:
        """Dead-letter a message for queues that were full (x-overflow: reject-publish-dlx).

        A letter may be refused by another such queue, so they are made one after the other; in
        later turns, if there is no time. Until then nobody may publish to such queues.
        """
        cdef Queue queue
        if not queues:
            return 0
        names, properties = names_bytes(message), properties_bytes(message)
        body = body_bytes(message)      # once: many queues may refuse what is large
        left = [REFUSED_MAX] if self.left is None else self.left
        for queue in queues:
            self.refused.append((queue, names, properties, body, left))
        return self.make_refused()

    cdef int make_refused(self) except -1:
        """Make the letters that full queues make, while there is time."""
        cdef Queue queue
        if self.left is not None:
            return 0    # they are being made
        try:
            while self.refused and self.has_time():
                queue, names, properties, body, left = self.refused.popleft()
                if left[0]:
                    left[0] -= 1
                    self.count += 1
                    self.left = left
                    self.hand_over(queue, names, properties, body, "maxlen")
        finally:
            self.left = None
        return 0

    cdef int make_all_refused(self) except -1:
        """Make them all, however long it takes."""
        while self.refused:
            self.count = 0
            self.make_refused()
        return 0

    cdef int defer(self, Queue queue, uint64_t position, uint64_t seq) except -1:
        """Settle an entry, but note that only when everything of this generation is on disk."""
        cdef Logs logs = self.logs
        logs.settles += 1
        logs.settles_generation = logs.generation + 1
        self.deferred.append((logs.generation, queue, position, seq))
        logs.dirty = True
        return 0

    cdef int end_sync(self, uint64_t generation) except -1:
        """The generation is on disk: note the settles that waited for it."""
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
