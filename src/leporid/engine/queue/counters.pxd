"""Counters of several queues together: the messages in them, and what consumers were given."""

from libc.stdint cimport uint64_t

cdef class Totals:
    cdef readonly uint64_t ready, unacked, held
    cdef readonly uint64_t published    # by clients, to the exchanges that count here
    cdef readonly Totals backlogs       # of their backlogs; None: nobody asks

cdef class DeliveryCounts:
    # To consumers, and by basic.get; with and without acknowledgements.
    cdef readonly uint64_t delivered, delivered_no_ack, got, got_no_ack
    cdef readonly uint64_t get_empty        # basic.get that found no message
    cdef readonly uint64_t redelivered      # of all deliveries
    cdef readonly uint64_t acked
    cdef void add(self, DeliveryCounts other) noexcept
