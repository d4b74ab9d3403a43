"""Frames of filter classes: what the process of one sends, and what it is sent.

An input begins with which end reads it:

    a   the broker reads answers from a process, which may be anything
    q   the process reads requests
    b   a batch as the process reads it: messages of which everything is looked at

The refusals of the broker are `FilterFailure`. The process trusts the broker: it may end with what
a cut frame raises, but must not give a verdict that nobody asked for.
"""

from __future__ import annotations

import asyncio
import io
import struct
from collections.abc import Iterator
from typing import Any, Final, cast

from tests.filterserver.asked import batch_frame

from leporid.amqp.errors import SyntaxFault
from leporid.amqp.properties import Properties, encode_properties
from leporid.filterserver import child, frames
from leporid.filterserver.host import FilterFailure, FilterProcess, ProcessLimits
from leporid.filterserver.message import messages_of

MESSAGES: Final = 3
_SOURCE: Final = (
    b"class Filter:\n    def match(self, message):\n        return bool(message.body)\n"
)
_LIMITS: Final = ProcessLimits(batch_seconds=0.001, load_seconds=0.001)
# What a frame that is cut, or says of itself what is not so, may raise in the process.
_CUT: Final = (struct.error, IndexError, UnicodeDecodeError, SyntaxFault, AssertionError)


def one(data: bytes) -> None:
    """Read what stands behind the first octet, as its reader does."""
    if data[:1] == b"a":
        asyncio.run(_answers(data[1:]))
    elif data[:1] == b"q":
        _requests(data[1:])
    else:
        _batch(data[1:])


# ------------------------------------------------------------------ the broker's end


class _Pipe:
    """The broker's end of a pipe that takes everything."""

    def write(self, _data: bytes) -> None:
        pass

    async def drain(self) -> None:
        pass


class _Process:
    """A process that has said all that it will, and has ended."""

    pid = 0

    def __init__(self, said: bytes) -> None:
        self.to = _Pipe()
        self.answers = asyncio.StreamReader()
        self.answers.feed_data(said)
        self.answers.feed_eof()

    def kill(self) -> None:
        pass

    async def wait(self) -> int:
        return 1


async def _answers(said: bytes) -> None:
    asked = FilterProcess(cast("Any", _Process(said)), _LIMITS)
    try:
        for count in range(MESSAGES):
            verdicts = await asked.judge(batch_frame([]), count)
            assert len(verdicts) == count
            assert set(verdicts) <= {0, 1}
    except FilterFailure as failure:
        assert str(failure).encode("utf-8", "surrogatepass")


# ------------------------------------------------------------------ the process's end


def _requests(said: bytes) -> None:
    """Requests, each with a right head; a class of the input's own is not run."""
    answers = io.BytesIO()
    judge = child.load("Filter", _SOURCE)
    try:
        name, source = frames.loaded(said)
        name.encode()
        assert len(source) <= len(said)
    except _CUT:
        pass
    try:
        made = child.verdicts(judge, said)
    except _CUT:
        return
    answers.write(frames.answer_frame(frames.VERDICTS, 0, made))
    assert set(made) <= {0, 1}
    # Fewer are an answer that is none, to the broker, which has asked about as many as it says.
    assert len(made) <= int.from_bytes(said[:4], "little")


def _batch(payload: bytes) -> None:
    try:
        for message in messages_of(payload):
            repr(message)
            _look(message)
    except _CUT:
        pass


def _look(message: Any) -> None:
    assert isinstance(message.exchange, str)
    assert isinstance(message.routing_key, str)
    assert isinstance(message.body, bytes)
    assert message.tag is None or isinstance(message.tag, str)
    assert (message.properties.headers or {}) == message.headers


# ------------------------------------------------------------------ seeds


def seeds() -> Iterator[bytes]:
    """What both ends say to each other."""
    some = [
        (b"\1e\1k", encode_properties(Properties(headers={"x-tag": "a", "n": 1})), b"body"),
        (b"\0\0", encode_properties(Properties(content_type="t", delivery_mode=2)), b""),
    ]
    batch = batch_frame(some)[frames.HEAD.size :]
    yield b"b" + batch
    yield b"q" + batch
    yield b"q" + frames.load_frame("Filter", _SOURCE)[frames.HEAD.size :]
    verdicts = b"".join(
        frames.answer_frame(frames.VERDICTS, number, b"\1" * number) for number in range(MESSAGES)
    )
    yield b"a" + verdicts
    yield b"a" + frames.answer_frame(frames.FAILED, 0, "Traceback: é".encode())
    yield b"a" + frames.answer_frame(frames.READY, 0)
    yield b"a" + struct.pack("<BIQ", frames.VERDICTS, 1 << 31, 0)
