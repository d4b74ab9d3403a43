"""Dead-lettering of messages that leave a queue unacknowledged: rejected, expired, over a limit.

Responsible for how many letters a turn makes, and for settling the entry that a letter was made of.
It must not know where letters go: the queue's `dead_letters` publishes them. To find that may take
many steps, so `dead_letters` may return an iterator of them, whose last step publishes; steps that
a slice has no room for are made in later turns. Invariants: an entry is settled in the log only in
one transaction with its letter, or after the letter is on disk. At most one letter of an entry is
unfinished, and at most one of a full queue; each is the first of those that wait.
"""

from cpython.iterator cimport PyIter_Check

from libc.stdint cimport uint64_t

from leporid.engine.log.facts cimport settle_with_letter
from leporid.engine.log.log cimport COPIED_AT_ONCE, RecordMemory, is_durable, record_memory
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
        while self.waiting and not self.held and not self.refused and self.has_time():
            queue, seq, reason, steps, in_streams = self.waiting.popleft()
            slot = queue.slot_of(seq)
            if slot == NULL or slot.state == GONE:
                continue    # purged, or deleted with its queue
            if steps is not None:
                self.count += 1
                self.go_on(queue, seq, slot, reason, steps, in_streams)
            else:
                self.granted = True
                queue.drop(seq, slot, reason)
        self.granted = False
        if not self.waiting:
            self.crowded = False
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

    cdef bint has_work(self) except -1:
        """Whether a turn would make letters."""
        return self.refused or self.waiting and not self.held

    cdef bint put_off(self, Queue queue) except -1:
        """Whether too many entries are waiting, so that a queue must not drop more now; it is
        woken when there is room."""
        if len(self.waiting) < WAITING_MAX:
            return False
        self.overfull[queue] = None
        self.crowded = True
        return True

    cdef int dead_letter(self, Queue queue, uint64_t seq, Slot *slot, str reason) except -1:
        """Publish the dead letter of a message that leaves a queue, and settle its entry."""
        if not self.granted and (
                self.held or self.refused or self.unfinished() or not self.has_time()):
            # This turn has made its letters: until a later one, no consumer can take the entry.
            if slot.state == READY:
                queue.take(slot)
            self.waiting.append((queue, seq, reason, None, 0))
            return 0
        self.granted = False
        self.count += 1
        return self.go_on(queue, seq, slot, reason, None, self.logs.stream_messages)

    cdef bint unfinished(self) except -1:
        """Whether the first of the entries that wait has a letter that was begun."""
        return self.waiting and self.waiting[0][3] is not None

    cdef int go_on(self, Queue queue, uint64_t seq, Slot *slot, str reason, steps,
                   uint64_t in_streams) except -1:
        """Begin the letter of an entry, or make the steps that are left, as far as there is time;
        settle the entry if the letter is made. When it was begun, streams had `in_streams`."""
        cdef Logs logs = self.logs
        cdef Message message
        cdef uint64_t letters = logs.durable.appended
        cdef bint made
        self.replacing = queue.durable and is_durable(slot.position)
        if steps is None:
            message = message_in(logs.record(slot.position))
            if message.body_len > COPIED_AT_ONCE:
                steps = _letter_of_large(logs, queue, seq, reason)
            else:
                steps = letter_of(queue, reason, names_bytes(&message), properties_bytes(&message),
                                  body_bytes(&message))
        made = self.make(steps)
        self.replacing = False
        if made:
            return self.end_with_letter(queue, seq, letters, in_streams)
        slot = queue.slot_of(seq)
        if slot.state == READY:
            queue.take(slot)    # as for those that wait
        self.waiting.appendleft((queue, seq, reason, steps, in_streams))
        return 0

    cdef bint make(self, steps) except -1:
        """Make steps of a letter while there is time; returns whether it was published."""
        if PyIter_Check(steps):
            for _ in steps:
                if self.clock.over():
                    return False
        return True

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
        """Make a letter of a message, which may never have been in the queue, in one go."""
        steps = letter_of(queue, reason, names, properties, body)
        if PyIter_Check(steps):
            for _ in steps:
                pass
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
        if message.memory != NULL and type(<object> message.memory) is RecordMemory:
            body = <object> message.memory
        else:
            body = body_bytes(message)  # once: many queues may refuse what is large
        left = [REFUSED_MAX] if self.left is None else self.left
        for queue in queues:
            self.refused.append((queue, names, properties, body, left, None))
        return self.make_refused()

    cdef int make_refused(self) except -1:
        """Make the letters that full queues make, while there is time."""
        cdef Queue queue
        if self.left is not None:
            return 0    # they are being made
        try:
            while self.refused and self.has_time():
                queue, names, properties, body, left, steps = self.refused.popleft()
                if steps is None and not left[0]:
                    continue
                self.count += 1
                self.left = left
                if steps is None:
                    left[0] -= 1
                    if queue.dead_letters is None:
                        continue    # its settings have changed meanwhile
                    steps = letter_of(queue, "maxlen", names, properties, body)
                if not self.make(steps):
                    self.refused.appendleft((queue, names, properties, body, left, steps))
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


def _letter_of_large(Logs logs, Queue queue, uint64_t seq, str reason):
    """The steps of the letter of an entry with a large body, which is copied first.

    The entry stays where it is meanwhile; its record may be moved.
    """
    cdef RecordMemory memory = None
    names, properties, memory = begin_copy(logs, queue, seq)
    while not copy_some(logs, queue, seq, memory):
        yield
    yield
    if queue.dead_letters is None:
        return              # its settings have changed meanwhile
    steps = letter_of(queue, reason, names, properties, memory)
    if PyIter_Check(steps):
        yield from steps


cdef tuple begin_copy(Logs logs, Queue queue, uint64_t seq):
    """Names, properties, and memory for the body, of an entry's message."""
    cdef Message message = message_in(logs.record(queue.slot_of(seq).position))
    return names_bytes(&message), properties_bytes(&message), record_memory(
        message.names_len + message.properties_len, message.body_len)


cdef bint copy_some(Logs logs, Queue queue, uint64_t seq, RecordMemory memory) except -1:
    """Copy more of an entry's body; returns False if the slice is over before its end."""
    cdef Message message = message_in(logs.record(queue.slot_of(seq).position))
    return memory.copy_rest(message.body, message.body_len, logs.clock)


cdef object letter_of(Queue queue, str reason, bytes names, bytes properties, body):
    """Call the queue's `dead_letters` with a message; returns the steps that are left, if any."""
    cdef Py_ssize_t split = 1 + <unsigned char> names[0]
    return queue.dead_letters(reason, names[1:split].decode(), names[split + 1:].decode(),
                              properties, body)
