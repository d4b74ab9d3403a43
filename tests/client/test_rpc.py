"""Calls and servers over a broker in memory, and over a real one."""

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from leporid import testing
from leporid.client import (
    Channel,
    ConnectionLost,
    ConsumerCancelled,
    Delivery,
    LocalProtocolError,
    Message,
    NotFound,
    Returned,
    Timeout,
    connect,
)
from leporid.client.rpc import Rpc, RpcError
from leporid.testing import MemoryBroker


@pytest.fixture
async def memory() -> AsyncIterator[MemoryBroker]:
    async with testing.broker() as memory:
        yield memory


@pytest.fixture
async def channel(memory: MemoryBroker) -> Channel:
    return await (await memory.connect()).channel()


async def double(request: Delivery) -> bytes:
    return str(2 * int(request.body)).encode()


async def test_a_call_is_answered(memory: MemoryBroker, channel: Channel):
    queue = await channel.queue("double")
    server = await (await memory.connect()).channel()
    async with Rpc(server).serve(queue, double), Rpc(channel) as rpc:
        assert (await rpc.call(queue, b"21")).body == b"42"
        assert (await rpc.call(channel.default_exchange, b"4", "double")).body == b"8"
    assert memory.count("double") == (0, 0)


async def test_many_calls_at_a_time(channel: Channel):
    queue = await channel.queue("double")
    async with Rpc(channel) as rpc, rpc.serve(queue, double):
        replies = await asyncio.gather(*(rpc.call(queue, b"%d" % each) for each in range(200)))
    assert [int(each.body) for each in replies] == [2 * each for each in range(200)]


async def test_requests_and_replies_have_properties(channel: Channel):
    queue = await channel.queue("shout")

    async def shout(request: Delivery) -> Message:
        assert request.content_type == "text/plain"
        assert request.headers == {"loud": True}
        return Message(request.body.upper(), content_type="text/shouted", headers={"ok": 1})

    async with Rpc(channel) as rpc, rpc.serve(queue, shout):
        reply = await rpc.call(queue, b"hey", headers={"loud": True}, content_type="text/plain")
    assert (reply.body, reply.content_type, reply.headers) == (b"HEY", "text/shouted", {"ok": 1})


async def test_an_error_for_the_caller_is_told(channel: Channel):
    queue = await channel.queue("fails")

    async def fail(request: Delivery) -> bytes:
        raise RpcError(f"there is no customer {request.body.decode()}")

    async with Rpc(channel) as rpc, rpc.serve(queue, fail):
        with pytest.raises(RpcError, match="there is no customer 4711"):
            await rpc.call(queue, b"4711")


async def test_of_other_errors_the_caller_learns_nothing(
    memory: MemoryBroker, channel: Channel, caplog: pytest.LogCaptureFixture
):
    queue = await channel.queue("fails")

    async def fail(_: Delivery) -> bytes:
        raise ValueError("the password is secret")

    async with Rpc(channel) as rpc, rpc.serve(queue, fail):
        with pytest.raises(RpcError) as told:
            await rpc.call(queue, b"")
    assert str(told.value) == "the handler failed"
    assert "the password is secret" in caplog.text
    assert memory.count("fails") == (0, 0)


async def test_a_request_without_a_queue_is_returned(channel: Channel):
    async with Rpc(channel) as rpc:
        with pytest.raises(Returned):
            await rpc.call(channel.default_exchange, b"", "no-such-queue")


async def test_a_call_that_nobody_answers(memory: MemoryBroker, channel: Channel):
    queue = await channel.queue("ignored")
    async with Rpc(channel) as rpc:
        with pytest.raises(Timeout, match=r"no reply within 0.05 s .* with key 'ignored'"):
            await rpc.call(queue, b"", timeout_s=0.05)
        assert memory.count("ignored").ready == 1
        await memory.advance(0.05)
        assert memory.count("ignored").ready == 0, "the request has not expired"


async def test_a_reply_that_is_too_late_is_nobodys(channel: Channel):
    queue = await channel.queue("slow")
    going = asyncio.Event()

    async def wait(request: Delivery) -> bytes:
        if request.body == b"slow":
            await going.wait()
        return request.body

    async with Rpc(channel) as rpc, rpc.serve(queue, wait):
        with pytest.raises(Timeout):
            await rpc.call(queue, b"slow", timeout_s=0.01)
        going.set()
        assert (await rpc.call(queue, b"fast")).body == b"fast"


async def test_calls_are_told_of_a_lost_connection_and_work_after_it(
    memory: MemoryBroker, channel: Channel
):
    queue = await channel.queue("double")
    async with Rpc(channel) as rpc:
        call = asyncio.create_task(rpc.call(queue, b"1"))
        await memory.settle()
        assert memory.count("double").ready == 1
        memory.disconnect()
        with pytest.raises(ConnectionLost, match="may have been handled"):
            await call
        await queue.purge()
        async with rpc.serve(queue, double):
            assert (await rpc.call(queue, b"2")).body == b"4"


async def test_calls_end_with_their_rpc(channel: Channel):
    queue = await channel.queue("ignored")
    rpc = Rpc(channel)
    call = asyncio.create_task(rpc.call(queue, b""))
    await asyncio.sleep(0)
    while not repr(rpc).startswith("<Rpc with 1"):
        await asyncio.sleep(0)
    await rpc.close()
    await rpc.close()
    with pytest.raises((ConnectionLost, LocalProtocolError)):
        await call
    with pytest.raises(LocalProtocolError, match="closed"):
        await rpc.call(queue, b"")


