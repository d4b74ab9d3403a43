"""Queues: entries, limits, expiry, priorities, dead-lettering, browsing, leases."""
