"""JSON whose lists may be long: made, and sent, piece by piece.

Responsible for answers of any length that no turn of the loop makes as a whole. Must not know what
is listed. Invariants: a turn makes of an answer at most PIECE_ITEMS items, and stops after
SLICE_SECONDS; an answer that was cut never looks whole; SENT_BYTES and what one turn makes are held
at most.

What is listed is a value as JSON has it, in which a list may be an iterator. It is asked for items
while others have turns in between, so it goes through a copy of what there was, and leaves out what
is gone since; an item that is None is nothing, from an iterator that only looked. An item that is a
`PendingRight` is waited for: what follows depends on it.
"""

from __future__ import annotations

import time
from _json import encode_basestring, make_encoder
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from heapq import merge
from typing import Any, Final, TypeVar

from starlette.responses import Response

from leporid.broker.access.remote_rights import PendingRight
from leporid.management.answer_turns import AnswerTurns
from leporid.management.authorization import answered

# Looked at, or shown, in one turn at most, however fast the clock says that was.
PIECE_ITEMS: Final = 500
# Of one turn: a message that comes meanwhile waits for the rest of it. Shorter ones cost more than
# they gain, as each is a round of the loop.
SLICE_SECONDS: Final = 0.0005
# What turns have made is sent when it is so much, or so old: a call of the system for each turn
# costs more than what it sends.
SENT_BYTES: Final = 32 * 1024
HELD_SECONDS: Final = 0.05
# Sorted, or freed, at a time; a tenth of a millisecond.
RUN: Final = 256

Item = TypeVar("Item")


class Listing(Response):
    """The answer; one that is sent in one go says its length.

    Args:
        turns: gives the turns.
        key: whose they are.
        value: what to list.
        monotonic: seconds.
        ended: called once the answer has ended, in whatever way.
        content_type: what the texts are, if they are `Written`.
        headers: further ones of the answer.
    """

    def __init__(
        self,
        turns: AnswerTurns,
        key: Hashable,
        value: Any,
        monotonic: Callable[[], float] = time.monotonic,
        ended: Callable[[], None] = lambda: None,
        content_type: str = "application/json",
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        self.status_code = 200
        self._head = [(b"content-type", content_type.encode()), *headers]
        self._turns = turns
        self._key = key
        self._texts = texts_of(value)
        self._monotonic = monotonic
        self._ended = ended
        self._pending: PendingRight | None = None
        self.background = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it all, or as much as is possible, and then end the connection."""
        try:
            await self._send(scope, send)
        finally:
            self._ended()

    async def _send(self, scope: Any, send: Any) -> None:
        gone = scope.get("state", {}).get("gone")
        held, since, begun, more = bytearray(), self._monotonic(), False, True
        while more:
            piece, more = self._piece()
            held += piece
            ends = not more or (gone is not None and gone.is_set())
            if ends or self._is_due(len(held), since):
                if not begun:
                    length = [] if more else [(b"content-length", b"%d" % len(held))]
                    head = [*self._head, *length]
                    await send({"type": "http.response.start", "status": 200, "headers": head})
                await send({"type": "http.response.body", "body": bytes(held), "more_body": more})
                held, since, begun = bytearray(), self._monotonic(), True
            if ends:
                return
            if self._pending is not None:
                pending, self._pending = self._pending, None
                await answered(pending)
            await self._turns.next(self._key)

    def _is_due(self, size: int, since: float) -> bool:
        """Say whether what is held goes out: for its size or age, or as others are waited for."""
        return (
            size >= SENT_BYTES
            or self._pending is not None
            or self._monotonic() - since >= HELD_SECONDS
        )

    def _piece(self) -> tuple[bytes, bool]:
        """Make some of it; whether there is more."""
        made: list[str] = []
        until = self._monotonic() + SLICE_SECONDS
        for count, text in enumerate(self._texts, 1):
            if isinstance(text, PendingRight):
                self._pending = text
                return "".join(made).encode("utf-8", "replace"), True
            made.append(text)
            if count >= PIECE_ITEMS or self._monotonic() >= until:
                return "".join(made).encode("utf-8", "replace"), True
        # A text file ends so, and a terminal's prompt begins a line.
        return ("".join(made) + "\n").encode("utf-8", "replace"), False


class Written:
    """A value that is JSON already, a text at a time."""

    def __init__(self, texts: Iterator[str]) -> None:
        self.texts = texts


def texts_of(value: Any) -> Iterator[Any]:
    """Write a value as JSON, one text for each item of what is listed in it.

    Between them, the rights that are waited for.
    """
    text = _plain(value)
    if text is None:
        yield from _pieces(value)
    else:
        yield text


def _pieces(value: Any) -> Iterator[Any]:
    """Write a value in which something is given item by item."""
    if isinstance(value, Written):
        yield from value.texts
    elif isinstance(value, Iterator):
        before = "["
        for item in value:
            if item is None:
                yield ""
            elif isinstance(item, PendingRight):
                yield item
            else:
                # Without a generator of its own for an item that is plain, as most are.
                text = _plain(item)
                if text is None:
                    yield before
                    yield from _pieces(item)
                else:
                    yield before + text
                before = ","
        yield "[]" if before == "[" else "]"
    elif isinstance(value, Mapping):
        before = "{"
        for name, each in value.items():
            yield f"{before}{written(name)}:"
            yield from texts_of(each)
            before = ","
        yield "}"
    else:
        raise TypeError(f"{type(value)} is not JSON")


def _plain(value: Any) -> str | None:
    """Return a value as JSON; None if something in it is given item by item."""
    try:
        return written(value)
    except _NotPlain:
        return None


class _NotPlain(Exception):
    """A value that JSON does not know."""


def _refuse(value: Any) -> Any:
    raise _NotPlain


# As Starlette writes it, but that no value is looked up among those around it: they are trees.
# `JSONEncoder.encode` makes such an encoder for each value, which takes a sixth of its time.
_encode: Final = make_encoder(None, _refuse, encode_basestring, None, ":", ",", False, False, False)


def written(value: Any) -> str:
    """Return a plain value as JSON."""
    return "".join(_encode(value, 0))


def in_order(
    items: Iterable[Item | None], key: Callable[[Item], Any] = lambda item: item
) -> Iterator[Item | None]:
    """Sort items without ever sorting many at a time; None for each that was looked at.

    The rights that are waited for come before all items.
    """
    runs: list[list[Item]] = []
    run: list[Item] = []
    for item in items:
        if item is None or isinstance(item, PendingRight):
            yield item
            continue
        yield None
        run.append(item)
        if len(run) == RUN:
            run.sort(key=key)
            runs.append(run)
            run = []
    run.sort(key=key)
    yield from merge(*map(draining, [*runs, run]), key=key)


def draining(run: list[Item]) -> Iterator[Item]:
    """Go through a list, and empty it on the way: to free many at once would take milliseconds."""
    run.reverse()
    while run:
        yield run.pop()
