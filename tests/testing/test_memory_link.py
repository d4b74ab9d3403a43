"""The two ends of a connection in memory, with protocols of asyncio that are nobody's client."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from tests.engine.frames import HEADER, frames_of

from leporid import testing
from leporid.client.loop_thread import LoopThread
from leporid.testing import MemoryBroker
from leporid.testing.memory_link import HIGH_BYTES, MemoryTransport, rounds_of


class Plain(asyncio.Protocol):
    """Collects what comes."""

    def __init__(self) -> None:
        self.data = b""
        self.ends: list[Exception | None] = []
        self.paused = 0
        self.resumed = 0

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ends.append(exc)

    def pause_writing(self) -> None:
        self.paused += 1

    def resume_writing(self) -> None:
        self.resumed += 1


class Buffered(asyncio.BufferedProtocol):
    """The same, by three bytes at a time."""

    def __init__(self) -> None:
        self.buffer = bytearray(3)
        self.data = b""

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self.buffer[:nbytes]


@pytest.fixture
async def memory() -> AsyncIterator[MemoryBroker]:
    async with testing.broker() as memory:
        yield memory


async def test_bytes_go_both_ways(memory: MemoryBroker):
    plain, buffered = Plain(), Buffered()
    for protocol in (plain, buffered):
        transport = await memory.open(lambda protocol=protocol: protocol)  # type: ignore[misc]
        transport.writelines([HEADER[:3], memoryview(HEADER[3:])])
    await memory.settle()
    (start,) = frames_of(plain.data)
    assert start.ids == (10, 10)
    assert buffered.data == plain.data


async def test_a_transport_says_what_it_is(memory: MemoryBroker):
    transport = await memory.open(Plain)
    assert isinstance(transport, asyncio.Transport)
    assert isinstance(transport.get_protocol(), Plain)
    assert transport.get_extra_info("peername") == ("memory", 0)
    assert (transport.is_reading(), transport.is_closing()) == (True, False)
    assert not transport.can_write_eof()
    assert transport.get_write_buffer_size() == 0
    transport.set_write_buffer_limits(high=1, low=0)
    assert transport.get_write_buffer_limits()[1] == HIGH_BYTES
    assert "open" in repr(transport)
    transport.write_eof()
    assert transport.is_closing()
    await memory.settle()
    assert "closed" in repr(transport)


async def test_a_protocol_that_does_not_read_gets_it_later(memory: MemoryBroker):
    first, second = Plain(), Plain()
    transport = await memory.open(lambda: first)
    transport.pause_reading()
    transport.write(HEADER)
    await memory.settle()
    assert first.data == b""
    transport.set_protocol(second)
    transport.resume_reading()
    await memory.settle()
    assert frames_of(second.data)[0].ids == (10, 10)


async def test_who_writes_more_than_the_broker_reads_is_paused(memory: MemoryBroker):
    protocol = Plain()
    transport = await memory.open(lambda: protocol)
    transport.write(HEADER + bytes(2 * HIGH_BYTES))
    for _ in range(2):
        await asyncio.sleep(0)
    assert (protocol.paused, protocol.resumed) == (1, 0)
    await memory.settle()
    # It is not AMQP, so the broker has ended the connection.
    assert protocol.ends == [None]


@pytest.mark.parametrize("end", [MemoryTransport.close, MemoryTransport.abort])
async def test_the_client_ends_it(memory: MemoryBroker, end):
    protocol = Plain()
    transport = await memory.open(lambda: protocol)
    end(transport)
    end(transport)
    transport.write(HEADER)
    await memory.settle()
    assert (protocol.data, protocol.ends) == (b"", [None])
    assert "connections=0" in repr(memory)


async def test_the_broker_ends_it(memory: MemoryBroker):
    protocol = Plain()
    transport = await memory.open(lambda: protocol)
    transport.write(b"AMQP\0\0\0\0")
    await memory.settle()
    assert (protocol.data, protocol.ends) == (HEADER, [None])
    assert transport.is_closing()
    transport.close()


async def test_what_was_written_before_the_end_arrives(memory: MemoryBroker):
    async with memory.connect() as connection, connection.channel() as channel:
        await channel.queue("tasks")
        for number in range(100):
            task = asyncio.create_task(
                channel.default_exchange.publish(b"%d" % number, "tasks"), name=str(number)
            )
        await task
    assert memory.count("tasks").ready == 100


async def test_a_heartbeat_is_answered(memory: MemoryBroker):
    """The broker's clock stands still, the client's does not."""
    protocol = Plain()
    transport = await memory.open(lambda: protocol)
    transport.write(HEADER)
    await memory.settle()
    before = len(protocol.data)
    transport.write(b"\x08\0\0\0\0\0\0\xce")
    await memory.settle()
    assert [frame.kind for frame in frames_of(protocol.data[before:])] == [8]


def test_a_loop_that_is_closed_is_told_nothing():
    """A client's loop may end before the broker does."""
    with testing.broker() as memory:

        async def leave() -> None:
            transport = await memory.behind.open(Plain)
            transport.write(HEADER)

        asyncio.run(leave())
        memory.settle()
        memory.disconnect()
        memory.settle()


async def test_a_loop_of_another_thread_goes_round_before_it_is_left():
    thread, gate, rounds = LoopThread("other"), threading.Event(), list[int]()
    try:
        loop = thread.call(asyncio.get_running_loop)

        def go_round(left: int) -> None:
            rounds.append(left)
            if left:
                loop.call_soon(go_round, left - 1)

        loop.call_soon_threadsafe(gate.wait, 10)
        loop.call_soon_threadsafe(go_round, 3)
        waiting = asyncio.create_task(rounds_of(loop, 4))
        await asyncio.sleep(0)
        assert not waiting.done()
        gate.set()
        await waiting
        assert rounds == [3, 2, 1, 0]
    finally:
        gate.set()
        thread.stop()
