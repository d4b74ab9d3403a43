"""Queues: their entries and limits, who takes them, and what waits in those that nobody sees."""
