"""The methods of classes access, exchange and queue: what exists and how it is joined.

Must not know when which is allowed. Field order is the order on the wire; `reserved_1` was once
the ticket that access.request gave out.
"""

from dataclasses import field
from typing import ClassVar

from leporid.amqp.fields import Bit, Long, Short, ShortStr, Table
from leporid.amqp.methods.declaration import Method, method


@method("access.request")
class AccessRequest(Method):
    """An old client asks for a ticket."""

    realm: ShortStr = "/data"
    exclusive: Bit = False
    passive: Bit = True
    active: Bit = True
    write: Bit = True
    read: Bit = True


@method("access.request-ok")
class AccessRequestOk(Method):
    """The ticket, which nobody looks at."""

    ticket: Short = 1


@method("exchange.declare")
class ExchangeDeclare(Method):
    """Creates an exchange, or checks that it is so."""

    reserved_1: ClassVar[Short]
    exchange: ShortStr = ""
    type: ShortStr = "direct"
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    no_wait: Bit = False
    arguments: Table = field(default_factory=dict)


@method("exchange.declare-ok")
class ExchangeDeclareOk(Method):
    """The exchange exists."""


@method("exchange.delete")
class ExchangeDelete(Method):
    """Deletes an exchange."""

    reserved_1: ClassVar[Short]
    exchange: ShortStr = ""
    if_unused: Bit = False
    no_wait: Bit = False


@method("exchange.delete-ok")
class ExchangeDeleteOk(Method):
    """The exchange is gone."""


@method("exchange.bind")
class ExchangeBind(Method):
    """Binds an exchange to an exchange."""

    reserved_1: ClassVar[Short]
    destination: ShortStr = ""
    source: ShortStr = ""
    routing_key: ShortStr = ""
    no_wait: Bit = False
    arguments: Table = field(default_factory=dict)


@method("exchange.bind-ok")
class ExchangeBindOk(Method):
    """The binding exists."""


@method("exchange.unbind")
class ExchangeUnbind(Method):
    """Removes a binding between exchanges."""

    reserved_1: ClassVar[Short]
    destination: ShortStr = ""
    source: ShortStr = ""
    routing_key: ShortStr = ""
    no_wait: Bit = False
    arguments: Table = field(default_factory=dict)


@method("exchange.unbind-ok")
class ExchangeUnbindOk(Method):
    """The binding is gone."""


@method("queue.declare")
class QueueDeclare(Method):
    """Creates a queue, or checks that it is so."""

    reserved_1: ClassVar[Short]
    queue: ShortStr = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    no_wait: Bit = False
    arguments: Table = field(default_factory=dict)


@method("queue.declare-ok")
class QueueDeclareOk(Method):
    """The queue exists."""

    queue: ShortStr = ""
    message_count: Long = 0
    consumer_count: Long = 0


@method("queue.bind")
class QueueBind(Method):
    """Binds a queue to an exchange."""

    reserved_1: ClassVar[Short]
    queue: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    no_wait: Bit = False
    arguments: Table = field(default_factory=dict)


@method("queue.bind-ok")
class QueueBindOk(Method):
    """The binding exists."""


@method("queue.purge")
class QueuePurge(Method):
    """Drops the ready messages of a queue."""

    reserved_1: ClassVar[Short]
    queue: ShortStr = ""
    no_wait: Bit = False


@method("queue.purge-ok")
class QueuePurgeOk(Method):
    """How many were dropped."""

    message_count: Long = 0


@method("queue.delete")
class QueueDelete(Method):
    """Deletes a queue."""

    reserved_1: ClassVar[Short]
    queue: ShortStr = ""
    if_unused: Bit = False
    if_empty: Bit = False
    no_wait: Bit = False


@method("queue.delete-ok")
class QueueDeleteOk(Method):
    """How many messages went with it."""

    message_count: Long = 0


@method("queue.unbind")
class QueueUnbind(Method):
    """Removes a queue's binding. It has no no-wait."""

    reserved_1: ClassVar[Short]
    queue: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    arguments: Table = field(default_factory=dict)


@method("queue.unbind-ok")
class QueueUnbindOk(Method):
    """The binding is gone."""
