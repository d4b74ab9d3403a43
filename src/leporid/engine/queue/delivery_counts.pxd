"""How many messages consumers were given."""

from libc.stdint cimport uint64_t

cdef class DeliveryCounts:
    # To consumers, and by basic.get; with and without acknowledgements.
    cdef readonly uint64_t delivered, delivered_no_ack, got, got_no_ack
    cdef readonly uint64_t get_empty        # basic.get that found no message
    cdef readonly uint64_t redelivered      # of all deliveries
    cdef readonly uint64_t acked
    cdef void add(self, DeliveryCounts other) noexcept
