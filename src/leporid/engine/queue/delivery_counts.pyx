"""DeliveryCounts: how many messages consumers were given, and what they acknowledged.

Responsible for the names of these counters. Who delivers or settles adds to them. It must not know
queues or consumers. Invariant: each counter only grows; a message that is delivered again counts
again.
"""


cdef class DeliveryCounts:
    """Those of one queue, or of all queues of one type, since the start."""

    def __repr__(self):
        return (f"<DeliveryCounts delivered={self.delivered} "
                f"delivered_no_ack={self.delivered_no_ack} got={self.got} "
                f"got_no_ack={self.got_no_ack} acked={self.acked}>")

    @property
    def total(self):
        """Deliveries in all four ways."""
        return self.delivered + self.delivered_no_ack + self.got + self.got_no_ack
