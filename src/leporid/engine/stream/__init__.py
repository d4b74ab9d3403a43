"""Streams: logs of their own, read by offset."""
