"""Messages and sources for tests of filter classes."""

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value
from leporid.filterserver import frames

GREATER = b"""
class Filter:
    def match(self, message):
        return message.headers["n"] > 5
"""


def message(
    headers: dict[str, Value] | None = None, body: bytes = b"", **properties: object
) -> tuple[bytes, bytes, bytes]:
    """What stands in a record: names, properties, body."""
    made = Properties(headers=headers, **properties)  # type: ignore[arg-type]
    return b"\6orders\4paid", encode_properties(made), body


def numbers(*wanted: int) -> bytes:
    """A batch of messages, each with a number in its header n."""
    return frames.batch_frame([message({"n": number}) for number in wanted])


def judging(line: str) -> bytes:
    """A class whose method does that."""
    return f"class Filter:\n    def match(self, message):\n        {line}\n".encode()
