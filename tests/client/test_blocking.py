"""The client that blocks: connections and channels, and what becomes of threads and forks."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import pytest

from leporid import testing
from leporid.client import (
    AccessRefused,
    ConnectFailed,
    LocalProtocolError,
    NotFound,
    PreconditionFailed,
    RpcError,
    blocking,
)
from leporid.client.blocking import Channel, Connection, Delivery, Scheduler
from leporid.client.errors import ApiError
from leporid.testing import BlockingMemoryBroker, BrokerProcess

SECONDS = 20


@pytest.fixture
def memory() -> Iterator[BlockingMemoryBroker]:
    before = set(threading.enumerate())
    with testing.broker() as memory:
        yield memory
    assert set(threading.enumerate()) <= before, "a thread is left"


@pytest.fixture
def connection(memory: BlockingMemoryBroker) -> Iterator[Connection]:
    with memory.connect() as connection:
        yield connection


@pytest.fixture
def channel(connection: Connection) -> Iterator[Channel]:
    with connection.channel() as channel:
        yield channel


def test_what_a_connection_says_of_itself(connection: Connection):
    assert connection.is_open
    assert not connection.is_blocked
    assert connection.server.product == "Leporid"
    assert connection.settings.user == "guest"
    assert "open" in repr(connection)
    connection.update_secret("guest")
    connection.close()
    connection.close()
    assert not connection.is_open


def test_no_thread_is_left_of_a_connection_that_fails(memory: BlockingMemoryBroker):
    before = set(threading.enumerate())
    with pytest.raises(AccessRefused):
        memory.connect(password="wrong")
    with pytest.raises(ConnectFailed):
        blocking.connect("amqp://127.0.0.1:1")
    with pytest.raises(LocalProtocolError):
        blocking.connect("http://127.0.0.1:1")
    assert set(threading.enumerate()) == before


def test_exchanges_queues_and_bindings(memory: BlockingMemoryBroker, channel: Channel):
    exchange = channel.exchange("events", "topic")
    other = channel.exchange("copies", "fanout", auto_delete=True)
    queue = channel.queue("all", message_ttl=timedelta(minutes=1), length_max=10)
    queue.bind(exchange, "a.*")
    other.bind(exchange, "a.b")
    channel.bind(queue, other)
    exchange.publish(b"once", "a.b")
    assert memory.count("all").ready == 1
    channel.unbind(queue, other)
    other.unbind(exchange, "a.b")
    queue.unbind(exchange, "a.*")
    exchange.publish(b"nowhere", "a.b", mandatory=False)
    assert (queue.count(), queue.message_count, queue.name) == (1, 1, "all")
    assert queue.purge() == 1
    exchange.delete()
    channel.delete_exchange("copies")
    assert queue.delete() == 0
    with pytest.raises(NotFound):
        channel.queue("all", passive=True)


def test_a_stream_is_read(channel: Channel):
    stream = channel.stream("log", bytes_max=1_000_000)
    channel.default_exchange.publish_many([b"%d" % each for each in range(10)], "log")
    with stream.read(3) as reader:
        found = [next(reader) for _ in range(7)]
    assert [each.offset for each in found] == list(range(3, 10))


def test_errors_are_those_of_the_client(channel: Channel):
    channel.queue("short", length_max=1)
    with pytest.raises(PreconditionFailed):
        channel.queue("short", length_max=2)
    assert channel.queue("short", length_max=1).name == "short"


def test_a_transaction_takes_effect_as_a_whole(
    memory: BlockingMemoryBroker, connection: Connection, channel: Channel
):
    channel.queue("tasks")
    with connection.channel(confirms=False) as transactional:
        with transactional.transaction():
            transactional.default_exchange.publish(b"one", "tasks")
            transactional.default_exchange.publish(b"two", "tasks")
            memory.settle()
            assert memory.count("tasks").ready == 0
        assert memory.count("tasks").ready == 2
        with suppress(KeyError), transactional.transaction():
            transactional.default_exchange.publish(b"three", "tasks")
            raise KeyError
        assert memory.count("tasks").ready == 2


def test_calls_are_answered_in_threads(channel: Channel):
    queue = channel.queue("double")
    threads = set()

    def double(request: Delivery) -> bytes:
        threads.add(threading.current_thread())
        if not request.body:
            raise RpcError("nothing to double")
        return request.body * 2

    with channel.rpc() as rpc, rpc.serve(queue, double):
        assert rpc.call(queue, b"ab").body == b"abab"
        with pytest.raises(RpcError, match="nothing to double"):
            rpc.call(channel.default_exchange, b"", "double", timeout_s=SECONDS)
    assert threading.current_thread() not in threads


def test_as_many_requests_are_handled_at_a_time_as_was_asked_for(channel: Channel):
    queue = channel.queue("meet")
    together = threading.Barrier(12)

    def meet(_: Delivery) -> bytes:
        together.wait(10)
        return b"met"

    before = threading.active_count()
    with (
        channel.rpc() as rpc,
        rpc.serve(queue, meet, concurrency=12),
        ThreadPoolExecutor(12) as callers,
    ):
        replies = callers.map(lambda _: rpc.call(queue, b"").body, range(12))
        assert list(replies) == [b"met"] * 12
    assert threading.active_count() <= before


def test_a_scheduler(memory: BlockingMemoryBroker, connection: Connection, channel: Channel):
    queue = channel.queue("jobs")
    with Scheduler(connection) as scheduler:
        scheduler.after(60, b"once", "jobs", id="once")
        scheduler.at(memory.now + timedelta(minutes=3), b"late", "jobs", id="late")
        scheduler.every(60, b"again", "jobs")
        memory.advance(125)
        with pytest.raises(ApiError):  # in memory there is no HTTP
            scheduler.list()
        with pytest.raises(ApiError):
            scheduler.cancel("once")
    found = [queue.get(no_ack=True) for _ in range(4)]
    assert sorted(each.body for each in found if each is not None) == [b"again", b"again", b"once"]


def test_several_threads_use_one_connection(memory: BlockingMemoryBroker, channel: Channel):
    channel.queue("tasks")

    def work() -> None:
        for _ in range(50):
            channel.default_exchange.publish(b"x", "tasks")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert memory.count("tasks").ready == 400


def test_a_connection_comes_back(memory: BlockingMemoryBroker, channel: Channel):
    channel.queue("tasks")
    memory.disconnect()
    channel.default_exchange.publish(b"after", "tasks", timeout_s=SECONDS)
    assert memory.count("tasks").ready == 1


def test_after_close_everything_says_so(connection: Connection, channel: Channel):
    queue = channel.queue("tasks")
    connection.close()
    for call in (queue.get, queue.count, connection.channel, channel.rpc):
        with pytest.raises(LocalProtocolError, match="closed"):
            call()
    channel.close()


def test_closing_while_another_thread_closes(
    memory: BlockingMemoryBroker, monkeypatch: pytest.MonkeyPatch
):
    connection = memory.connect()
    begun = threading.Event()

    async def slow(_: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched, ThreadPoolExecutor(1) as other:
        patched.setattr(connection.behind, "close", slow)
        closed = other.submit(connection.close)
        assert begun.wait(10)
        patched.undo()
        connection.close()
        closed.result(10)
    assert connection.is_closed


def test_a_forked_process_is_told(channel: Channel):
    queue = channel.queue("tasks")
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # From Python 3.12 on, a fork beside threads is warned of; that is what this is about.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        try:
            queue.get()
        except LocalProtocolError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        assert b"forked" in told.read()
    os.waitpid(pid, 0)
    assert queue.get() is None


PROGRAM = """
    import sys
    from leporid.client.blocking import connect

    connection = connect(sys.argv[1])
    channel = connection.channel()
    consumer = channel.queue(exclusive=True).consume()
    print("waiting", flush=True)
    {}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("then", "code"),
    [("next(consumer)", -signal.SIGINT), ("connection.close()", 0), ("pass", 0), ("1 / 0", 1)],
    ids=["interrupted", "closed", "left open", "failed"],
)
@pytest.mark.usefixtures("interruptible")  # a program inherits it where a signal is ignored
def test_a_program_ends(broker: BrokerProcess, then: str, code: int):
    """No thread keeps it, whether it has closed its connection or not."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM).format(then), broker.url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        if code < 0:
            process.send_signal(-code)
        _, error = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == code, error
