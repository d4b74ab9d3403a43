"""Queues: their types, their dead letters, and when they go unused."""
