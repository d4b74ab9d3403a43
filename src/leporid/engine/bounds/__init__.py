"""Bounds of what a peer may cause: time in slices, work in jobs, memory in accounts."""
