"""x-expires as pika sees it: queues that nobody uses go, on time.

Whoever looks whether a queue is there by declaring it keeps it; a message that must be routed does
not.
"""

import time
from contextlib import contextmanager, suppress

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection
from pika.exceptions import AMQPError, UnroutableError
from tests.conformance.marks import foreign
from tests.conformance.pika_steps import Inbox, drain

UNUSED_MS = 400
# Leporid promises a tenth of a second, here with the client's own time on a busy machine.
TOLERANCE_S = 1.0 if foreign else 0.25


def seconds_until_gone(channel, queue, since):
    """Publish until nobody takes it; returns how long after `since` that was."""
    while time.monotonic() - since < 10:
        try:
            channel.basic_publish("", queue, b"anybody?", mandatory=True)
        except UnroutableError:
            return time.monotonic() - since
        channel.connection.process_data_events(time_limit=0.01)
    pytest.fail("the queue is still there")


def is_about(seconds):
    return UNUSED_MS / 1000 - 0.01 <= seconds <= UNUSED_MS / 1000 + TOLERANCE_S


@pytest.fixture
def mortal(channel, name):
    queue = name()
    channel.queue_declare(queue, arguments={"x-expires": UNUSED_MS})
    return queue


# Each returns a moment (monotonic, seconds) right before the broker's last use of the queue begins.


def use_by_declaring(channel, queue):
    began = time.monotonic()
    channel.queue_declare(queue, arguments={"x-expires": UNUSED_MS})
    return began


def use_by_asking(channel, queue):
    began = time.monotonic()
    channel.queue_declare(queue, passive=True)
    return began


def use_by_getting(channel, queue):
    began = time.monotonic()
    channel.basic_get(queue)
    return began


def use_by_consuming(channel, queue):
    tag = channel.basic_consume(queue, lambda *_: None)
    channel.connection.process_data_events(time_limit=UNUSED_MS / 1000)
    began = time.monotonic()
    channel.basic_cancel(tag)
    return began


@pytest.mark.parametrize("use", [use_by_declaring, use_by_asking, use_by_getting, use_by_consuming])
def test_an_unused_queue_goes_on_time_after_its_last_use(channel, mortal, use):
    channel.connection.process_data_events(time_limit=UNUSED_MS / 2000)
    began = use(channel, mortal)
    assert is_about(seconds_until_gone(channel, mortal, began))


def test_what_was_in_it_is_no_dead_letter(channel, name):
    queue, morgue = name(), name("morgue")
    channel.queue_declare(morgue)
    arguments = {
        "x-expires": 100,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": morgue,
    }
    channel.queue_declare(queue, arguments=arguments)
    seconds_until_gone(channel, queue, time.monotonic())
    channel.basic_publish("", morgue, b"the only one")
    assert drain(channel, morgue) == [b"the only one"]


def test_an_exclusive_queue_goes_as_well(channel, name):
    queue = name()
    channel.queue_declare(queue, exclusive=True, arguments={"x-expires": 100})
    seconds_until_gone(channel, queue, time.monotonic())
    channel.queue_declare(queue)  # by anybody, and not exclusive


def test_after_a_restart_its_time_begins_anew(own_broker):
    @contextmanager
    def connected():
        connection = BlockingConnection(pika.URLParameters(own_broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel
        with suppress(AMQPError):
            connection.close()

    with connected() as channel:
        channel.queue_declare("goes", durable=True, arguments={"x-expires": 1500})
        channel.basic_publish("", "goes", b"kept", pika.BasicProperties(delivery_mode=2))
        channel.connection.process_data_events(time_limit=1)
        own_broker.kill()
    own_broker.start()
    started = time.monotonic()
    with connected() as channel:
        assert 1 <= seconds_until_gone(channel, "goes", started) <= 1.5 + TOLERANCE_S
    own_broker.stop()
    own_broker.start()
    with connected() as channel, pytest.raises(UnroutableError):
        channel.basic_publish("", "goes", b"nobody", mandatory=True)


def test_many_queues_that_are_left_go_while_others_work(channel, name, connect):
    queues = [name() for _ in range(300)]
    for queue in queues:
        channel.queue_declare(queue, arguments={"x-expires": 600})
    busy = name("busy")
    channel.queue_declare(busy)
    inbox = Inbox(channel, busy, auto_ack=True)
    started, sent = time.monotonic(), 0
    while time.monotonic() - started < 0.6 + TOLERANCE_S:
        channel.basic_publish("", busy, b"%d" % sent)
        sent += 1
    inbox.wait_for(sent)
    for queue in queues[:: len(queues) // 10]:
        with pytest.raises(UnroutableError):
            channel.basic_publish("", queue, b"nobody", mandatory=True)
