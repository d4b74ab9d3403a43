"""The listener: deadlines, heartbeats, and how many may be here at a time."""

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Callable

import pytest
from tests.server.client import HEARTBEAT, PATIENCE_S, Client, published
from tests.server.stack import Clock, Stack

from leporid.amqp.constants import PROTOCOL_HEADER
from leporid.amqp.errors import ConnectionForced
from leporid.amqp.methods import (
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
)
from leporid.server import link, listener, turns
from leporid.server.addresses import bind
from leporid.server.listener import CLOSE_MS_MAX, Listener, on_thread

CLOSE_S = CLOSE_MS_MAX / 1000


@pytest.fixture(autouse=True)
def _patient_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends a link here is the listener, not the moment after last words."""
    monkeypatch.setattr(link, "LINGER_S", PATIENCE_S)


# ------------------------------------------------------------- the handshake's deadline


async def test_who_does_not_introduce_himself_in_time_is_ended(
    make_stack: Callable[..., Stack], clock: Clock, caplog: pytest.LogCaptureFixture
):
    stack = make_stack(handshake_ms=3000)
    silent, greeted, dripping = [await stack.connect() for _ in range(3)]
    await greeted.greet()
    await dripping.write(PROTOCOL_HEADER[:3])
    opened = await stack.client()
    clock.move(3.0)
    stack.listener.look()
    assert len(stack.turns.links) == 4
    await dripping.write(PROTOCOL_HEADER[3:5])
    clock.move(0.001)
    for client in (silent, greeted, dripping):
        await client.ends()
    await opened.call(ChannelOpen(), ChannelOpenOk, channel=2)
    assert len(stack.broker.sessions) == 1
    ended = [each for each in caplog.messages if each.endswith("the handshake took too long")]
    assert len(ended) == 3


async def test_the_deadline_counts_from_each_peers_own_beginning(
    make_stack: Callable[..., Stack], clock: Clock
):
    stack = make_stack(handshake_ms=3000)
    early = await stack.connect()
    await stack.until(lambda: len(stack.turns.links) == 1)
    clock.move(2.0)
    late = await stack.connect()
    await stack.until(lambda: len(stack.turns.links) == 2)
    clock.move(1.5)
    await early.ends()
    await late.log_in()


# ------------------------------------------------------------- heartbeats


async def test_we_send_heartbeats_when_there_is_nothing_else(stack: Stack, clock: Clock):
    client = await stack.client(heartbeat_s=10)
    for _ in range(3):
        clock.move(5.0)
        await client.heartbeat()
        await client.write(HEARTBEAT)
    # Anything that is sent says that we live.
    clock.move(4.0)
    await client.declare("q")
    clock.move(4.0)
    stack.listener.look()
    await client.call(ChannelOpen(), ChannelOpenOk, channel=2)
    clock.move(5.0)
    await client.heartbeat()


async def test_a_peer_is_dead_after_two_missed_heartbeats(
    stack: Stack, clock: Clock, caplog: pytest.LogCaptureFixture
):
    dead, living = await stack.client(heartbeat_s=10), await stack.client(heartbeat_s=10)
    clock.move(19.0)
    stack.listener.look()
    assert len(stack.turns.links) == 2
    await living.write(HEARTBEAT)
    heard = stack.link_of(living).connection
    await stack.until(lambda: heard.last_received_ms == stack.engine.clock.now_ms)
    clock.move(2.0)
    await dead.ends()
    await living.declare("q")
    assert "missed heartbeats: nothing came for 21000 ms" in caplog.text


async def test_whom_we_did_not_read_in_time_is_not_dead(
    make_stack: Callable[..., Stack], clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    """The whole broker stood still for a while; what a peer sent meanwhile is there to be read."""
    monkeypatch.setattr(listener, "TICK_S", 3600.0)  # who looks is this test alone
    stack = make_stack()
    client = await stack.client(heartbeat_s=10)
    connection = stack.link_of(client).connection
    client.sock.send(HEARTBEAT)
    clock.move(60.0)
    stack.listener.look()
    await stack.until(lambda: connection.last_received_ms == stack.engine.clock.now_ms)
    stack.listener.look()
    clock.move(19.0)
    stack.listener.look()
    assert len(stack.turns.links) == 1
    await client.declare("q")


async def test_any_byte_counts_as_a_heartbeat(stack: Stack, clock: Clock):
    client = await stack.client(heartbeat_s=10)
    connection = stack.link_of(client).connection
    for octet in published("q"):
        clock.move(19.0)
        stack.turns.set_clock()
        await client.write(bytes((octet,)))
        await stack.until(lambda: connection.last_received_ms == stack.engine.clock.now_ms)
        stack.listener.look()
    assert len(stack.turns.links) == 1


async def test_no_heartbeat_no_deadline(stack: Stack, clock: Clock):
    client = await stack.client(heartbeat_s=0)
    clock.move(1e6)
    stack.listener.look()
    # Not one heartbeat came before this answer.
    await client.declare("q")


async def test_a_publisher_that_was_blocked_is_heard_out_first(stack: Stack, clock: Clock):
    client = await stack.client(heartbeat_s=10, capabilities=("connection.blocked",))
    await client.declare("q")
    await client.publish("nowhere")
    await stack.until(lambda: stack.engine.queues.unroutable == 1)
    stack.set_alarm("memory", True)
    await client.hear(ConnectionBlocked)
    await client.write(HEARTBEAT)
    clock.move(1000.0)
    stack.listener.look()
    # The listener looks before anything is read.
    stack.set_alarm("memory", False)
    stack.listener.look()
    await client.hear(ConnectionUnblocked)
    await client.declare("q2")


# ------------------------------------------------------------- peers that do not leave


async def test_who_does_not_answer_the_close_is_ended(
    stack: Stack, clock: Clock, caplog: pytest.LogCaptureFixture
):
    client = await stack.client()
    stack.link_of(client).session.close_for(ConnectionForced("go"))
    await client.hear(ConnectionClose)
    stack.listener.look()
    clock.move(CLOSE_MS_MAX / 1000 - 0.001)
    stack.listener.look()
    assert len(stack.turns.links) == 1
    clock.move(0.001)
    await client.ends()
    assert "it did not answer connection.close" in caplog.text


@pytest.mark.parametrize(
    ("heartbeat_s", "ends_s"), [(0, CLOSE_S), (10, 10), (int(CLOSE_S) + 1, CLOSE_S)]
)
async def test_who_has_closed_and_keeps_the_socket_is_ended(
    stack: Stack, clock: Clock, caplog: pytest.LogCaptureFixture, heartbeat_s: int, ends_s: float
):
    client = await stack.client(heartbeat_s=heartbeat_s)
    await client.call(ConnectionClose(200, "bye"), ConnectionCloseOk, channel=0)
    stack.listener.look()
    clock.move(ends_s - 0.001)
    stack.listener.look()
    await client.call(ConnectionClose(200, "bye"), ConnectionCloseOk, channel=0)
    clock.move(0.001)
    await client.ends()
    assert not caplog.records


async def test_who_answers_the_close_is_forgotten(stack: Stack):
    client = await stack.client()
    stack.link_of(client).session.close_for(ConnectionForced("go"))
    await client.hear(ConnectionClose)
    stack.listener.look()
    await client.say(ConnectionCloseOk(), channel=0)
    await client.ends()
    client.close()
    await stack.until(lambda: not stack.turns.links)


async def test_who_does_not_read_our_last_words_is_ended(stack: Stack, clock: Clock):
    deaf, publisher = await stack.client(receive_bytes=4096), await stack.client()
    await deaf.declare("q", auto_delete=True)
    await deaf.consume("q")
    connection = stack.link_of(deaf).connection
    for _ in range(250):
        await publisher.publish("q", bytes(32 * 1024))
    await stack.until(lambda: stack.engine.queues.published == 250)
    await deaf.say(ConnectionClose(200, "bye"), channel=0)
    await stack.until(lambda: connection.awaits_eof)
    assert connection.output.pending_bytes
    stack.listener.look()
    clock.move(CLOSE_MS_MAX / 1000 + 0.001)
    await stack.until(lambda: connection.is_lost)
    await publisher.declare("q2")


# ------------------------------------------------------------- how many


async def test_too_many_are_refused_until_one_leaves(
    make_stack: Callable[..., Stack], caplog: pytest.LogCaptureFixture
):
    stack = make_stack(connections_max=2)
    first, second = await stack.client(), await stack.client()
    third = await stack.connect()
    await third.ends()
    assert "connection from 127.0.0.1 refused: limits.connections_max" in caplog.text
    assert (await first.declare("q")) == "q"
    second.close()
    await stack.until(lambda: len(stack.turns.links) == 1)
    assert (await (await stack.client()).declare("q2")) == "q2"


async def closed(stack: Stack) -> Client:
    """A peer that has closed its connection and not its socket."""
    client = await stack.client()
    await client.call(ConnectionClose(200, "bye"), ConnectionCloseOk, channel=0)
    return client


async def test_who_has_closed_keeps_nobody_out(make_stack: Callable[..., Stack]):
    stack = make_stack(connections_max=2)
    first, second = await closed(stack), await closed(stack)
    await (await stack.client()).declare("q")
    await first.ends()
    await second.call(ConnectionClose(200, "bye"), ConnectionCloseOk, channel=0)


async def test_of_those_that_have_closed_so_many_are_kept(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(turns, "AWAITING_EOF_MAX", 2)
    peers = [await closed(stack) for _ in range(3)]
    await peers[0].ends()
    assert len(stack.turns.links) == 2
    # The broker's end does not wait for the others.
    await asyncio.wait_for(stack.turns.without_links(), PATIENCE_S)


class FailingSocket(socket.socket):
    """A listening socket that cannot accept for a while."""

    failures = 2

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def test_accepting_goes_on_when_it_is_possible_again(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(listener, "ACCEPT_PAUSE_S", 0.01)
    (bound,) = bind(["127.0.0.1"], 0)
    failing = FailingSocket(bound.family, bound.type, bound.proto, bound.detach())
    failing.setblocking(False)
    stack.listener.stop()
    stack.listener = Listener(
        [failing], stack.broker, stack.turns, handshake_ms=10_000, connections_max=10
    )
    stack.listener.start()
    stack.port = failing.getsockname()[1]
    client = await stack.client()
    await client.declare("q")
    errors = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert errors == ["cannot accept a connection: [Errno 24] Too many open files"] * 2


async def test_who_is_here_stays_when_nobody_else_may_come(stack: Stack):
    client = await stack.client()
    stack.listener.stop()
    stack.listener.stop()
    with pytest.raises(ConnectionRefusedError):
        await stack.connect()
    assert await client.declare("q") == "q"


# ------------------------------------------------------------- what may block


async def test_work_is_done_on_a_thread_and_finished_on_the_loop(stack: Stack):
    threads: list[threading.Thread] = []
    finished = asyncio.Event()

    def work() -> None:
        threads.append(threading.current_thread())

    def done() -> None:
        threads.append(threading.current_thread())
        finished.set()

    on_thread(stack.turns)(work, done)
    await asyncio.wait_for(finished.wait(), PATIENCE_S)
    assert threads[0] is not threading.main_thread()
    assert threads[1] is threading.main_thread()
