"""The numbers and names of AMQP 0-9-1 and of RabbitMQ's extensions to it.

Must not know how anything is encoded. Invariant: every method and reply code has its number here
and nowhere else.
"""

from enum import IntEnum
from typing import Final

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8

FRAME_END: Final = 0xCE
FRAME_MIN_SIZE: Final = 4096
"""Every peer must take frames of this size, and until tuning nothing larger (§4.2.3)."""
FRAME_OVERHEAD: Final = 8
"""Octets of a frame besides its payload: type, channel, size and the end octet."""

SHORTSTR_BYTES_MAX: Final = 255


class ReplyCode(IntEnum):
    """A reply code; its `name` is what RabbitMQ writes at the start of the reply text."""

    REPLY_SUCCESS = 200
    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    FRAME_ERROR = 501
    SYNTAX_ERROR = 502
    COMMAND_INVALID = 503
    CHANNEL_ERROR = 504
    UNEXPECTED_FRAME = 505
    RESOURCE_ERROR = 506
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541


CHANNEL_REPLY_CODES: Final = frozenset({311, 312, 313, 403, 404, 405, 406})
"""The "soft" errors: they close a channel. All others close the connection."""

CLASS_CONNECTION: Final = 10
CLASS_CHANNEL: Final = 20
CLASS_ACCESS: Final = 30
CLASS_EXCHANGE: Final = 40
CLASS_QUEUE: Final = 50
CLASS_BASIC: Final = 60
CLASS_CONFIRM: Final = 85
CLASS_TX: Final = 90

METHOD_IDS: Final[dict[str, tuple[int, int]]] = {
    "connection.start": (10, 10),
    "connection.start-ok": (10, 11),
    "connection.secure": (10, 20),
    "connection.secure-ok": (10, 21),
    "connection.tune": (10, 30),
    "connection.tune-ok": (10, 31),
    "connection.open": (10, 40),
    "connection.open-ok": (10, 41),
    "connection.close": (10, 50),
    "connection.close-ok": (10, 51),
    "connection.blocked": (10, 60),
    "connection.unblocked": (10, 61),
    "connection.update-secret": (10, 70),
    "connection.update-secret-ok": (10, 71),
    "channel.open": (20, 10),
    "channel.open-ok": (20, 11),
    "channel.flow": (20, 20),
    "channel.flow-ok": (20, 21),
    "channel.close": (20, 40),
    "channel.close-ok": (20, 41),
    "access.request": (30, 10),
    "access.request-ok": (30, 11),
    "exchange.declare": (40, 10),
    "exchange.declare-ok": (40, 11),
    "exchange.delete": (40, 20),
    "exchange.delete-ok": (40, 21),
    "exchange.bind": (40, 30),
    "exchange.bind-ok": (40, 31),
    "exchange.unbind": (40, 40),
    "exchange.unbind-ok": (40, 51),  # 51 and not 41: RabbitMQ's numbers.
    "queue.declare": (50, 10),
    "queue.declare-ok": (50, 11),
    "queue.bind": (50, 20),
    "queue.bind-ok": (50, 21),
    "queue.purge": (50, 30),
    "queue.purge-ok": (50, 31),
    "queue.delete": (50, 40),
    "queue.delete-ok": (50, 41),
    "queue.unbind": (50, 50),
    "queue.unbind-ok": (50, 51),
    "basic.qos": (60, 10),
    "basic.qos-ok": (60, 11),
    "basic.consume": (60, 20),
    "basic.consume-ok": (60, 21),
    "basic.cancel": (60, 30),
    "basic.cancel-ok": (60, 31),
    "basic.publish": (60, 40),
    "basic.return": (60, 50),
    "basic.deliver": (60, 60),
    "basic.get": (60, 70),
    "basic.get-ok": (60, 71),
    "basic.get-empty": (60, 72),
    "basic.ack": (60, 80),
    "basic.reject": (60, 90),
    "basic.recover-async": (60, 100),
    "basic.recover": (60, 110),
    "basic.recover-ok": (60, 111),
    "basic.nack": (60, 120),
    "confirm.select": (85, 10),
    "confirm.select-ok": (85, 11),
    "tx.select": (90, 10),
    "tx.select-ok": (90, 11),
    "tx.commit": (90, 20),
    "tx.commit-ok": (90, 21),
    "tx.rollback": (90, 30),
    "tx.rollback-ok": (90, 31),
}

# Property flags of class basic, in the order in which the values follow (§4.2.6.1).
FLAG_CONTENT_TYPE: Final = 1 << 15
FLAG_CONTENT_ENCODING: Final = 1 << 14
FLAG_HEADERS: Final = 1 << 13
FLAG_DELIVERY_MODE: Final = 1 << 12
FLAG_PRIORITY: Final = 1 << 11
FLAG_CORRELATION_ID: Final = 1 << 10
FLAG_REPLY_TO: Final = 1 << 9
FLAG_EXPIRATION: Final = 1 << 8
FLAG_MESSAGE_ID: Final = 1 << 7
FLAG_TIMESTAMP: Final = 1 << 6
FLAG_TYPE: Final = 1 << 5
FLAG_USER_ID: Final = 1 << 4
FLAG_APP_ID: Final = 1 << 3
FLAG_CLUSTER_ID: Final = 1 << 2
FLAG_CONTINUED: Final = 1 << 0
"""Another word of flags follows. Class basic has only 14 properties, so nobody may set it."""
