"""Field tables and properties: Python's reading of them, and the engine's.

An input is the content of a table, without its size. The refusals are `SyntaxFault` and, in the
engine, `ValueError`. What is read must be written as it was, and both readings must agree: a
message that the engine lets in is one that the rules can take apart later, when there is nobody to
tell.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Final

from fuzz.drawing import ARGUMENTS, HEADERS, Drawing

from leporid.amqp.errors import PreconditionFailed, SyntaxFault
from leporid.amqp.properties import Properties, decode_properties, encode_properties
from leporid.amqp.tables import MAX_TABLE_BYTES, Value, decode_table, encode_table
from leporid.amqp.values import comparable, erlang_text, typed
from leporid.engine.publishing.interceptor import Interceptor
from leporid.engine.selectors.selector import Selector
from leporid.engine.selectors.tags import Tags
from leporid.engine.wire.due_time import due_ms_of, past_of
from leporid.engine.wire.headers import (
    Deaths,
    array_value,
    header_of,
    with_headers,
    with_reply_to,
)
from leporid.engine.wire.rewrites import copies_of
from leporid.engine.wire.text import text_of
from leporid.filters.compiler import program

_SELECTOR: Final = Selector(program("a = 1 OR \"x-tag\" LIKE 'a%_' OR n > 5 OR b IS NULL").code)
_TAGS: Final = Tags([b"a", b"b"])
_INTERCEPTOR: Final = Interceptor(timestamp="overwrite", message_id="keep", random_bytes=bytes)
_NOW_MS: Final = 1_700_000_000_000


def one(data: bytes) -> None:
    """Read a table, as such and as the headers of a message."""
    table = struct.pack(">I", len(data)) + data
    read = _read(table)
    if read is not None:
        _check_values(read)
        written = encode_table(read)
        assert encode_table(decode_table(written)[0]) == written
        assert decode_table(written)[0] == read
    _engine_agrees(b"\x20\x00" + table, known=read is not None)
    # The same octets as properties, whatever their flags.
    _engine_agrees(data, known=None)


def _read(table: bytes) -> dict[str, Value] | None:
    try:
        read, end = decode_table(table)
    except SyntaxFault:
        return None
    assert end == len(table)
    return read


def _check_values(read: dict[str, Value]) -> None:
    for value in read.values():
        hash(comparable(value))
        typed(value)
        erlang_text(value).encode()
        encoded = encode_table({"": value})[5:]
        text_of(encoded).encode()
        json.loads(text_of(encoded, True))


def _engine_agrees(properties: bytes, *, known: bool | None) -> None:
    """What the engine takes, Python takes; and the other way round."""
    try:
        decoded: Properties | None = decode_properties(properties)
    except SyntaxFault:
        decoded = None
    if known is not None:
        assert known == (decoded is not None)
    _SELECTOR.outcome("e", "k", properties)
    _TAGS.outcome("e", "k", properties)
    try:
        past_of(properties, True)
    except ValueError:
        if decoded is not None and len(properties) < MAX_TABLE_BYTES:
            # Only the flag that nobody uses, and that the engine refuses.
            assert properties[1] & 2, "the engine refuses what Python reads"
        return
    assert decoded is not None, "the engine takes what Python refuses"
    _rewrite(properties)


def _rewrite(properties: bytes) -> None:
    """What is done with the properties of a message must leave properties."""
    for of_delay in (True, False):
        decode_properties(past_of(properties, of_delay))
    decode_properties(_INTERCEPTOR.intercepted(properties, _NOW_MS))
    if decode_properties(properties).reply_to is not None:
        decode_properties(with_reply_to(properties, "reply"))
    deaths = Deaths(header_of(properties, b"x-death"), "q", "expired")
    known = array_value([deaths.own or b"V", deaths.others])
    changed = with_headers(properties, {b"x-death": known}, expires=False)
    if len(changed) <= MAX_TABLE_BYTES:
        decode_properties(changed)
    try:
        decode_properties(copies_of(properties)[0])
    except PreconditionFailed:
        pass
    try:
        due_ms_of(properties, _NOW_MS)
    except ValueError:
        pass


def seeds() -> Iterator[bytes]:
    """Tables of every type, and properties."""
    drawing = Drawing(1)
    for keys in (ARGUMENTS, HEADERS):
        for _ in range(30):
            yield encode_table(drawing.table(keys))[4:]
    for _ in range(30):
        yield drawing.properties()
    yield encode_properties(Properties(headers={"CC": ["a", "b"], "BCC": ["c"]}))
    yield encode_table({"CC": ["a"], "BCC": [1, "x"], "x-delay": 5, "x-deliver-at": 10**13})[4:]
