"""Streams: each a log of its own, read by offset, with retention."""
