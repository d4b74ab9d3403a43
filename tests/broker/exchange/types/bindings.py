"""Short ways to make bindings and to ask a router, for the tests of the exchange types."""

from collections.abc import Mapping

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value
from leporid.broker.exchange.types import Binding, RoutedMessage, Router


def binding(
    key: str = "", arguments: Mapping[str, Value] | None = None, queue: str = "q"
) -> Binding:
    return Binding("x", queue, "queue", key, arguments or {})


def message(*keys: str, headers: Mapping[str, Value] | None = None) -> RoutedMessage:
    """A message with these routing keys, or with an empty one."""
    raw = encode_properties(Properties(headers=dict(headers))) if headers else b""
    return RoutedMessage(keys or ("",), raw)


def queues(router: Router, key: str = "", headers: Mapping[str, Value] | None = None) -> list[str]:
    """The destinations that a message meets, in the router's order."""
    return [each.destination for each in router.match(message(key, headers=headers))]
