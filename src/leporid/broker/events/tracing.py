"""The firehose of one virtual host: a copy of every message that is published or delivered there.

Responsible for turning it on and off, and for what copies say, as in RabbitMQ: they go to the
exchange `amq.rabbitmq.trace` with the key `publish.EXCHANGE` or `deliver.QUEUE`. Must not know how
the engine comes to a message. Invariants: what is published to that exchange is not traced, so that
tracing does not feed itself; nothing is raised to the engine; while an alarm is on, or too many
copies wait, messages are not copied, and counted. It is off after a start.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from leporid.amqp.constants import FLAG_HEADERS
from leporid.amqp.properties import split_properties
from leporid.amqp.tables import Int32, Value, encode_table, octets_of, text_of
from leporid.broker.events.outbox import Notice
from leporid.engine.wire.headers import header_of, number_value, table_value, texts_in

if TYPE_CHECKING:
    from leporid.broker.connection.channel import ChannelState
    from leporid.broker.connection.session import ConnectionState
    from leporid.broker.events.outbox import Outbox
    from leporid.broker.registry import Steps
    from leporid.broker.vhost import VirtualHost

logger = logging.getLogger(__name__)

TRACE_EXCHANGE: Final = "amq.rabbitmq.trace"

NUMBERS: Final = ("delivery_mode", "priority", "timestamp")
"""Properties that are numbers; the others but for headers are texts."""

HEADERS_ALONE: Final = FLAG_HEADERS.to_bytes(2, "big")
"""What properties begin with that are nothing but headers, before the size of these."""

TABLE_SIZE_BYTES: Final = 4

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
"""Of the numbers of tables; a publisher may claim any time of 64 bits."""


class Tracing:
    """Whether one virtual host is traced.

    Args:
        vhost: it.
        outbox: where copies wait.

    Attributes:
        on: whether.
    """

    def __init__(self, vhost: VirtualHost, outbox: Outbox) -> None:
        self.on = False
        self._vhost = vhost
        self._outbox = outbox

    def __repr__(self) -> str:
        return f"<Tracing of {self._vhost.name!r} {'on' if self.on else 'off'}>"

    def setting(self, on: bool, sessions: Iterable[ConnectionState]) -> Steps:
        """Turn it on or off, for channels to come at once, for those that are open in steps."""
        if on != self.on:
            self.on = on
            logger.info("tracing of vhost %r is %s", self._vhost.name, "on" if on else "off")
        for session in tuple(sessions):
            for channel in tuple(session.channels.values()):
                self.begin(channel)
            yield None

    def begin(self, channel: ChannelState) -> None:
        """Have a channel traced, or not, as it is now."""
        channel.engine.trace = ChannelTrace(self._vhost, channel, self._outbox) if self.on else None


class ChannelTrace:
    """What one channel publishes and is delivered; the engine calls it for each message.

    Args:
        vhost: where it is.
        channel: the channel.
        outbox: where copies wait.
    """

    def __init__(self, vhost: VirtualHost, channel: ChannelState, outbox: Outbox) -> None:
        session = channel.session
        self._vhost = vhost
        self._outbox = outbox
        self._broker = session.broker
        self._of_channel: dict[str, Value] = {
            "vhost": vhost.name,
            "connection": session.full_name,
            "channel": Int32(channel.number),
            "user": session.user.name,
        }

    def __repr__(self) -> str:
        return f"<ChannelTrace {self._of_channel}>"

    def admits(self, size: int) -> bool:
        """Whether a message of that size is copied."""
        exchange = self._vhost.find_exchange(TRACE_EXCHANGE)
        if exchange is None or not exchange.in_use:
            return False
        if self._broker.alarms:
            self._outbox.drop(f"the broker is {self._broker.alarm_text()}")
            return False
        return self._outbox.admits(size)

    def published(
        self,
        at_ms: int,
        names: bytes,
        properties: bytes,
        body: bytes,
        keys: Sequence[str],
        queues: Sequence[str],
    ) -> None:
        """A message was published; `keys` are those of CC and BCC."""
        routed: dict[str, Value] = {
            "routed_queues": list(queues),
            "traced_at_ms": at_ms,
            "published_at_ms": at_ms,
        }
        self._copy("publish", None, names, properties, body, keys, routed)

    def delivered(
        self,
        at_ms: int,
        published_ms: int,
        queue: str,
        names: bytes,
        properties: bytes,
        body: bytes,
        redelivered: bool,
    ) -> None:
        """A message of a queue was delivered."""
        how: dict[str, Value] = {
            "redelivered": Int32(redelivered),
            "traced_at_ms": at_ms,
            "published_at_ms": published_ms,
        }
        self._copy("deliver", queue, names, properties, body, (), how)

    def _copy(
        self,
        act: str,
        queue: str | None,
        names: bytes,
        properties: bytes,
        body: bytes,
        keys: Sequence[str],
        more: dict[str, Value],
    ) -> None:
        try:
            exchange, key = _names_in(names)
            target = self._vhost.find_exchange(TRACE_EXCHANGE)
            if exchange == TRACE_EXCHANGE or target is None:
                return
            if queue is not None:
                keys = texts_in(header_of(properties, b"CC"))
            before: dict[str, Value] = {"exchange_name": exchange, "routing_keys": [key, *keys]}
            after = {"node": self._broker.node_name, **self._of_channel, **more}
            headers = b"".join(
                (
                    encode_table(before)[TABLE_SIZE_BYTES:],
                    b"\x0aproperties",
                    _table(properties),
                    encode_table(after)[TABLE_SIZE_BYTES:],
                )
            )
            raw = HEADERS_ALONE + len(headers).to_bytes(TABLE_SIZE_BYTES, "big") + headers
            trace_key = _short(f"{act}.{exchange if queue is None else queue}")
            size = len(names) + len(properties) + len(body)
            notice = Notice(self._vhost, target, trace_key, raw, body, size)
            self._outbox.put(notice)
        except Exception:
            logger.exception("defect: a message was not traced")


def _names_in(names: bytes) -> tuple[str, str]:
    """Return exchange and routing key, two short strings."""
    split = 1 + names[0]
    exchange, key = names[1:split], names[split + 1 :]
    return text_of(exchange), text_of(key)


def _short(key: str) -> str:
    """Cut a key to what a short string has room for."""
    raw = octets_of(key)[:255]
    return raw.decode(errors="ignore")


def _table(properties: bytes) -> bytes:
    """Return properties as a table, with the types that RabbitMQ gives them.

    Headers are not decoded, which may take as long as a publisher likes.
    """
    found: dict[bytes, bytes] = {}
    for name, octets in split_properties(properties).items():
        if name == "headers":
            value = b"F" + octets
        elif name in NUMBERS:
            number = int.from_bytes(octets, "big")
            value = (
                b"I" + octets.rjust(4, b"\0")[-4:]
                if number <= INT32_MAX
                else number_value(min(number, INT64_MAX))
            )
        else:
            value = b"S" + len(octets[1:]).to_bytes(4, "big") + octets[1:]
        found[name.encode()] = value
    return table_value(found)
