"""The listener: deadlines, heartbeats, and how many may be here at a time."""

import asyncio
import socket
import threading
from collections.abc import Callable

import pytest
from tests.server.client import HEARTBEAT, PATIENCE_S, Client, published
from tests.server.stack import OTHER_USER, Clock, Stack

from leporid.amqp.constants import PROTOCOL_HEADER
from leporid.amqp.errors import ConnectionForced
from leporid.amqp.frames import frame, method_frame
from leporid.amqp.methods import (
    BasicGet,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
)
from leporid.server import link, listener, turns
from leporid.server.listener import (
    CLOSE_MS_MAX,
    HANDSHAKE_BYTES_MAX,
    HANDSHAKE_MS_MIN,
    KEEPALIVE,
    on_thread,
)

CLOSE_S = CLOSE_MS_MAX / 1000


@pytest.fixture(autouse=True)
def _patient_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends a link here is the listener, not the moment after last words."""
    monkeypatch.setattr(link, "LINGER_S", PATIENCE_S)


# ------------------------------------------------------------- who shares a turn with whom


async def test_connections_of_a_user_share_a_party_and_strangers_that_of_their_address(
    make_stack: Callable[..., Stack],
):
    stack = make_stack()
    first, second = await stack.client(), await stack.client()
    other = await (await stack.connect()).log_in(user=OTHER_USER)
    near, too, far = [await stack.connect(source=f"127.0.0.{at}") for at in (1, 1, 2)]
    await stack.until(lambda: len(stack.turns.links) == 6)
    party = {each: stack.link_of(each).connection.party for each in stack.clients}
    assert party[first] is party[second]
    assert party[near] is party[too]
    assert len({id(party[each]) for each in (first, other, near, far)}) == 4


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
    # What is not read when a socket is closed becomes a reset.
    await stack.until(lambda: stack.link_of(dripping).connection.received_bytes == 5)
    clock.move(0.001)
    for client in (silent, greeted, dripping):
        await client.ends()
    await opened.call(ChannelOpen(), ChannelOpenOk, channel=2)
    assert len(stack.broker.sessions) == 1
    why = "the virtual host was not open after 3 s (limits.handshake_seconds)"
    assert len([each for each in caplog.messages if each.endswith(why)]) == 3


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
    await client.publish("nowhere")
    await client.hear(ConnectionBlocked)
    await client.write(HEARTBEAT)
    clock.move(1000.0)
    stack.listener.look()
    # The listener looks before anything is read.
    stack.set_alarm("memory", False)
    stack.listener.look()
    await client.hear(ConnectionUnblocked)
    await client.declare("q2")


# ------------------------------------------------------------- peers that are not read


async def test_tcp_asks_a_silent_peer_whether_it_is_there(stack: Stack):
    sock = stack.link_of(await stack.client()).sock
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    times = [sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in KEEPALIVE]
    assert times == [30, 10, 3]


async def test_a_peer_that_takes_nothing_is_dead_after_three_heartbeats(
    stack: Stack, clock: Clock, caplog: pytest.LogCaptureFixture
):
    deaf = await stack.client(heartbeat_s=10, receive_bytes=16384)
    connection = stack.link_of(deaf).connection
    queue = stack.broker.vhosts["/"].queue(await deaf.declare("q"))
    stack.engine.publish([queue.engine], "", "q", b"\0\0", bytes(20_000_000))
    await deaf.say(BasicGet(queue="q", no_ack=True))
    await stack.until(lambda: not connection.reading)

    def ended() -> bool:
        clock.move(0.5)
        return connection.is_lost

    await stack.until(ended)
    assert "missed heartbeats: it took nothing of its output for " in caplog.text
    assert 30_000 < stack.engine.clock.now_ms - connection.output.last_sent_ms < 32_000


async def block(stack: Stack, *publishers: Client) -> None:
    """Raise an alarm, and have them publish."""
    stack.set_alarm("memory", True)
    for each in publishers:
        await each.publish("nowhere")
    await stack.until(lambda: all(stack.link_of(each).connection.blocked for each in publishers))


async def test_the_system_ends_one_that_acknowledges_nothing_while_it_is_not_read(
    stack: Stack, clock: Clock
):
    client = await stack.client(heartbeat_s=10)
    link = stack.link_of(client)

    def limit_ms() -> int:
        stack.listener.look()
        return link.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)

    assert limit_ms() == 0
    await block(stack, client)
    assert limit_ms() == 30_000
    # Who is read says itself that it lives, and may take its time.
    stack.set_alarm("memory", False)
    await stack.until(lambda: link.connection.reading)
    assert limit_ms() == 0


async def test_a_blocked_publisher_is_spoken_to(
    make_stack: Callable[..., Stack], clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(listener, "TICK_S", 3600.0)  # who looks is this test alone
    stack = make_stack()
    found = [await stack.client(heartbeat_s=heartbeat_s) for heartbeat_s in (60, 0, 0)]
    connections = [stack.link_of(each).connection for each in found]
    # The third is in the middle of a message.
    message = published("q", bytes(200_000), frame_max=4096)
    await found[2].write(message[:100_000])
    await stack.until(lambda: connections[2].content_count == 1)
    await block(stack, *found[:2])
    await found[2].write(message[100_000:])
    await stack.until(lambda: connections[2].blocked)
    sent = [0, 0, 0]
    for _ in range(40):
        clock.move(0.2)
        before = [connection.output.last_sent_ms for connection in connections]
        stack.listener.look()
        stack.turns.turn()
        for number, connection in enumerate(connections):
            sent[number] += connection.output.last_sent_ms != before[number]
    assert sent == [20, 2, 20]
    for _ in range(20):
        await found[0].heartbeat()


async def test_many_blocked_publishers_take_turns(
    make_stack: Callable[..., Stack], clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(listener, "TICK_S", 3600.0)  # who looks is this test alone
    monkeypatch.setattr(listener, "PROBES_A_TICK", 2)
    stack = make_stack()
    await block(stack, *[await stack.client(heartbeat_s=60) for _ in range(8)])
    clock.move(0.4)
    stack.listener.look()
    stack.turns.turn()
    before = stack.engine.connections.sent_bytes
    for _ in range(33):
        clock.move(0.1)
        stack.listener.look()
        stack.turns.turn()
    assert stack.engine.connections.sent_bytes - before == 2 * 8 * len(HEARTBEAT)


async def test_whoever_left_is_forgotten_before_all_others_were_looked_at(
    make_stack: Callable[..., Stack], monkeypatch: pytest.MonkeyPatch
):
    """Or thousands that left in the meantime are freed at once."""
    monkeypatch.setattr(listener, "TICK_S", 3600.0)
    stack = make_stack()
    for _ in range(3):
        await stack.client()
    links = list(stack.turns.links.values())
    steps = stack.listener._look_at_all(links)
    next(steps)
    assert len(links) == 2
    assert len([*steps]) == 2
    assert not links


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


async def test_another_limit_holds_for_who_comes(make_stack: Callable[..., Stack]):
    stack = make_stack(connections_max=40)
    mine = [await stack.client() for _ in range(38)]
    stack.listener.set_connections_max(20)
    refused = await stack.connect()
    await refused.ends()
    # Nobody was closed; and those that had slots of the last part end as others do.
    assert len(stack.turns.links) == 38
    for client in mine[10:]:
        client.close()
    await stack.until(lambda: len(stack.turns.links) == 10)
    assert (await (await stack.client()).declare("q")) == "q"
    stack.listener.set_connections_max(5)
    await (await stack.connect()).ends()


async def test_one_user_leaves_some_connections_to_others(make_stack: Callable[..., Stack]):
    stack = make_stack(connections_max=40)
    # 36 by who comes first, and half of the last 4.
    mine = [await stack.client() for _ in range(38)]
    refused = await stack.connect()
    with pytest.raises(AssertionError) as failure:
        await refused.log_in()
    assert "530" in str(failure.value)
    assert "user connection limit is reached: limits.connections_max" in str(failure.value)
    assert stack.broker.refusals.by_kind["user_connections"] == 1
    refused.close()
    await stack.until(lambda: len(stack.turns.links) == 38)
    other = await (await stack.connect()).log_in(user=OTHER_USER)
    assert (await other.declare("q")) == "q"
    for client in (mine.pop(), mine.pop()):
        client.close()
    await stack.until(lambda: len(stack.turns.links) == 37)
    assert (await (await stack.client()).declare("q2")) == "q2"


async def test_who_leaves_makes_room_whether_they_came_first_or_last(
    make_stack: Callable[..., Stack],
):
    stack = make_stack(connections_max=40)
    clients = [await stack.client() for _ in range(38)]
    # Of the last four, one user has two, the other one, which is as many as are free.
    await (await stack.connect()).log_in(user=OTHER_USER)
    for client in clients[:2]:
        client.close()
    await stack.until(lambda: len(stack.turns.links) == 37)
    for user in (OTHER_USER, "guest"):
        newcomer = await (await stack.connect()).log_in(user=user)
        assert (await newcomer.declare(user)) == user


async def test_a_connection_that_is_closed_counts_no_more(make_stack: Callable[..., Stack]):
    stack = make_stack(connections_max=40)
    for client in [await stack.client() for _ in range(38)]:
        # The sockets stay open.
        await client.say(ConnectionClose(200, "bye"), channel=0)
    await stack.until(lambda: not stack.turns.entered)
    for _ in range(38):
        await stack.client()


ELSEWHERE = "127.0.0.2"


async def accepted(stack: Stack, source: str = "") -> Client:
    """A peer that says nothing; another may come after it."""
    before = set(stack.turns.links)
    client = await stack.connect(source=source)
    await stack.until(lambda: bool(set(stack.turns.links) - before))
    return client


async def test_without_a_login_the_oldest_goes_of_the_address_with_most(
    make_stack: Callable[..., Stack], caplog: pytest.LogCaptureFixture
):
    stack = make_stack(handshakes_max=5)
    known = await stack.client()
    first, second, *rest = [await accepted(stack) for _ in range(5)]
    one, two = await accepted(stack, ELSEWHERE), await accepted(stack, ELSEWHERE)
    await first.ends()
    await second.ends()
    # Those of the other address were not asked to go, nor who is logged in.
    for client in (one, two, *rest):
        await client.log_in()
    await known.declare("q")
    assert stack.broker.refusals.by_kind["handshakes"] == 2
    said = [each for each in caplog.messages if "that have not logged in are closed" in each]
    assert len(said) == 1
    assert "(at most 5 may be without a login)" in said[0]
    assert len(stack.turns.handshakes) == 0


async def test_one_address_makes_room_for_itself_when_its_oldest_had_time(
    make_stack: Callable[..., Stack], clock: Clock
):
    stack = make_stack(handshakes_max=3)
    first = await accepted(stack)
    clock.move(HANDSHAKE_MS_MIN / 1000 - 0.001)
    rest = [await accepted(stack) for _ in range(2)]
    await (await stack.connect()).ends()
    clock.move(0.001)
    newcomer = await stack.client()
    await first.ends()
    for client in rest:
        await client.log_in()
    await newcomer.declare("q")
    assert stack.broker.refusals.by_kind["handshakes"] == 2


async def test_for_the_last_place_nobody_is_closed_in_the_middle_of_a_handshake(
    make_stack: Callable[..., Stack],
):
    """Else those who come at once would close one another, and none got in."""
    stack = make_stack(connections_max=2)
    await stack.client()
    handshaking = await accepted(stack)
    await (await stack.connect(source=ELSEWHERE)).ends()
    await handshaking.log_in()
    assert stack.broker.refusals.by_kind["connections"] == 1


async def test_silent_peers_use_up_no_connections(make_stack: Callable[..., Stack]):
    stack = make_stack(connections_max=4)
    silent = [await accepted(stack) for _ in range(4)]
    client = await (await stack.connect(source=ELSEWHERE)).log_in()
    await client.declare("q")
    await silent[0].ends()


async def test_who_was_refused_counts_until_the_socket_is_closed(
    make_stack: Callable[..., Stack],
):
    stack = make_stack(handshakes_max=1)
    refused = await stack.connect()
    await refused.greet()
    await refused.say(
        ConnectionStartOk(
            client_properties={"capabilities": {"authentication_failure_close": True}},
            response=b"\0guest\0wrong",
        ),
        channel=0,
    )
    assert (await refused.hear(ConnectionClose)).reply_code == 403
    assert len(stack.turns.handshakes) == 1
    refused.close()
    await stack.until(lambda: not stack.turns.handshakes)


async def test_before_the_login_a_peer_may_send_so_much(
    stack: Stack, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    greeted = await stack.connect()
    await greeted.greet()
    await greeted.write(HEARTBEAT * (HANDSHAKE_BYTES_MAX // len(HEARTBEAT)))
    await greeted.ends()
    assert f"more than {HANDSHAKE_BYTES_MAX} bytes were received before the login" in caplog.text
    # Afterwards, and together with the login, as much as anybody likes.
    client = await stack.connect()
    await client.greet()
    login = method_frame(0, ConnectionStartOk(response=b"\0guest\0guest"))
    opening = [ConnectionTuneOk(2047, 131072, 0), ConnectionOpen("/")]
    await client.write(
        login + b"".join(method_frame(0, each) for each in opening) + HEARTBEAT * 20_000
    )
    await client.hear(ConnectionTune)
    await client.hear(ConnectionOpenOk)
    await client.call(ChannelOpen(), ChannelOpenOk)


SECRET = b"hunter2-hunter2-"
START_OK = ConnectionStartOk(mechanism="PLAIN", response=b"\0guest\0" + SECRET).encode()
# Whatever a client may send that was told to send a password.
SLIPS: dict[str, tuple[bytes, ...]] = {
    "instead of the protocol's header": (SECRET,),
    "behind AMQP": (b"AMQP" + SECRET,),
    "a frame of no type": (PROTOCOL_HEADER, frame(99, 0, SECRET)),
    "no frame": (PROTOCOL_HEADER, SECRET),
    "a frame without an end": (PROTOCOL_HEADER, frame(1, 0, SECRET)[:-1] + SECRET),
    "a heartbeat": (PROTOCOL_HEADER, frame(8, 1, SECRET)),
    "content": (PROTOCOL_HEADER, frame(3, 1, SECRET)),
    "a short method": (PROTOCOL_HEADER, frame(1, 0, SECRET[:3])),
    "no method": (PROTOCOL_HEADER, frame(1, 0, SECRET)),
    "a method on a channel": (PROTOCOL_HEADER, frame(1, 1, SECRET)),
    "another method": (PROTOCOL_HEADER, frame(1, 0, b"\0\x32\0\x0a" + SECRET)),
    "a login with more behind it": (PROTOCOL_HEADER, frame(1, 0, START_OK + SECRET)),
    "a login cut short": (PROTOCOL_HEADER, frame(1, 0, START_OK[:-8])),
    "a table of it": (PROTOCOL_HEADER, frame(1, 0, START_OK[:4] + b"\0\0\0\x10" + SECRET)),
    "as the mechanism": (
        PROTOCOL_HEADER,
        method_frame(0, ConnectionStartOk(mechanism=SECRET.decode(), response=SECRET)),
    ),
    "a response of another shape": (
        PROTOCOL_HEADER,
        method_frame(0, ConnectionStartOk(response=SECRET)),
    ),
    "a table as response": (
        PROTOCOL_HEADER,
        method_frame(0, ConnectionStartOk(mechanism="AMQPLAIN", response=SECRET)),
    ),
    "a wrong password": (PROTOCOL_HEADER, frame(1, 0, START_OK)),
}


@pytest.mark.parametrize("name", SLIPS)
async def test_the_log_has_nothing_of_what_was_sent_before_the_login(
    stack: Stack, caplog: pytest.LogCaptureFixture, name: str
):
    caplog.set_level("DEBUG")
    client = await stack.connect()
    await client.write(b"".join(SLIPS[name]))
    # The server's last words; some of them quote what the peer knows itself.
    while await asyncio.get_running_loop().sock_recv(client.sock, 65536):
        pass
    assert caplog.messages
    for part in (SECRET[:3], SECRET[3:7], SECRET[-4:-1]):
        assert part.decode() not in caplog.text
        for separator in (",", ", ", "-", " "):
            assert separator.join(map(str, part)) not in caplog.text
        assert part.hex() not in caplog.text


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

    on_thread(stack.turns, stack.hashers)(work, done)
    await asyncio.wait_for(finished.wait(), PATIENCE_S)
    assert threads[0] is not threading.main_thread()
    assert threads[1] is threading.main_thread()
