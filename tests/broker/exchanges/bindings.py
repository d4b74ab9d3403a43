"""Short ways to make bindings and to ask a router, for the tests of the exchange types."""

from collections.abc import Mapping

from leporid.amqp.tables import Value
from leporid.broker.exchanges import Binding, Router


def binding(
    key: str = "", arguments: Mapping[str, Value] | None = None, queue: str = "q"
) -> Binding:
    return Binding("x", queue, "queue", key, arguments or {})


def queues(router: Router, key: str = "", headers: Mapping[str, Value] | None = None) -> list[str]:
    """The destinations that a message meets, in the router's order."""
    return [each.destination for each in router.match(key, headers or {})]
