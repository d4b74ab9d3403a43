"""Connections and channels as pika sees them: login, tuning, heartbeats, many channels, scopes."""

import pika
import pytest
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)
from tests.conformance.pika_steps import (
    Inbox,
    connection_closed,
    drain,
    publish_all,
    pump,
    settle,
)


def test_server_properties(connection):
    properties = connection._impl.server_properties
    assert {"product", "version", "platform", "information", "copyright"} <= properties.keys()
    assert properties["capabilities"] == {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "direct_reply_to": True,
    }
    assert connection.basic_nack_supported
    assert connection.consumer_cancel_notify_supported
    assert connection.exchange_exchange_bindings_supported
    assert connection.publisher_confirms_supported


def test_wrong_password(connect):
    with pytest.raises(ProbableAuthenticationError, match="ACCESS_REFUSED") as caught:
        connect(credentials=pika.PlainCredentials("guest", "wrong"))
    assert "403" in str(caught.value)


def test_unknown_user_is_refused_in_the_same_words(connect):
    texts = []
    for user in ("guest", "nobody"):
        with pytest.raises(ProbableAuthenticationError) as caught:
            connect(credentials=pika.PlainCredentials(user, "wrong"))
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_unknown_vhost(connect):
    with pytest.raises((ProbableAccessDeniedError, ConnectionClosedByBroker)) as caught:
        connect(virtual_host="no such vhost")
    assert "530" in str(caught.value)
    assert "vhost no such vhost not found" in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "tuned"),
    [
        ({"channel_max": 10}, {"channel_max": 10}),
        ({"channel_max": 65_535}, {"channel_max": 2047}),
        ({"frame_max": 4096}, {"frame_max": 4096}),
        ({"frame_max": 131_072}, {"frame_max": 131_072}),
        ({"heartbeat": 7}, {"heartbeat": 7}),
        ({"heartbeat": 0}, {"heartbeat": 0}),
        ({"heartbeat": None}, {"heartbeat": 60}),
    ],
)
def test_tuning(connect, asked, tuned):
    connection = connect(**asked)
    parameters = connection._impl.params
    assert {key: getattr(parameters, key) for key in tuned} == tuned
    settle(connection.channel())


def test_many_channels_on_one_connection(connection, name):
    queue = name()
    channels = [connection.channel() for _ in range(300)]
    assert len({channel.channel_number for channel in channels}) == 300
    channels[0].queue_declare(queue)
    inboxes = [Inbox(channel, queue, auto_ack=True) for channel in channels[100:200]]
    for number, channel in enumerate(channels):
        publish_all(channel, queue, [b"%d" % number])
    pump(connection, lambda: sum(len(inbox.bodies) for inbox in inboxes) == 300)
    got = sorted(int(body) for inbox in inboxes for body in inbox.bodies)
    assert got == list(range(300))
    assert {len(inbox.bodies) for inbox in inboxes} == {3}
    for channel in channels[::2]:
        channel.close()
    for channel in channels[1::2]:
        settle(channel)


def test_channel_numbers_can_be_used_again(connection):
    for _ in range(20):
        channel = connection.channel(channel_number=5)
        settle(channel)
        channel.close()


def test_more_channels_than_negotiated(connect):
    connection = connect(channel_max=5)
    for _ in range(5):
        connection.channel()
    with connection_closed(
        530,
        "NOT_ALLOWED - number of channels opened (5) has reached the negotiated channel_max (5)",
    ):
        connection._impl._send_method(6, pika.spec.Channel.Open())
        pump(connection, lambda: False)


def test_fault_of_a_channel_leaves_the_others_alone(connection, connect, name):
    queue = name()
    witness = connection.channel()
    witness.queue_declare(queue)
    inbox = Inbox(witness, queue, auto_ack=True)
    elsewhere = connect().channel()
    for _ in range(5):
        doomed = connection.channel()
        with pytest.raises(ChannelClosedByBroker):
            doomed.queue_declare(name(), passive=True)
        assert doomed.is_closed
        publish_all(witness, queue, [b"still here"])
        publish_all(elsewhere, queue, [b"here too"])
    assert set(inbox.wait_for(10)) == {b"still here", b"here too"}


def test_fault_of_a_connection_leaves_the_others_alone(channel, connect, name):
    queue = name()
    channel.queue_declare(queue)
    inbox = Inbox(channel, queue, auto_ack=True)
    with pytest.raises(ConnectionClosedByBroker):
        connect().channel().basic_qos(prefetch_size=1)
    publish_all(channel, queue, [b"still here"])
    assert inbox.wait_for(1) == [b"still here"]


def test_what_follows_a_fault_on_its_channel_has_no_effect(connection, name):
    first, second, witness = name("first"), name("second"), connection.channel()
    doomed = connection.channel()
    for queue in (first, second):
        witness.queue_declare(queue)
    # Past the blocking layer, which would look for the broker's answer between two publishes.
    doomed._impl.basic_publish("no such exchange", "", b"the fault")
    for _ in range(10):
        doomed._impl.basic_publish("", first, b"after it")
    with pytest.raises(ChannelClosedByBroker) as caught:
        settle(doomed)
    assert caught.value.reply_code == 404
    publish_all(witness, second, [b"before"])
    assert (drain(witness, first), drain(witness, second)) == ([], [b"before"])


def test_reopening_an_open_channel(connection):
    channel = connection.channel()
    with connection_closed(504, "CHANNEL_ERROR - second 'channel.open' seen"):
        channel._impl._send_method(pika.spec.Channel.Open())
        pump(connection, lambda: False)


def test_using_a_channel_that_is_not_open(connection):
    with connection_closed(504, "CHANNEL_ERROR - expected 'channel.open'"):
        connection._impl._send_method(9, pika.spec.Basic.Qos(prefetch_count=1))
        pump(connection, lambda: False)


def test_flow_of_an_open_channel(channel):
    assert channel.flow(active=True) is True


def test_blocked_notifications_can_be_asked_for(connect, name):
    connection = connect()
    blocked = []
    connection.add_on_connection_blocked_callback(lambda *each: blocked.append(each))
    connection.add_on_connection_unblocked_callback(lambda *each: blocked.append(each))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("", name(), b"x")
    assert blocked == []


def test_update_secret(connection):
    connection.update_secret("guest", "expiring")
    settle(connection.channel())


@pytest.mark.slow
def test_server_sends_heartbeats(connect):
    connection = connect(heartbeat=1)
    checker = connection._impl._heartbeat_checker
    pump(connection, lambda: checker._heartbeat_frames_received >= 3)
    settle(connection.channel())


@pytest.mark.slow
def test_silent_client_is_given_up(channel, connect, name):
    """A client that stops without a word loses its connection, and others get its messages."""
    queue = name()
    channel.queue_declare(queue)
    publish_all(channel, queue, [b"held"])
    silent = connect(heartbeat=1)
    Inbox(silent.channel(), queue).wait_for(1)
    # From here on the silent connection's loop does not run: no heartbeat leaves it.
    assert Inbox(channel, queue).wait_for(1) == [b"held"]


def test_closing_from_our_side_is_answered(connect):
    connection = connect()
    for _ in range(3):
        connection.channel()
    connection.close(reply_code=320, reply_text="going away")
    assert connection.is_closed
