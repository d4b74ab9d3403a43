"""Alarms: when the broker runs low on memory or disk, and what publishers and consumers see."""

import asyncio
import logging
import mmap
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.server.client import PATIENCE_S
from tests.server.stack import Stack

from leporid.amqp.errors import ConnectionForced
from leporid.amqp.methods import (
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
)
from leporid.server import alarms as module
from leporid.server.alarms import Alarms, disk_free, memory_there_is, memory_used


class Machine:
    """What the alarms look at, and whom they tell."""

    def __init__(self) -> None:
        self.memory_used = 0
        self.disk_free = 1000
        self.told: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()

    def tell(self, reason: str, on: bool) -> None:
        self.told.put_nowait((reason, on))

    def hold(self, held: bool) -> None:
        self.told.put_nowait(("hold", held))

    async def next_told(self) -> tuple[str, bool]:
        return await asyncio.wait_for(self.told.get(), PATIENCE_S)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(module, "memory_used", lambda: machine.memory_used)
    monkeypatch.setattr(module, "disk_free", lambda _: machine.disk_free)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 0.001)
    monkeypatch.setattr(module, "give_back_freed_memory", lambda: None)
    return machine


@pytest.fixture
async def alarms(machine: Machine, tmp_path: Path) -> AsyncIterator[Alarms]:
    alarms = Alarms(
        tmp_path, memory_bytes_max=500, disk_free_min=100, tell=machine.tell, hold=machine.hold
    )
    yield alarms
    alarms.stop()


async def test_each_alarm_is_told_once_when_it_begins_and_once_when_it_ends(
    machine: Machine, alarms: Alarms, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING)
    machine.memory_used = 501
    assert await machine.next_told() == ("memory", True)
    machine.disk_free = 99
    assert await machine.next_told() == ("disk", True)
    machine.memory_used = 500
    assert await machine.next_told() == ("memory", False)
    machine.disk_free = 100
    assert await machine.next_told() == ("disk", False)
    assert machine.told.empty()
    assert caplog.messages == [
        "alarm: low on memory; publishers are blocked",
        "alarm: low on disk; publishers are blocked",
        "alarm over: memory",
        "alarm over: disk",
    ]


async def test_the_broker_itself_stops_beyond_an_alarm(machine: Machine, alarms: Alarms):
    machine.memory_used = 625
    assert await machine.next_told() == ("memory", True)
    machine.memory_used = 626
    assert await machine.next_told() == ("hold", True)
    machine.memory_used = 625
    assert await machine.next_told() == ("hold", False)
    machine.disk_free = 79
    assert [await machine.next_told() for _ in range(2)] == [("disk", True), ("hold", True)]
    machine.disk_free = 80
    assert await machine.next_told() == ("hold", False)


async def test_an_alarm_from_the_beginning(machine: Machine, tmp_path: Path):
    machine.memory_used = 501
    alarms = Alarms(
        tmp_path, memory_bytes_max=500, disk_free_min=100, tell=machine.tell, hold=machine.hold
    )
    assert machine.told.get_nowait() == ("memory", True)
    alarms.stop()


async def test_a_write_that_found_no_room_is_an_alarm_whatever_is_free(
    machine: Machine, alarms: Alarms
):
    alarms.disk_full(True)
    assert machine.told.get_nowait() == ("disk", True)
    # Looking does not end it, as it would if free space alone decided.
    machine.memory_used = 501
    assert await machine.next_told() == ("memory", True)
    alarms.disk_full(False)
    assert machine.told.get_nowait() == ("disk", False)
    machine.disk_free = 99
    assert await machine.next_told() == ("disk", True)
    alarms.disk_full(False)
    assert machine.told.empty()


async def test_while_an_alarm_is_on_its_end_is_looked_for_more_often(
    machine: Machine, alarms: Alarms, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "LOOK_EVERY_S", 10 * PATIENCE_S)
    machine.memory_used = 501
    machine.disk_free = 99
    assert [await machine.next_told() for _ in range(2)] == [("memory", True), ("disk", True)]
    machine.memory_used = 500
    assert await machine.next_told() == ("memory", False)
    machine.disk_free = 100
    assert await machine.next_told() == ("disk", False)