async def test_a_server_finishes_what_it_has(memory: MemoryBroker, channel: Channel):
    queue = await channel.queue("slow")
    taken, going = asyncio.Event(), asyncio.Event()

    async def wait(request: Delivery) -> bytes:
        taken.set()
        await going.wait()
        return request.body

    async with Rpc(channel) as rpc:
        async with rpc.serve(queue, wait):
            call = asyncio.create_task(rpc.call(queue, b"taken"))
            await taken.wait()
            asyncio.get_running_loop().call_later(0.01, going.set)
        assert (await call).body == b"taken"
    assert memory.count("slow") == (0, 0)


async def test_requests_that_want_no_reply_are_handled(memory: MemoryBroker, channel: Channel):
    queue = await channel.queue("told")
    found = []

    async def note(request: Delivery) -> bytes:
        found.append(request.body)
        return b""

    async with Rpc(channel).serve(queue, note):
        await channel.default_exchange.publish(b"just so", "told")
        await memory.settle()
    assert found == [b"just so"]
    assert memory.count("told") == (0, 0)


async def test_what_is_no_reply_fails_one_call_and_not_the_server(
    memory: MemoryBroker, channel: Channel, caplog: pytest.LogCaptureFixture
):
    queue = await channel.queue("mistakes")

    async def mistake(request: Delivery) -> Any:
        if request.body == b"none":
            return None
        if request.body == b"header":
            return Message(b"", headers={"x": object()})  # type: ignore[dict-item]
        return request.body

    async with Rpc(channel) as rpc, rpc.serve(queue, mistake, concurrency=1):
        for wrong in (b"none", b"header"):
            with pytest.raises(RpcError, match="the handler failed"):
                await rpc.call(queue, wrong, timeout_s=10)
        assert (await rpc.call(queue, b"right", timeout_s=10)).body == b"right"
    assert memory.count("mistakes") == (0, 0)
    assert "must be bytes, not NoneType" in caplog.text


async def test_a_reply_has_the_properties_of_its_message(channel: Channel):
    queue = await channel.queue("typed")

    async def typed(_: Delivery) -> Message:
        return Message(b"{}", type="answer", app_id="shop", content_encoding="utf-8", tag="red")

    async with Rpc(channel) as rpc, rpc.serve(queue, typed):
        reply = await rpc.call(queue, b"")
    assert (reply.type, reply.app_id, reply.content_encoding, reply.tag) == (
        "answer", "shop", "utf-8", "red",
    )  # fmt: skip
    assert not reply.persistent


async def test_calls_are_told_when_their_channel_is_closed_by_another_call(channel: Channel):
    """Replies come to the channel that asked, and to no other one of the connection."""
    queue = await channel.queue("ignored")
    async with asyncio.timeout(10), Rpc(channel) as rpc:
        call = asyncio.create_task(rpc.call(queue, b"1"))
        while await queue.count() == 0:
            pass
        with pytest.raises(NotFound):
            await channel.queue("no-such-queue", passive=True)
        with pytest.raises(ConnectionLost, match="may have been handled"):
            await call
        async with rpc.serve(queue, double):
            assert (await rpc.call(queue, b"2")).body == b"4"


@pytest.mark.parametrize("given_up", [False, True])
async def test_closing_while_the_first_call_begins(channel: Channel, given_up: bool):
    queue = await channel.queue("ignored")
    before = asyncio.all_tasks()
    async with Rpc(channel) as rpc:
        call = asyncio.create_task(rpc.call(queue, b""))
        await asyncio.sleep(0)
        if given_up:
            call.cancel()
    with pytest.raises((LocalProtocolError, asyncio.CancelledError, ConnectionLost)):
        await asyncio.wait_for(call, 10)
    await queue.count()
    assert asyncio.all_tasks() - before == set()
    assert channel.consumers == 0


async def test_a_server_whose_queue_is_deleted_finishes_and_says_so(channel: Channel):
    queue = await channel.queue("short")
    taken, going = asyncio.Event(), asyncio.Event()
    finished = []

    async def wait(request: Delivery) -> bytes:
        taken.set()
        await going.wait()
        finished.append(request.body)
        return b""

    async def serves():
        async with asyncio.timeout(10), Rpc(channel).serve(queue, wait):
            await channel.default_exchange.publish(b"1", "short")
            await taken.wait()
            await queue.delete()
            while channel.consumers:
                await asyncio.sleep(0)
            going.set()

    with pytest.raises(ConsumerCancelled):
        await serves()
    assert finished == [b"1"]


async def test_what_makes_no_sense_is_refused(channel: Channel):
    queue = await channel.queue("double")
    async with Rpc(channel) as rpc:
        with pytest.raises(LocalProtocolError, match="timeout_s"):
            await rpc.call(queue, b"", timeout_s=0)
        with pytest.raises(LocalProtocolError, match="routing keys"):
            await rpc.call(queue, b"", "key")
        with pytest.raises(LocalProtocolError, match="concurrency"):
            rpc.serve(queue, double, concurrency=0)


@pytest.mark.slow
async def test_over_a_real_broker(url: str, name: str, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING)
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(name, expires=timedelta(minutes=1))
        async with Rpc(channel) as rpc, rpc.serve(queue, double):
            assert (await rpc.call(queue, b"21", timeout_s=10)).body == b"42"
