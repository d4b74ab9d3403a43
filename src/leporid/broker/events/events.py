"""Events: what changes in the broker, told in messages, as RabbitMQ's event exchange does.

Responsible for the routing key and the headers of each event; the body is empty. They go to the
topic exchange `amq.rabbitmq.event` of one virtual host. Must not know how messages get there
(`outbox`). Invariants: while nothing is bound to the exchange, an event costs one test; nothing is
raised to who tells; while an alarm is on, only alarms are told, so that a queue of events does not
keep it on.

Names of fields are RabbitMQ's. What there is not here, such as process numbers, is left out or, in
`pid` and `connection`, the name that the management API has for the same thing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from leporid.amqp.json_values import table_of
from leporid.amqp.properties import Properties
from leporid.amqp.tables import Value
from leporid.broker.events.actor import actor
from leporid.broker.events.outbox import Notice, Outbox

if TYPE_CHECKING:
    from leporid.broker.connection.channel import ChannelState
    from leporid.broker.connection.session import ConnectionState
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.exchange.types import Binding
    from leporid.broker.policy.policies import Governed, Policy
    from leporid.broker.queue.queue import ConsumerState, QueueState
    from leporid.broker.vhost import VirtualHost
    from leporid.engine.connection.consumer import Consumer
    from leporid.engine.engine import Engine

logger = logging.getLogger(__name__)

BY_ITSELF: Final = "rmq-internal"
"""Who does what the broker does by itself, as in RabbitMQ, where a user may have this name, too."""
EVENT_EXCHANGE: Final = "amq.rabbitmq.event"

PERSISTENT: Final = 2

Fields = dict[str, Value]


class Events:
    """Tells events, if somebody wants to know.

    Args:
        engine: says what time it is.
        vhost_name: where the exchange is; empty: nowhere.
        node: the name of the broker.
        alarms: those that are on.

    Attributes:
        outbox: where events wait.
    """

    def __init__(self, engine: Engine, vhost_name: str, node: str, alarms: set[str]) -> None:
        self.vhost_name = vhost_name
        self.outbox = Outbox(engine, "events")
        self._engine = engine
        self._node = node
        self._alarms = alarms
        self._vhost: VirtualHost | None = None
        self._exchange: ExchangeState | None = None

    def __repr__(self) -> str:
        return f"<Events to vhost {self.vhost_name!r} {'wanted' if self.wanted else 'unwanted'}>"

    def begin(self, vhost: VirtualHost, exchange: ExchangeState) -> None:
        """Publish to that exchange from now on."""
        self._vhost, self._exchange = vhost, exchange

    @property
    def wanted(self) -> bool:
        """Whether something is bound to the exchange."""
        return self._exchange is not None and bool(self._exchange.outgoing)

    def tell(self, key: str, fields: Callable[[], Mapping[str, Value]]) -> None:
        """Publish one event.

        Args:
            key: the routing key.
            fields: gives its headers; called only if somebody wants to know.
        """
        exchange, vhost = self._exchange, self._vhost
        if exchange is None or not exchange.outgoing or vhost is None or exchange.deleted:
            return
        if self._alarms and not key.startswith("alarm."):
            self.outbox.drop("an alarm is on")
            return
        try:
            now_ms = self._engine.clock.wall_ms
            headers: Fields = {**fields(), "timestamp_in_ms": now_ms}
            size = sum(len(str(each)) for each in headers.values())
            if self.outbox.admits(size):
                properties = Properties(
                    headers=headers, delivery_mode=PERSISTENT, timestamp=now_ms // 1000
                )
                self.outbox.put(Notice(vhost, exchange, key, properties, b"", size))
        except Exception:
            logger.exception("defect: the event %s was not told", key)

    def _act(self, key: str, fields: Fields) -> None:
        """Tell what somebody did."""
        user = actor() or BY_ITSELF
        self.tell(key, lambda: {**fields, "user_who_performed_action": user})

    # ------------------------------------------------------------- what is in virtual hosts

    def queue_created(self, queue: QueueState) -> None:
        """A queue was declared."""
        if self.wanted:
            self._act("queue.created", _queue(queue))

    def queue_deleted(self, queue: QueueState) -> None:
        """A queue is gone."""
        if self.wanted:
            self._act("queue.deleted", {"name": queue.name, "vhost": queue.vhost})

    def exchange_created(self, vhost: str, exchange: ExchangeState) -> None:
        """An exchange was declared."""
        if self.wanted:
            self._act(
                "exchange.created",
                {
                    "name": exchange.name,
                    "vhost": vhost,
                    "type": exchange.type,
                    "durable": exchange.durable,
                    "auto_delete": exchange.auto_delete,
                    "internal": exchange.internal,
                    "arguments": dict(exchange.arguments),
                    "policy": _policy(exchange.governed),
                },
            )

    def exchange_deleted(self, vhost: str, name: str) -> None:
        """An exchange is gone."""
        if self.wanted:
            self._act("exchange.deleted", {"name": name, "vhost": vhost})

    def binding_created(self, vhost: str, binding: Binding) -> None:
        """A binding was made."""
        if self.wanted:
            self._act("binding.created", _binding(vhost, binding))

    def binding_deleted(self, vhost: str, binding: Binding) -> None:
        """A binding is gone."""
        if self.wanted:
            self._act("binding.deleted", _binding(vhost, binding))

    # ------------------------------------------------------------- clients

    def connection_created(self, session: ConnectionState) -> None:
        """A connection has opened its virtual host."""
        if self.wanted and not session.internal:
            self._act("connection.created", self._connection(session))

    def connection_closed(self, session: ConnectionState) -> None:
        """A connection that was open is gone."""
        if self.wanted and not session.internal:
            own: Fields = {
                "name": session.full_name,
                "pid": session.full_name,
                "node": self._node,
                "client_properties": dict(session.client_properties),
            }
            self.tell("connection.closed", lambda: own)

    def channel_created(self, channel: ChannelState) -> None:
        """A channel was opened."""
        if self.wanted and not channel.session.internal:
            session = channel.session
            user = session.user.name
            name = _channel_name(channel)
            self.tell(
                "channel.created",
                lambda: {
                    "name": name,
                    "pid": name,
                    "connection": session.full_name,
                    "number": channel.number,
                    "user": user,
                    "vhost": session.vhost.name,
                    "user_who_performed_action": user,
                },
            )

    def channel_closed(self, channel: ChannelState) -> None:
        """A channel is gone."""
        if self.wanted and not channel.session.internal:
            name, user = _channel_name(channel), channel.session.user.name
            self.tell("channel.closed", lambda: {"pid": name, "user_who_performed_action": user})

    def consumer_created(self, consumer: ConsumerState, channel: ChannelState) -> None:
        """A consumer was made."""
        if self.wanted:
            engine = consumer.consumer
            self._act(
                "consumer.created",
                {
                    **_consumer(consumer, channel),
                    "exclusive": consumer.exclusive,
                    "ack_required": engine is None or not engine.no_ack,
                    "prefetch_count": _prefetch(engine) or channel.engine.prefetch_count,
                    "arguments": dict(consumer.arguments),
                },
            )

    def consumer_deleted(self, consumer: ConsumerState, channel: ChannelState) -> None:
        """A consumer has ended."""
        if self.wanted:
            self._act("consumer.deleted", _consumer(consumer, channel))

    def login(self, session: ConnectionState, name: str, *, refused: str | None = None) -> None:
        """Somebody logged in over AMQP, or was refused."""
        if self.wanted:
            ends = session.endpoints
            fields: Fields = {"name": name, "auth_mechanism": session.mechanism}
            fields |= {"connection_name": session.full_name, "connection_type": "network"}
            if ends is not None:
                fields |= {
                    "host": ends.host,
                    "peer_host": ends.peer_host,
                    "peer_port": ends.peer_port,
                    "protocol": "{0,9,1}",
                    "ssl": ends.tls,
                }
            if refused is not None:
                fields["error"] = refused
            outcome = "success" if refused is None else "failure"
            self.tell(f"user.authentication.{outcome}", lambda: fields)

    def _connection(self, session: ConnectionState) -> Fields:
        ends = session.endpoints
        fields: Fields = {
            "name": session.full_name,
            "pid": session.full_name,
            "node": self._node,
            "user": session.user.name,
            "vhost": session.vhost.name,
            "protocol": "{0,9,1}",
            "type": "network",
            "auth_mechanism": session.mechanism,
            "channel_max": session.channel_max,
            "frame_max": session.connection.output.frame_max,
            "timeout": session.heartbeat_s,
            "connected_at": session.connected_at_ms,
            "client_properties": dict(session.client_properties),
        }
        if ends is not None:
            fields |= {
                "host": ends.host,
                "port": ends.port,
                "peer_host": ends.peer_host,
                "peer_port": ends.peer_port,
                "ssl": ends.tls,
            }
        return fields

    # ------------------------------------------------------------- definitions

    def changed(self, key: str, **fields: Value) -> None:
        """A definition was set or taken away: of a user, a permission, a virtual host, a limit."""
        if self.wanted:
            self._act(key, fields)

    def parameter_set(self, name: str, value: Any) -> None:
        """A global parameter was set, to something that JSON has."""
        if not self.wanted:
            return
        fields: Fields = {"name": name, "component": "global"}
        try:
            fields |= table_of({"value": value})
        except ValueError:
            logger.debug("AMQP has no such value: that of the global parameter '%s'", name)
        self._act("parameter.set", fields)

    def parameter_cleared(self, name: str) -> None:
        """A global parameter is gone."""
        self.changed("parameter.cleared", name=name, component="global")

    def policy_set(self, vhost: str, policy: Policy) -> None:
        """A policy was set."""
        if self.wanted:
            self._act(
                "policy.set",
                {
                    "name": policy.name,
                    "vhost": vhost,
                    "pattern": policy.pattern,
                    "apply-to": policy.apply_to,
                    "priority": policy.priority,
                    "definition": dict(policy.definition),
                },
            )

    def vhost_set(self, vhost: VirtualHost, *, new: bool) -> None:
        """A virtual host was made, or described anew."""
        if self.wanted:
            self._act(
                "vhost.created" if new else "vhost.updated",
                {
                    "name": vhost.name,
                    "description": vhost.description,
                    "tags": list(vhost.tags),
                    "default_queue_type": vhost.default_queue_type or "undefined",
                    "tracing": vhost.tracing.on,
                    "cluster_state": {self._node: "running"},
                },
            )

    def limits_set(self, vhost: VirtualHost) -> None:
        """The limits of a virtual host are others."""
        if self.wanted:
            limits: Fields = dict(vhost.limits)
            self._act("vhost.limits.set", {**limits, "name": "limits", "vhost": vhost.name})

    def alarm(self, reason: str, *, on: bool) -> None:
        """The broker is low on memory or disk, or is not any more."""
        fields: Fields = {"node": self._node, "source": reason}
        self.tell("alarm.set" if on else "alarm.cleared", lambda: fields)


def _queue(queue: QueueState) -> Fields:
    owner: Any = queue.owner
    return {
        "name": queue.name,
        "vhost": queue.vhost,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "arguments": dict(queue.arguments),
        "owner_pid": "" if owner is None else owner.full_name,
    }


def _prefetch(consumer: Consumer | None) -> int:
    return 0 if consumer is None else consumer.prefetch


def _policy(governed: Governed) -> str:
    return "" if governed.policy is None else governed.policy.name


def _binding(vhost: str, binding: Binding) -> Fields:
    return {
        "source_name": binding.source,
        "source_kind": "exchange",
        "destination_name": binding.destination,
        "destination_kind": binding.destination_kind,
        "routing_key": binding.key,
        "arguments": dict(binding.arguments),
        "vhost": vhost,
    }


def _channel_name(channel: ChannelState) -> str:
    return f"{channel.session.full_name} ({channel.number})"


def _consumer(consumer: ConsumerState, channel: ChannelState) -> Fields:
    return {
        "consumer_tag": consumer.tag,
        "channel": _channel_name(channel),
        "queue": consumer.queue.name,
        "vhost": consumer.queue.vhost,
    }
