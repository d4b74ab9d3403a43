"""Messages and sources for tests of filter classes."""

from collections.abc import Iterable

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


def batch_frame(messages: Iterable[tuple[bytes, bytes, bytes]]) -> bytes:
    """The frame of a batch, as the engine makes it of what it keeps (`VerdictQueue.batch`)."""
    given = list(messages)
    sizes = b"".join(frames.SIZES.pack(*map(len, message)) for message in given)
    payload = frames.COUNT.pack(len(given)) + sizes + b"".join(map(b"".join, given))
    return frames.HEAD.pack(frames.BATCH, len(payload)) + payload


def numbers(*wanted: int) -> bytes:
    """A batch of messages, each with a number in its header n."""
    return batch_frame([message({"n": number}) for number in wanted])


def judging(line: str) -> bytes:
    """A class whose method does that."""
    return f"class Filter:\n    def match(self, message):\n        {line}\n".encode()
