"""Hidden queues, whose messages the broker itself republishes."""
