"""DeliveryCounts: how many messages consumers were given, and what they acknowledged.

Responsible for the names of these counters. Who delivers or settles adds to them. It must not know
queues or consumers. Invariant: each counter only grows; a message that is delivered again counts
again.
"""


cdef class DeliveryCounts:
    """Those of one queue, or of several together, since the start."""

    def __repr__(self):
        return (f"<DeliveryCounts delivered={self.delivered} "
                f"delivered_no_ack={self.delivered_no_ack} got={self.got} "
                f"got_no_ack={self.got_no_ack} acked={self.acked}>")

    @property
    def total(self):
        """Deliveries in all four ways."""
        return self.delivered + self.delivered_no_ack + self.got + self.got_no_ack

    cdef void add(self, DeliveryCounts other) noexcept:
        self.delivered += other.delivered
        self.delivered_no_ack += other.delivered_no_ack
        self.got += other.got
        self.got_no_ack += other.got_no_ack
        self.get_empty += other.get_empty
        self.redelivered += other.redelivered
        self.acked += other.acked
