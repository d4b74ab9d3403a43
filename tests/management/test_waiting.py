"""Waiting for a stream to grow."""

import asyncio

from tests.management.conftest import World

from leporid.management.waiting import Waiting


async def test_it_returns_when_something_is_on_disk(world: World):
    stream, other = world.stream(), world.stream("many")
    waiting = Waiting()
    task = asyncio.create_task(waiting.grown([other, stream], 10))
    await asyncio.sleep(0)
    world.engine.publish([stream], "", "k", b"\0\0", b"")
    await asyncio.sleep(0)
    assert not task.done()
    world.sync()
    assert await task


async def test_it_gives_up(world: World):
    assert not await Waiting().grown([world.stream()], 0.01)


async def test_a_stream_is_watched_as_long_as_anybody_waits(world: World):
    stream = world.stream()
    waiting = Waiting()
    tasks = [asyncio.create_task(waiting.grown([stream], 10)) for _ in range(2)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.gather(tasks[0], return_exceptions=True)
    assert stream.on_synced is not None
    world.fill(stream, 1)
    assert await tasks[1]
    assert stream.on_synced is None
