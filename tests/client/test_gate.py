"""Gates: who waits passes in order, and no more than there is room for."""

import asyncio
from typing import Any

import pytest

from leporid.client.errors import ConnectionLost
from leporid.client.gate import AT_ONCE, Gate


class Room:
    """Room that a test makes, and that who passes takes."""

    def __init__(self):
        self.left = 0
        self.asked = 0
        self.error: Any = None
        self.passed: list[int] = []
        self.gate = Gate(self.look)

    def look(self):
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.left

    async def take(self, number):
        await self.gate.passed()
        assert self.left > 0
        self.left -= 1
        self.passed.append(number)

    def more(self, count):
        self.left += count
        self.gate.look()


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


async def waiting(room, count):
    tasks = [asyncio.create_task(room.take(number)) for number in range(count)]
    await turns()
    assert len(room.gate) == count - len(room.passed)
    return tasks


async def test_with_room_nobody_waits():
    room = Room()
    room.left = 1
    await room.take(0)
    assert repr(room.gate) == "<Gate, 0 wait>"


async def test_they_pass_in_order_and_newcomers_wait_behind():
    room = Room()
    tasks = await waiting(room, 5)
    room.more(2)
    late = asyncio.create_task(room.take(5))
    await turns()
    assert room.passed == [0, 1]
    room.more(1)
    await turns()
    room.more(3)
    await asyncio.gather(*tasks, late)
    assert room.passed == [0, 1, 2, 3, 4, 5]


async def test_room_for_one_wakes_one():
    room = Room()
    tasks = await waiting(room, 1000)
    room.asked = 0
    room.more(1)
    await turns()
    assert (len(room.passed), len(room.gate)) == (1, 999)
    assert room.asked < 10
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert len(room.gate) == 0


async def test_all_pass_when_there_is_room_for_all():
    room = Room()
    tasks = await waiting(room, 3 * AT_ONCE + 7)
    room.more(len(tasks))
    await asyncio.gather(*tasks)
    assert room.passed == list(range(len(tasks)))


async def test_who_is_woken_in_vain_keeps_the_place():
    room = Room()
    tasks = await waiting(room, 4)
    room.more(3)
    room.left = 1  # somebody else was quicker
    await turns()
    assert room.passed == [0]
    room.more(3)
    await asyncio.gather(*tasks)
    assert room.passed == [0, 1, 2, 3]


async def test_who_is_woken_and_cancelled_wakes_the_next():
    room = Room()
    tasks = await waiting(room, 3)
    room.more(1)
    tasks[0].cancel()
    await turns()
    assert room.passed == [1]
    tasks[2].cancel()
    await asyncio.wait(tasks)


async def test_everybody_is_told_that_there_will_be_no_room():
    room = Room()
    tasks = await waiting(room, 2 * AT_ONCE)
    room.error = ConnectionLost("gone")
    room.gate.look()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert found == [room.error] * len(tasks)
    with pytest.raises(ConnectionLost):
        await room.gate.passed()
