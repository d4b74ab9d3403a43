"""Counters of several queues together: the messages in them, and what consumers were given.

Responsible for the names of these counters. A queue adds to those that it is counted in, so that
nobody has to go through the queues; who publishes, delivers or settles does, too. It must not know
queues or consumers. Invariant: `Totals` are as of now; what it counts as published, and all
`DeliveryCounts`, only grow, and a message that is delivered again counts again.
"""


cdef class Totals:
    """Messages in several queues together, as of now."""

    def __init__(self, Totals backlogs=None):
        self.backlogs = backlogs

    def __repr__(self):
        return f"<Totals ready={self.ready} unacked={self.unacked} held={self.held}>"


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
