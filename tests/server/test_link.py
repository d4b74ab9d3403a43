"""Links: peers that read slowly or never, that speak nonsense, or vanish."""

import asyncio
import logging
import select
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import count

import pytest
from tests.server.certificates import NAME, Files, client_context
from tests.server.client import GARBAGE, HEARTBEAT, Client, published
from tests.server.stack import Clock, Stack
from tests.server.test_readiness import round_of_the_loop

from leporid.amqp.constants import FRAME_BODY, PROTOCOL_HEADER
from leporid.amqp.frames import method_frame
from leporid.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    BasicReturn,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    QueueDeclare,
    QueueDeclareOk,
)
from leporid.broker.connection.session import ConnectionState
from leporid.server import hangups
from leporid.server import link as module
from leporid.server.link import Link
from leporid.server.tls import Certificates, Tls

BODY_BYTES = 32 * 1024
# More than the kernel keeps for both ends of a socket together, and the broker on top of it.
MANY = 250
# What the engine lets wait for a consumer that does not read, and for one who asks and does not
# read the answers.
OUTPUT_HIGH_BYTES = 192 * 1024
OUTPUT_STOP_BYTES = 1024 * 1024
TURN_BYTES = 64 * 1024


def body(number: int) -> bytes:
    return number.to_bytes(4, "big") * (BODY_BYTES // 4)


async def fill(client: Client, queue: str) -> None:
    for number in range(MANY):
        await client.publish(queue, body(number))


async def is_alive(client: Client) -> bool:
    await client.call(ChannelOpen(), ChannelOpenOk, channel=2)
    return True


# ------------------------------------------------------------- peers that do not read


async def test_a_consumer_that_reads_late_gets_everything(stack: Stack):
    publisher, slow = await stack.client(), await stack.client(receive_bytes=16384)
    await slow.declare("q", auto_delete=True)
    await slow.consume("q")
    link = stack.link_of(slow)
    await fill(publisher, "q")
    await stack.until(lambda: stack.engine.queues.published == MANY)
    assert 0 < link.connection.output.pending_bytes <= OUTPUT_HIGH_BYTES + BODY_BYTES + 200
    assert stack.engine.queues.delivered < MANY
    for number in range(MANY):
        deliver, received = await slow.delivered()
        assert (deliver.delivery_tag, received) == (number + 1, body(number))
    assert await is_alive(slow)
    assert link.connection.output.pending_bytes == 0


async def test_a_consumer_that_never_reads_keeps_nobody_waiting(stack: Stack):
    publisher, deaf, other = await stack.client(), await stack.client(), await stack.client()
    await deaf.declare("q", auto_delete=True)
    await deaf.consume("q", no_ack=False)
    await other.consume("q")
    await fill(publisher, "q")
    await stack.until(lambda: stack.engine.queues.published == MANY)
    for _ in range(MANY // 2):
        await other.delivered()
    assert await is_alive(publisher)
    # What it was sent and has not settled goes to somebody who reads.
    deaf.close()
    for _ in range(MANY - MANY // 2):
        await other.delivered()


async def test_who_asks_and_never_reads_is_not_read(stack: Stack):
    asking, other = await stack.client(receive_bytes=16384), await stack.client()
    connection = stack.link_of(asking).connection
    mandatory = method_frame(1, BasicPublish(routing_key="nowhere", mandatory=True))
    plain = method_frame(1, BasicPublish(routing_key="nowhere"))
    question = published("nowhere", body(0)).replace(plain, mandatory)

    sending = asyncio.create_task(asking.write(question * MANY))
    await stack.until(lambda: connection.output.pending_bytes >= OUTPUT_STOP_BYTES)
    most = connection.output.pending_bytes
    assert most <= OUTPUT_STOP_BYTES + TURN_BYTES + BODY_BYTES
    assert not connection.reading
    assert await is_alive(other)
    assert connection.output.pending_bytes == most
    for _ in range(MANY):
        await asking.hear(BasicReturn)
        await asking.frame()
        assert await asking.frame() == (FRAME_BODY, 1, body(0))
    await sending
    assert await is_alive(asking)


async def test_gets_are_answered_while_there_is_room(stack: Stack):
    publisher, asking = await stack.client(), await stack.client(receive_bytes=16384)
    connection = stack.link_of(asking).connection
    await publisher.declare("q", auto_delete=False)
    await fill(publisher, "q")
    await stack.until(lambda: stack.engine.queues.published == MANY)
    # All of these are read at once.
    await asking.write(method_frame(1, BasicGet(queue="q", no_ack=True)) * MANY)
    await stack.until(lambda: connection.output.pending_bytes > 0)
    assert stack.engine.queues.got < MANY
    for number in range(MANY):
        assert connection.output.pending_bytes <= OUTPUT_STOP_BYTES + 2 * BODY_BYTES
        assert (await asking.hear(BasicGetOk)).delivery_tag == number + 1
        await asking.frame()
        assert await asking.frame() == (FRAME_BODY, 1, body(number))
    assert await is_alive(asking)


async def test_a_consumer_is_read_although_its_output_never_ends(stack: Stack):
    """Big messages come faster than it takes them, so something always waits for its socket."""
    slow = await stack.client(receive_bytes=16384)
    link = stack.link_of(slow)
    link.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
    queue = stack.broker.vhosts["/"].queue(await slow.declare("q"))
    for _ in range(12):
        stack.engine.publish([queue.engine], "", "q", b"\0\0", bytes(2 * OUTPUT_STOP_BYTES))
    await slow.call(BasicConsume(queue="q", consumer_tag="c", no_ack=True), BasicConsumeOk)
    assert not link.connection.reading
    await slow.write(HEARTBEAT)
    await slow.delivered()
    await slow.say(BasicCancel("c"))
    while queue.subscriptions:
        await slow.frame()
    assert queue.engine.ready_count > 0


# ------------------------------------------------------------- large messages


async def large_get(stack: Stack, client: Client, size: int) -> Link:
    """Have a client be sent a message of that size; returns the server's end of it."""
    queue = stack.broker.vhosts["/"].queue(await client.declare("q", auto_delete=False))
    stack.engine.publish([queue.engine], "", "q", b"\0\0", bytes(size))
    await client.say(BasicGet(queue="q", no_ack=True))
    return stack.link_of(client)


async def test_a_large_message_is_sent_piece_by_piece(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
):
    client, other = await stack.client(), await stack.client()
    sent = []
    send = module.Link._send

    def count(link: Link) -> None:
        before = stack.engine.connections.sent_bytes
        send(link)
        sent.append(stack.engine.connections.sent_bytes - before)

    monkeypatch.setattr(module.Link, "_send", count)
    size = 20_000_000
    await large_get(stack, client, size)
    await client.hear(BasicGetOk)
    await client.frame()
    received = 0
    while received < size:
        received += len((await client.frame())[2])
        if received < 200_000:
            assert await is_alive(other)
    assert max(sent) <= module.SEND_BYTES + 128 * 1024


# ------------------------------------------------------------- peers that vanish


@pytest.mark.parametrize("end", [Client.close, Client.reset])
async def test_a_peer_that_vanishes_leaves_nothing(stack: Stack, end: Callable[[Client], None]):
    vanishing, other = await stack.client(), await stack.client()
    await vanishing.declare("its own")
    await other.declare("shared", auto_delete=False)
    await other.publish("shared", b"message")
    await vanishing.consume("shared", no_ack=False)
    assert (await vanishing.delivered())[1] == b"message"
    end(vanishing)
    await stack.until(lambda: len(stack.turns.links) == 1)
    assert len(stack.broker.sessions) == 1
    assert [queue.name for queue in stack.broker.vhosts["/"].queues()] == ["shared"]
    await other.consume("shared")
    deliver, received = await other.delivered()
    assert (deliver.redelivered, received) == (True, b"message")


def deliver_one(stack: Stack) -> None:
    """Have q deliver a message although an alarm blocks publishers."""
    queue = stack.broker.vhosts["/"].queue("q")
    stack.engine.publish([queue.engine], "", "q", b"\0\0", b"x")
    stack.turns.wake()


@pytest.mark.parametrize("end", [Client.close, Client.reset])
@pytest.mark.parametrize("count", [1, 10])
async def test_a_peer_that_vanishes_while_much_is_unread_is_missed_at_once(
    stack: Stack, end: Callable[[Client], None], count: int
):
    vanishing, other = await stack.client(), await stack.client()
    await other.declare("q", auto_delete=False)
    await vanishing.consume("q")
    await vanishing.publish("nowhere")
    link = stack.link_of(vanishing)
    await stack.until(lambda: stack.engine.queues.unroutable == 1)
    stack.set_alarm("memory", True)
    # This is not read now, and more than what is read at a time if there is much.
    await vanishing.write(published("nowhere", bytes(BODY_BYTES)) * count)
    end(vanishing)
    if end is Client.close:
        # What we say to a socket that is closed makes its end a reset.
        deliver_one(stack)
        await stack.until(lambda: stack.engine.queues.delivered == 1)
    stack.set_alarm("memory", False)
    await stack.until(lambda: link not in stack.turns.links.values())


async def test_a_peer_that_says_it_will_not_speak_again_is_gone(stack: Stack):
    client = await stack.client()
    client.sock.shutdown(1)
    await client.ends()
    await stack.until(lambda: not stack.turns.links)


async def blocked(stack: Stack, *, heartbeat_s: int = 0) -> tuple[Client, Link]:
    """A publisher that is not read, and the server's end of it."""
    client = await stack.client(heartbeat_s=heartbeat_s)
    await client.publish("nowhere")
    link = stack.link_of(client)
    await stack.until(lambda: stack.engine.queues.unroutable == 1)
    stack.set_alarm("memory", True)
    await client.publish("nowhere")
    await stack.until(lambda: not link.connection.reading)
    return client, link


@pytest.mark.parametrize("end", [Client.close, Client.reset])
@pytest.mark.parametrize("unread", [0, 1])
async def test_a_blocked_publisher_that_vanishes_is_missed_although_nothing_is_read(
    stack: Stack, end: Callable[[Client], None], unread: int
):
    client, link = await blocked(stack)
    await client.write(published("nowhere", bytes(1000)) * unread)
    end(client)
    await stack.until(lambda: link not in stack.turns.links.values())
    assert len(stack.broker.sessions) == 0
    # Of what it sent meanwhile nobody was promised anything.
    assert stack.engine.queues.unroutable == 1


@pytest.mark.parametrize("heartbeat_s", [0, 60])
async def test_one_whose_last_words_do_not_fit_is_missed_when_it_is_spoken_to(
    stack: Stack, clock: Clock, heartbeat_s: int
):
    """Its end stands behind bytes that its system cannot send, as nobody reads."""
    client, link = await blocked(stack, heartbeat_s=heartbeat_s)
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    with suppress(BlockingIOError):
        while client.sock.send(published("nowhere", body(0)) * 10):
            pass
    client.close()
    stack.listener.look()
    assert link in stack.turns.links.values()
    clock.move(6.0)
    await stack.until(lambda: link not in stack.turns.links.values())


async def test_what_one_sent_before_its_end_is_read_when_it_has_taken_its_output(
    stack: Stack, clock: Clock
):
    client = await stack.client(receive_bytes=16384)
    link = await large_get(stack, client, 2 * OUTPUT_STOP_BYTES)
    link.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
    await client.say(QueueDeclare(queue="later"))
    await stack.until(lambda: not link.connection.reading)
    client.sock.shutdown(socket.SHUT_WR)
    reading = asyncio.create_task(client.drain())
    vhost = stack.broker.vhosts["/"]

    def declared() -> bool:
        clock.move(0.01)
        return any(queue.name == "later" for queue in vhost.queues())

    await stack.until(declared)
    await reading


async def test_one_that_takes_nothing_after_its_last_words_is_gone(stack: Stack, clock: Clock):
    client = await stack.client(receive_bytes=16384)
    link = await large_get(stack, client, 16 * OUTPUT_STOP_BYTES)
    await stack.until(lambda: not link.connection.reading)
    client.sock.shutdown(socket.SHUT_WR)

    def gone() -> bool:
        clock.move(0.1)
        return link not in stack.turns.links.values()

    await stack.until(gone)


async def test_where_the_system_does_not_tell_one_is_missed_when_it_is_written_to(
    monkeypatch: pytest.MonkeyPatch, make_stack: Callable[..., Stack]
):
    monkeypatch.setattr(hangups, "AVAILABLE", False)
    stack = make_stack()
    vanishing, other = await stack.client(), await stack.client()
    await other.declare("q", auto_delete=False)
    await vanishing.consume("q")
    await vanishing.publish("nowhere")
    link = stack.link_of(vanishing)
    stack.set_alarm("memory", True)
    await vanishing.publish("nowhere")
    await stack.until(lambda: link.connection.blocked)
    vanishing.reset()
    assert await is_alive(other)
    assert link in stack.turns.links.values()
    deliver_one(stack)
    await stack.until(lambda: link not in stack.turns.links.values())


async def test_closing_twice_does_nothing(stack: Stack):
    client = await stack.client()
    link = stack.link_of(client)
    link.close()
    link.close()
    link.flush()
    link.update_reading()
    await client.ends()


# ------------------------------------------------------------- last words


async def test_last_words_reach_a_peer_that_goes_on_talking(stack: Stack):
    client = await stack.client()
    await client.write(GARBAGE + bytes(2**21))
    close = await client.hear(ConnectionClose)
    assert close.reply_code == 501
    await client.ends()
    client.close()
    await stack.until(lambda: not stack.turns.links)


@pytest.mark.parametrize(
    "greeting", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\0\1\0\0", b"\x16\x03\1" * 9]
)
async def test_who_speaks_something_else_learns_what_is_spoken_here(stack: Stack, greeting: bytes):
    client = await stack.connect()
    await client.write(greeting)
    assert await client.read(8) == PROTOCOL_HEADER
    await client.ends()


async def test_closing_in_order(stack: Stack):
    client = await stack.client()
    await client.declare("its own")
    await client.call(ConnectionClose(200, "bye"), ConnectionCloseOk, channel=0)
    assert not stack.broker.sessions
    assert not list(stack.broker.vhosts["/"].queues())
    client.close()
    await stack.until(lambda: not stack.turns.links)


async def test_who_has_closed_is_heard_only_if_it_closes_again(stack: Stack):
    client = await stack.client()
    connection = stack.link_of(client).connection
    close = method_frame(0, ConnectionClose(200, "bye"))
    for part in (GARBAGE[:-1] + b"\xce", HEARTBEAT, published("q", body(0)), b""):
        await client.write(close + part + close)
        for _ in range(2):
            await client.hear(ConnectionCloseOk)
    # Of a frame that it has no use for, nothing is kept.
    large = published("q", bytes(2 * BODY_BYTES))
    received = connection.received_bytes + len(large) - 100
    await client.write(large[:-100])
    await stack.until(lambda: connection.received_bytes == received)
    await client.write(large[-100:] + close)
    await client.hear(ConnectionCloseOk)
    assert (connection.channels, stack.engine.queues.unroutable) == ({}, 0)
    await client.say(ConnectionCloseOk(), channel=0)
    await client.ends()


async def test_who_closes_again_and_again_and_reads_nothing_is_not_read(stack: Stack):
    client = await stack.client(receive_bytes=4096)
    link = stack.link_of(client)
    link.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    close = method_frame(0, ConnectionClose(200, ""))
    sending = asyncio.create_task(client.write(close * 100_000))
    await stack.until(
        lambda: link.connection.output.pending_bytes > 0 and not link.connection.reading
    )
    # The answers to one turn's reading, at most.
    assert link.connection.output.pending_bytes <= TURN_BYTES
    sending.cancel()


async def test_all_that_was_sent_is_read_before_the_end(stack: Stack):
    client = await stack.client()
    last = QueueDeclare(queue="q"), ConnectionClose(200, "bye")
    await client.write(method_frame(1, last[0]) + method_frame(0, last[1]))
    client.sock.shutdown(1)
    await client.hear(QueueDeclareOk)
    await client.hear(ConnectionCloseOk)
    await client.ends()


async def test_nobody_is_waited_for_longer_than_a_moment(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "LINGER_S", 0.01)
    client = await stack.client()
    await client.write(GARBAGE)
    await stack.until(lambda: not stack.turns.links)
    assert (await client.hear(ConnectionClose)).reply_code == 501


# ------------------------------------------------------------- our own mistakes


def mistake(*_: object) -> None:
    raise RuntimeError("a mistake of ours")


async def test_a_defect_costs_one_connection(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    unlucky, other = await stack.client(), await stack.client()
    monkeypatch.setattr(ConnectionState, "route_cache", mistake)
    await unlucky.publish("q", b"")
    close = await unlucky.hear(ConnectionClose)
    assert close.reply_code == 541
    assert "a mistake of ours" not in close.reply_text
    await unlucky.ends()
    assert await is_alive(other)
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert record.getMessage().startswith("defect ")
    assert record.exc_info is not None


async def test_a_defect_before_the_login_says_nothing(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
):
    client = await stack.connect()
    monkeypatch.setattr(ConnectionState, "on_greeting", mistake)
    await client.write(PROTOCOL_HEADER)
    await client.ends()


async def test_confirms_of_a_peer_that_left_go_nowhere(stack: Stack):
    client, other = await stack.client(), await stack.client()
    await other.declare("q", auto_delete=False)
    await other.consume("q", no_ack=False)
    await client.publish("q", b"last")
    client.close()
    deliver, _ = await other.delivered()
    await other.say(BasicAck(deliver.delivery_tag))
    assert await is_alive(other)


# ------------------------------------------------------------- handshakes of TLS


@pytest.mark.parametrize("sound", [True, False])
async def test_handshakes_of_tls_that_come_at_once_are_made_in_several_rounds(
    files: Files, make_stack: Callable[..., Stack], sound: bool
):
    """One takes a millisecond or two, also if it fails, and gives no bytes that are counted."""
    pair = files.issue(NAME, "link")
    stack = make_stack(certificates=Certificates(Tls(pair.certificate, pair.key)))
    links = stack.turns.links
    with ExitStack() as sockets:
        peers = []
        for _ in range(60):
            peer = sockets.enter_context(socket.create_connection(("127.0.0.1", stack.tls_port)))
            peer.setblocking(False)
            peers.append(peer)
        while len(links) < len(peers):
            await round_of_the_loop()
        stack.engine.clock.monotonic_ns = count(0, 500_000).__next__
        for peer in peers:
            peer.send(client_hello(files) if sound else b"GET / HTTP/1.1\r\n\r\n")
        done = [0]
        while done[-1] < len(peers):
            await round_of_the_loop()
            if sound:
                done.append(len(select.select(peers, [], [], 0)[0]))
            else:
                done.append(len(peers) - len(links))
        assert max(map(int.__sub__, done[1:], done)) <= 8


def client_hello(files: Files) -> bytes:
    """The first message of a client."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(files).wrap_bio(received, sent, server_hostname=NAME)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()
