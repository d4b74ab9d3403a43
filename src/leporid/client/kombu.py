"""A transport of kombu, and so of Celery: `leporid://` is `amqp://` with what Leporid does better.

    import leporid.client.kombu

    app = Celery(broker="leporid://guest:guest@127.0.0.1:5672//")

The protocol is spoken by py-amqp, as for `amqp://`. What differs:

- Tasks with a countdown or an `eta` wait in the broker and not in a worker's memory: their messages
  get `x-deliver-at`, so a worker is given them when they are due. `transport_options={"delays":
  False}` leaves them to the workers.
- Publishes are confirmed, unless `transport_options={"confirm_publish": False}` says otherwise.
- kombu knows that `basic.qos` means what it does in RabbitMQ, so that Celery limits a channel and
  not each consumer.

kombu finds transports by a table in itself and has no entry points for them; importing this module
adds `leporid` and `leporids` (TLS) to it. Must not know Celery beyond its header `eta`. Invariant:
on a broker that is no Leporid everything is as with `amqp://`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from kombu.transport import TRANSPORT_ALIASES, pyamqp

ETA: Final = "eta"
DELIVER_AT: Final = "x-deliver-at"
PRODUCT: Final = "Leporid"
OWN_OPTIONS: Final = ("delays",)


class _Channel(pyamqp.Channel):
    """A channel whose messages wait in the broker until they are due."""

    def prepare_message(
        self,
        body: Any,
        priority: int | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: dict[str, Any] | None = None,
        properties: dict[str, Any] | None = None,
        **other: Any,
    ) -> Any:
        """Make a message; one that has an `eta` in the future is told when to be delivered."""
        moment = due(headers) if self.connection.holds_delays else None
        if moment is not None:
            headers = {**(headers or {}), DELIVER_AT: moment}
        return super().prepare_message(
            body, priority, content_type, content_encoding, headers, properties, **other
        )


class _Connection(pyamqp.Connection):
    """A connection that knows whether its broker holds messages back.

    Args:
        delays: whether to have it do so.
        arguments: as py-amqp's.
    """

    Channel = _Channel

    def __init__(self, *arguments: Any, delays: bool = True, **options: Any) -> None:
        self._delays = delays
        super().__init__(*arguments, **options)

    @property
    def holds_delays(self) -> bool:
        """Whether messages with an `eta` wait in the broker."""
        properties = self.server_properties or {}
        return self._delays and properties.get("product") == PRODUCT


class _Transport(pyamqp.Transport):
    """The transport `leporid`."""

    Connection = _Connection
    driver_name = "leporid"

    def establish_connection(self) -> Any:
        """Connect, with confirms unless the options have none."""
        options = self.client.transport_options or {}
        self.client.transport_options = {"confirm_publish": True, **options}
        return super().establish_connection()

    def qos_semantics_matches_spec(self, connection: Any) -> bool:
        """Say no: `global` means what it does in RabbitMQ, the whole channel."""
        if (connection.server_properties or {}).get("product") == PRODUCT:
            return False
        return bool(super().qos_semantics_matches_spec(connection))


class _TlsTransport(_Transport):
    """The transport `leporids`."""

    def __init__(self, client: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(client, *arguments, **options)
        if not self.client.ssl:
            self.client.ssl = True


def due(headers: dict[str, Any] | None) -> int | None:
    """Return when a message is due, in milliseconds since 1970; None: at once, or nobody knows.

    Celery's header `eta` is a moment in ISO 8601, with its offset from UTC.
    """
    text = (headers or {}).get(ETA)
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    now = datetime.now(UTC)
    return int(moment.timestamp() * 1000) if moment > now else None


TRANSPORT_ALIASES["leporid"] = "leporid.client.kombu:_Transport"
TRANSPORT_ALIASES["leporids"] = "leporid.client.kombu:_TlsTransport"
