"""Rare readings and rewrites of a message's properties: CC and BCC, delays, expiration.

Plain Python because these messages are rare; it does not know where they are routed. Invariant:
properties that are not named here keep their bytes.
"""

from __future__ import annotations

import re

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import decode_table
from leporid.amqp.values import erlang_text, type_name
from leporid.engine.wire.headers import header_of, texts_in, with_headers


class DelayTooLong(PreconditionFailed):
    """A message would have to wait for longer than anything may."""


def copies_of(raw: bytes) -> tuple[bytes, list[str]]:
    """Routing keys in the headers CC and BCC, and the properties without BCC.

    Raises:
        PreconditionFailed: one of them is not an array (RabbitMQ, sender-selected distribution).
            What in an array is not a string counts for nothing, as in RabbitMQ.
    """
    keys: list[str] = []
    for name in ("CC", "BCC"):
        value = header_of(raw, name.encode())
        if value is None:
            continue
        if value[:1] != b"A":
            raise PreconditionFailed(
                f'invalid message: {{unacceptable_type_in_header,"{name}",{_type_of(value)}}}'
            )
        keys += texts_in(value)
    if header_of(raw, b"BCC") is None:
        return raw, keys
    return with_headers(raw, {b"BCC": None}), keys


def _type_of(value: bytes) -> str:
    """The name of an encoded value's type. Its content may be large, and does not matter."""
    content = bytes(4) if value[:1] in (b"S", b"x", b"F") else value[1:]
    field = b"\x01v" + value[:1] + content
    return type_name(decode_table(len(field).to_bytes(4, "big") + field)[0]["v"])


def invalid_moment(table: bytes, name: str, too_far: bool) -> PreconditionFailed:
    """The fault for a header x-deliver-at that is no moment, or one or x-delay too far away."""
    headers, _ = decode_table(len(table).to_bytes(4, "big") + table)
    value = headers[name]
    given = f"invalid header '{name}': {type_name(value)} {erlang_text(value)}"
    if too_far:
        return DelayTooLong(f"{given} is more than ten years from now")
    if str(value).lstrip("+").isdecimal():
        return PreconditionFailed(f"{given} is seconds since 1970: milliseconds are needed")
    return PreconditionFailed(
        f"{given} is neither a timestamp nor a number of milliseconds since 1970"
    )


def invalid_expiration(raw: bytes) -> PreconditionFailed:
    """The fault for a property expiration that is no time to live, in RabbitMQ's words."""
    text = raw.decode("utf-8", "replace")
    match = re.match(r"[+-]?\d+", text)
    if match is None:
        reason = "no_integer"
    elif match.end() < len(text):
        reason = f'{{leftover_string,"{text[match.end() :]}"}}'
    elif int(match[0]) < 0:
        reason = f"{{value_negative,{int(match[0])}}}"
    else:
        reason = f"{{value_too_large,{int(match[0])}}}"
    return PreconditionFailed(f"invalid expiration '{text}': {reason}")