async def test_who_is_at_work_looks_at_memory_but_not_at_each_turn(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "LOOK_EVERY_S", 10 * PATIENCE_S)
    alarms = Alarms(
        tmp_path, memory_bytes_max=500, disk_free_min=100, tell=machine.tell, hold=machine.hold
    )
    alarms.at_work(1000)
    machine.memory_used = 501
    alarms.at_work(1049)
    assert machine.told.empty()
    alarms.at_work(1050)
    assert machine.told.get_nowait() == ("memory", True)
    alarms.stop()


async def test_memory_that_was_freed_is_given_back_and_does_not_count(
    machine: Machine, alarms: Alarms, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 10 * PATIENCE_S)
    threads = []

    def give_back() -> None:
        threads.append(threading.current_thread())
        machine.memory_used = 500

    monkeypatch.setattr(module, "give_back_freed_memory", give_back)
    machine.memory_used = 501
    assert await machine.next_told() == ("memory", True)
    assert await machine.next_told() == ("memory", False)
    assert threads[0] is not threading.main_thread()


async def test_giving_back_takes_a_small_part_of_the_time(
    machine: Machine, alarms: Alarms, monkeypatch: pytest.MonkeyPatch
):
    """What took long is not done again soon, however often somebody looks."""
    given = []

    def give_back() -> float:
        given.append(machine.memory_used)
        return 1.0

    monkeypatch.setattr(module, "_give_back", give_back)
    for _ in range(10):
        machine.memory_used = 501
        assert await machine.next_told() == ("memory", True)
        machine.memory_used = 500
        assert await machine.next_told() == ("memory", False)
    assert given == [501]


async def test_after_the_stop_nobody_looks(machine: Machine, alarms: Alarms, tmp_path: Path):
    alarms.stop()
    machine.memory_used = 501
    later = Alarms(
        tmp_path, memory_bytes_max=600, disk_free_min=100, tell=machine.tell, hold=machine.hold
    )
    machine.disk_free = 99
    assert await machine.next_told() == ("disk", True)
    assert machine.told.empty()
    later.stop()


def test_what_is_looked_at_is_there(tmp_path: Path):
    before = memory_used()
    assert 2**20 < before < memory_there_is()
    # Pages of its own: what Python allocates may lie where something was freed before.
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with mmap.mmap(-1, 2**25, flags=private) as held:
        for at in range(0, len(held), mmap.PAGESIZE):
            held[at] = 1
        assert memory_used() - before > len(held) // 2
    assert disk_free(tmp_path)
    assert disk_free(tmp_path / "gone") is None


# ------------------------------------------------------------- what clients see


async def test_a_publisher_is_told_and_not_read_while_consumers_go_on(stack: Stack):
    consumer = await stack.client(capabilities=("connection.blocked",))
    await consumer.declare("q", auto_delete=True)
    await consumer.consume("q")
    publisher = await stack.client(capabilities=("connection.blocked",))
    unaware = await stack.client()
    await publisher.publish("q", b"before")
    assert (await consumer.delivered())[1] == b"before"
    stack.set_alarm("memory", True)
    # Whoever publishes nothing now is heard, as with RabbitMQ, whatever it did before.
    assert await publisher.declare("q", auto_delete=True) == "q"
    await publisher.publish("q", b"first")
    assert (await publisher.hear(ConnectionBlocked)).reason == "low on memory"
    await unaware.publish("q", b"second")
    stack.set_alarm("disk", True)
    await stack.until(lambda: not stack.link_of(unaware).connection.reading)
    # What consumers ask for is answered; nothing of the publishers came in between.
    await consumer.declare("q", auto_delete=True)
    assert stack.engine.queues.published == 1
    assert not stack.link_of(publisher).connection.reading

    stack.set_alarm("memory", False)
    await consumer.declare("q3")
    assert stack.engine.queues.published == 1
    stack.set_alarm("disk", False)
    assert {(await consumer.delivered())[1] for _ in range(2)} == {b"first", b"second"}
    await publisher.hear(ConnectionUnblocked)
    # Nothing was said to who did not ask to be told.
    assert await unaware.declare("q4") == "q4"


async def test_who_is_blocked_may_still_answer_our_goodbye(stack: Stack):
    client = await stack.client()
    await client.publish("nowhere")
    await stack.until(lambda: stack.engine.queues.unroutable == 1)
    stack.set_alarm("memory", True)
    await client.publish("nowhere")
    stack.link_of(client).session.close_for(ConnectionForced("go"))
    stack.turns.wake()
    await client.hear(ConnectionClose)
    await client.say(ConnectionCloseOk(), channel=0)
    await client.ends()
    assert stack.engine.queues.unroutable == 1
