"""Methods as a client says them, with arguments that the broker knows.

Must not know what becomes of them. Invariant: every method of the protocol comes up.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import get_annotations
from typing import Any, Final, get_origin

from fuzz.drawing import ARGUMENTS, KINDS, NAMES, Drawing
from tests.engine.frames import HEADER, frame

import leporid.amqp.methods
from leporid.amqp import fields
from leporid.amqp.constants import FRAME_METHOD
from leporid.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicReject,
    ChannelClose,
    ChannelOpen,
    ConfirmSelect,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)

METHODS: Final[tuple[type[Method], ...]] = tuple(
    made
    for name in leporid.amqp.methods.__all__
    if isinstance(made := getattr(leporid.amqp.methods, name), type)
    and issubclass(made, Method)
    and made is not Method
)
# What an open channel is told; the others are refused, or are the handshake's.
_USUAL: Final[tuple[type[Method], ...]] = (
    *(BasicAck, BasicCancel, BasicConsume, BasicConsume, BasicGet, BasicNack, BasicPublish),
    *(BasicPublish, BasicQos, BasicRecover, BasicReject, ChannelClose, ChannelOpen, ConfirmSelect),
    *(ExchangeBind, ExchangeDeclare, ExchangeDelete, ExchangeUnbind, QueueBind, QueueDeclare),
    *(QueueDeclare, QueueDelete, QueuePurge, QueueUnbind, TxCommit, TxRollback, TxSelect),
)
FRAME_MAX: Final = 4096


def login(user: str = "guest") -> bytes:
    """What a client says before it opens a channel."""
    methods = (
        ConnectionStartOk(
            client_properties={
                "capabilities": {
                    "consumer_cancel_notify": True,
                    "connection.blocked": True,
                    "basic.nack": True,
                }
            },
            mechanism="PLAIN",
            response=f"\0{user}\0{user}".encode(),
            locale="en_US",
        ),
        ConnectionTuneOk(channel_max=8, frame_max=FRAME_MAX, heartbeat=0),
        ConnectionOpen(virtual_host="/"),
    )
    return HEADER + b"".join(frame(FRAME_METHOD, 0, each.encode()) for each in methods)


def every_method() -> Iterator[Method]:
    """One of each, with arguments of its types."""
    drawing = Drawing(1)
    for made in METHODS:
        yield drawn(made, drawing)


def a_method(drawing: Drawing) -> Method:
    """One that a client is likely to say."""
    return drawn(drawing.one_of(METHODS if drawing.below(16) == 0 else _USUAL), drawing)


def drawn(made: type[Method], drawing: Drawing) -> Method:
    """A method of that kind."""
    values: dict[str, Any] = {}
    for name, annotation in get_annotations(made).items():
        if get_origin(annotation) is not None and not hasattr(annotation, "__metadata__"):
            continue  # reserved
        kind = annotation.__metadata__[0]
        values[name] = _drawn_value(name, kind, drawing)
    return made(**values)


def _drawn_value(name: str, kind: fields.FieldType, drawing: Drawing) -> Any:
    if kind is fields.BIT:
        return drawing.below(4) == 0
    if kind is fields.ARGUMENTS:
        return drawing.table(ARGUMENTS)
    if kind is fields.SHORTSTR:
        return drawing.one_of(KINDS if name == "type" else NAMES)
    if kind is fields.LONGSTR:
        return drawing.octets(20)
    bits = {fields.OCTET: 8, fields.SHORT: 16, fields.LONG: 32, fields.LONGLONG: 64}[kind]
    small = drawing.below(5) if drawing.below(4) else drawing.number()
    return small % (1 << bits)
