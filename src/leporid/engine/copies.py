"""Rare rewrites of a message's properties: CC and BCC headers, the direct reply-to address.

Plain Python because these messages are rare; it does not know where they are routed. Invariant:
properties that are not named here keep their bytes.
"""

from __future__ import annotations

from dataclasses import replace

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.properties import decode_properties, encode_properties


def copies_of(raw: bytes) -> tuple[bytes, list[str]]:
    """Routing keys in the headers CC and BCC, and the properties without BCC.

    Raises:
        PreconditionFailed: one of them is not an array of strings (RabbitMQ, sender-selected
            distribution).
    """
    properties = decode_properties(raw)
    headers = dict(properties.headers or {})
    keys: list[str] = []
    for name in ("CC", "BCC"):
        if name not in headers:
            continue
        value = headers[name]
        if not isinstance(value, list) or not all(isinstance(key, str) for key in value):
            raise PreconditionFailed(f"invalid '{name}' header: not an array of strings")
        keys.extend(str(key) for key in value)
    if headers.pop("BCC", None) is None:
        return raw, keys
    return encode_properties(replace(properties, headers=headers)), keys


def with_reply_to(raw: bytes, address: str) -> bytes:
    """The same properties with another reply-to address."""
    return encode_properties(replace(decode_properties(raw), reply_to=address))
