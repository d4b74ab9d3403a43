"""The methods of classes basic, confirm and tx: messages, and how surely they are kept.

Must not know when which is allowed. Field order is the order on the wire; `reserved_1` was once
the ticket that access.request gave out.
"""

from dataclasses import field
from typing import ClassVar

from leporid.amqp.fields import Bit, Long, LongLong, Short, ShortStr, Table
from leporid.amqp.methods.declaration import Method, method


@method("basic.qos")
class BasicQos(Method):
    """Limits what may be unsettled: per consumer, or for the channel when global."""

    prefetch_size: Long = 0
    prefetch_count: Short = 0
    global_: Bit = False


@method("basic.qos-ok")
class BasicQosOk(Method):
    """The limits hold."""


@method("basic.consume")
class BasicConsume(Method):
    """Starts a consumer."""

    reserved_1: ClassVar[Short]
    queue: ShortStr = ""
    consumer_tag: ShortStr = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    no_wait: Bit = False
    arguments: Table = field(default_factory=dict)


@method("basic.consume-ok")
class BasicConsumeOk(Method):
    """The consumer has started."""

    consumer_tag: ShortStr = ""


@method("basic.cancel")
class BasicCancel(Method):
    """Stops a consumer; from the server: it has been stopped."""

    consumer_tag: ShortStr = ""
    no_wait: Bit = False


@method("basic.cancel-ok")
class BasicCancelOk(Method):
    """The consumer has stopped."""

    consumer_tag: ShortStr = ""


@method("basic.publish")
class BasicPublish(Method):
    """Publishes the content that follows."""

    reserved_1: ClassVar[Short]
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    mandatory: Bit = False
    immediate: Bit = False


@method("basic.return")
class BasicReturn(Method):
    """A mandatory message, in the content that follows, could not be routed."""

    reply_code: Short = 0
    reply_text: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""


@method("basic.deliver")
class BasicDeliver(Method):
    """Delivers the content that follows to a consumer."""

    consumer_tag: ShortStr = ""
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortStr = ""
    routing_key: ShortStr = ""


@method("basic.get")
class BasicGet(Method):
    """Asks for one message."""

    reserved_1: ClassVar[Short]
    queue: ShortStr = ""
    no_ack: Bit = False


@method("basic.get-ok")
class BasicGetOk(Method):
    """The message is in the content that follows."""

    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    message_count: Long = 0


@method("basic.get-empty")
class BasicGetEmpty(Method):
    """There was none."""

    reserved_1: ClassVar[ShortStr]


@method("basic.ack")
class BasicAck(Method):
    """Settles deliveries as done; from the server: confirms publishes."""

    delivery_tag: LongLong = 0
    multiple: Bit = False


@method("basic.reject")
class BasicReject(Method):
    """Settles one delivery as not done."""

    delivery_tag: LongLong = 0
    requeue: Bit = True


@method("basic.recover-async")
class BasicRecoverAsync(Method):
    """Requeues what is unsettled, without an answer."""

    requeue: Bit = False


@method("basic.recover")
class BasicRecover(Method):
    """Requeues what is unsettled."""

    requeue: Bit = False


@method("basic.recover-ok")
class BasicRecoverOk(Method):
    """It has been requeued."""


@method("basic.nack")
class BasicNack(Method):
    """Settles deliveries as not done; from the server: publishes were not kept."""

    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = True


@method("confirm.select")
class ConfirmSelect(Method):
    """Asks for publishes on this channel to be confirmed."""

    no_wait: Bit = False


@method("confirm.select-ok")
class ConfirmSelectOk(Method):
    """They will be."""


@method("tx.select")
class TxSelect(Method):
    """Makes the channel transactional."""


@method("tx.select-ok")
class TxSelectOk(Method):
    """It is."""


@method("tx.commit")
class TxCommit(Method):
    """Commits what was published and settled since the last commit."""


@method("tx.commit-ok")
class TxCommitOk(Method):
    """It is committed."""


@method("tx.rollback")
class TxRollback(Method):
    """Drops what was published and settled since the last commit."""


@method("tx.rollback-ok")
class TxRollbackOk(Method):
    """It is dropped."""
