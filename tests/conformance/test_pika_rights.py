"""Which rights each method needs, asked with pika: without any one of them it is refused."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from tests.conformance.marks import differs
from tests.conformance.test_pika_access import RIGHTS, Api, Place, refused

from leporid.amqp import methods
from leporid.broker.connection.methods.channel import HANDLERS

pytestmark = differs


@pytest.fixture
def place(api_url: str, broker_url: str) -> Iterator[Place]:
    port = pika.URLParameters(broker_url).port
    with contextlib.closing(Api(api_url)) as api, contextlib.closing(Place(api, port)) as found:
        yield found


def declare_queue(channel: BlockingChannel) -> None:
    channel.queue_declare("new")


def delete_queue(channel: BlockingChannel) -> None:
    channel.queue_delete("q")


def purge(channel: BlockingChannel) -> None:
    channel.queue_purge("q")


def get(channel: BlockingChannel) -> None:
    channel.basic_get("q")


def consume(channel: BlockingChannel) -> None:
    channel.basic_consume("q", lambda *_: None)


def bind(channel: BlockingChannel) -> None:
    channel.queue_bind("q", "x", "key")


def unbind(channel: BlockingChannel) -> None:
    channel.queue_unbind("q", "x", "key")


def bind_exchange(channel: BlockingChannel) -> None:
    channel.exchange_bind("y", "x", "key")


def unbind_exchange(channel: BlockingChannel) -> None:
    channel.exchange_unbind("y", "x", "key")


def declare_exchange(channel: BlockingChannel) -> None:
    channel.exchange_declare("new-x")


def delete_exchange(channel: BlockingChannel) -> None:
    channel.exchange_delete("y")


def publish(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    channel.basic_publish("x", "key", b"")


def declare_with_dead_letters(channel: BlockingChannel) -> None:
    channel.queue_declare("new", arguments={"x-dead-letter-exchange": "x"})


def declare_with_alternate(channel: BlockingChannel) -> None:
    channel.exchange_declare("new-x", arguments={"alternate-exchange": "x"})


def look_at_queue(channel: BlockingChannel) -> None:
    channel.queue_declare("q", passive=True)


def look_at_exchange(channel: BlockingChannel) -> None:
    channel.exchange_declare("x", passive=True)


def cancel(channel: BlockingChannel) -> None:
    channel._impl.basic_cancel("nobody")
    channel.connection.process_data_events()


def set_prefetch(channel: BlockingChannel) -> None:
    channel.basic_qos(prefetch_count=5)


def recover(channel: BlockingChannel) -> None:
    channel.basic_recover(requeue=True)


def select_confirms(channel: BlockingChannel) -> None:
    channel.confirm_delivery()


def use_transactions(channel: BlockingChannel) -> None:
    channel.tx_select()
    channel.tx_commit()
    channel.tx_rollback()


def stop_flow(channel: BlockingChannel) -> None:
    assert channel.flow(active=True)


NEEDS = {
    declare_queue: {("configure", "new")},
    delete_queue: {("configure", "q")},
    purge: {("read", "q")},
    get: {("read", "q")},
    consume: {("read", "q")},
    bind: {("write", "q"), ("read", "x")},
    unbind: {("write", "q"), ("read", "x")},
    bind_exchange: {("write", "y"), ("read", "x")},
    unbind_exchange: {("write", "y"), ("read", "x")},
    declare_exchange: {("configure", "new-x")},
    delete_exchange: {("configure", "y")},
    publish: {("write", "x")},
    declare_with_dead_letters: {("configure", "new"), ("read", "new"), ("write", "x")},
    declare_with_alternate: {("configure", "new-x"), ("read", "new-x"), ("write", "x")},
    look_at_queue: {("read", "q")},  # or another right on it
    look_at_exchange: {("read", "x")},
    cancel: set(),
    set_prefetch: set(),
    recover: set(),
    select_confirms: set(),
    use_transactions: set(),
    stop_flow: set(),
}
"""Which rights on what each operation needs; all others may be missing."""

COVERED = {
    *(methods.QueueDeclare, methods.QueueDelete, methods.QueuePurge),
    *(methods.QueueBind, methods.QueueUnbind),
    *(methods.ExchangeDeclare, methods.ExchangeDelete),
    *(methods.ExchangeBind, methods.ExchangeUnbind),
    *(methods.BasicConsume, methods.BasicGet, methods.BasicCancel, methods.BasicQos),
    *(methods.BasicRecover, methods.ConfirmSelect),
    *(methods.TxSelect, methods.TxCommit, methods.TxRollback),
    *(methods.ChannelOpen, methods.ChannelClose, methods.ChannelFlow),
}
"""Methods of the operations above; publishing and settling are the data plane's."""

WITHOUT = {
    methods.AccessRequest,  # gives out a ticket that nobody looks at; pika has it not
    methods.BasicRecoverAsync,  # RabbitMQ 3.10 has it, pika has it not; test_channel does it
    *(methods.BasicDeliver, methods.BasicGetOk, methods.BasicReturn),  # sent by brokers only
}


def test_the_matrix_has_every_method():
    assert set(HANDLERS) == COVERED | WITHOUT


@pytest.mark.parametrize("operation", NEEDS, ids=lambda each: each.__name__)
def test_the_matrix_of_operations_and_rights(place: Place, operation: Callable[..., None]):
    """With exactly what it needs it is allowed; without any one of these it is refused."""
    needs = NEEDS[operation]
    connection = place.connect()
    for missing in [None, *sorted(needs)]:
        place.permit()
        setup = connection.channel()
        for queue in ("q", "new"):
            setup.queue_delete(queue)
        for exchange in ("x", "y", "new-x"):
            setup.exchange_delete(exchange)
        setup.queue_declare("q")
        setup.exchange_declare("x")
        setup.exchange_declare("y", "fanout")
        setup.queue_bind("q", "x", "other")
        names = {right: [name for r, name in needs - {missing} if r == right] for right in RIGHTS}
        # What it needs, and nothing else: in place of the others a name that nothing has.
        place.permit(**{right: f"^({'|'.join(['none', *names[right]])})$" for right in RIGHTS})
        channel = connection.channel()
        if missing is None:
            operation(channel)
            channel.close()
        else:
            text = rf"{missing[0]} access to (queue|exchange) '{missing[1]}'"
            refused(403, text, partial(operation, channel))
