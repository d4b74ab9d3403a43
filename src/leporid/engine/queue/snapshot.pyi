# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of snapshot.pyx."""

from leporid.engine.queue.queue import Queue

def snapshot(queue: Queue) -> list[tuple[str, str, bytes, bytes]]:
    """Ready messages in order of arrival: (exchange, routing key, properties, body)."""
