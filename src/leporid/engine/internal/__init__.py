"""Queues that nobody declares: what waits in them is sent on by the broker itself."""
