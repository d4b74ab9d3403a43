"""Backups under load, segments deleted meanwhile, kill -9 in the middle of one."""

from __future__ import annotations

import base64
import contextlib
import http.client
import threading
import time
from pathlib import Path

import pika
import pytest
from pika.exceptions import AMQPError
from tests.crash.conftest import foreign
from tests.crash.load import PERSISTENT, Consumer, Publisher, body_of, drain, number_of

from leporid.storage.backup import restore
from leporid.testing import BrokerProcess

pytestmark = pytest.mark.skipif(foreign, reason="backups are ours")

SECONDS = 30
BULK = bytes(1_000_000)
KILLS = 5


class Bulk(threading.Thread):
    """Publishes large messages and takes them, so that segments come and go, until the end."""

    def __init__(self, url: str) -> None:
        super().__init__(name="bulk")
        self.ending = threading.Event()
        self._url = url

    def run(self) -> None:
        with (
            contextlib.suppress(AMQPError, OSError),
            pika.BlockingConnection(pika.URLParameters(self._url)) as connection,
        ):
            channel = connection.channel()
            channel.queue_declare("bulk", durable=True)
            while not self.ending.is_set():
                for _ in range(20):
                    channel.basic_publish("", "bulk", BULK, PERSISTENT)
                for _ in range(20):
                    while channel.basic_get("bulk", auto_ack=True)[0] is None:
                        pass


class Load:
    """Publisher, consumer and bulk on one broker."""

    def __init__(self, broker: BrokerProcess, first_number: int, target: int) -> None:
        self.publisher = Publisher(broker.url, "both", first_number, target)
        self.consumer = Consumer(broker.url, "worked")
        self.bulk = Bulk(broker.url)
        self.threads = (self.publisher, self.consumer, self.bulk)

    def start(self) -> None:
        for thread in self.threads:
            thread.start()
        assert self.publisher.on_target.wait(SECONDS)

    def join(self) -> None:
        self.bulk.ending.set()
        for thread in self.threads:
            thread.join(SECONDS)


def declare(broker: BrokerProcess) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.exchange_declare("both", "fanout", durable=True)
        for queue in ("kept", "worked"):
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, "both")
        channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_bind("stream", "both")


def settle_some(broker: BrokerProcess) -> None:
    """Settle messages, and have it on disk: a confirm on the same channel says so."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("settled", durable=True)
        for number in range(50):
            channel.basic_publish("", "settled", body_of(number), PERSISTENT)
        for _ in range(50):
            channel.basic_ack(channel.basic_get("settled")[0].delivery_tag)
        channel.basic_publish("", "settled", body_of(99), PERSISTENT)


def ask(broker: BrokerProcess, method: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=SECONDS)
    try:
        login = base64.b64encode(b"guest:guest").decode()
        connection.request(method, path, headers={"Authorization": f"Basic {login}"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def segments(directory: Path) -> set[str]:
    return {path.name for path in (directory / "log").iterdir()}


def numbers_in(broker: BrokerProcess, queue: str) -> list[int]:
    return [number_of(body) for body in drain(broker.url, queue)]


def stream_numbers(broker: BrokerProcess) -> list[int]:
    found = []
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=200)
        count = channel.queue_declare("stream", passive=True).method.message_count
        arguments = {"x-stream-offset": "first"}
        for method, _, body in channel.consume("stream", arguments=arguments):
            found.append(number_of(body))
            channel.basic_ack(method.delivery_tag)
            if len(found) == count:
                return found
    return found


@pytest.mark.timeout(300)
def test_a_backup_under_load_has_all_that_was_confirmed(broker: BrokerProcess):
    declare(broker)
    settle_some(broker)
    load = Load(broker, 0, 3000)
    load.start()
    books: dict[str, set[int]] = {}
    gone: set[str] = set()
    seen = segments(broker.data_dir)
    deadline = time.monotonic() + 2 * SECONDS
    # Until segments were deleted between the first backup and the last.
    while (len(books) < 3 or not gone) and time.monotonic() < deadline:
        name = f"b{len(books)}"
        books[name] = set(load.publisher.confirmed)
        status, answer = ask(broker, "PUT", f"/api/backups/{name}")
        assert status == 201, answer
        now = segments(broker.data_dir)
        gone |= seen - now
        seen |= now
    broker.kill()
    load.join()
    assert gone, "no segment was deleted while backups were made"

    last = max(books, key=lambda name: int(name[1:]))
    for name in ("b0", last):
        copy = BrokerProcess(broker.data_dir.with_name(f"from-{name}"))
        restore(broker.data_dir / "backups" / name, copy.data_dir, lambda: None)
        code, report = copy.check()
        assert code == 0, report
        with copy:
            kept, worked = numbers_in(copy, "kept"), numbers_in(copy, "worked")
            assert books[name] - set(kept) == set(), "confirmed before, and not in the backup"
            assert books[name] - set(worked) - set(load.consumer.numbers) == set()
            assert kept == list(range(len(kept))), "in a backup there are no gaps"
            assert stream_numbers(copy) == kept, "log and stream are of one moment"
            assert numbers_in(copy, "settled") == [99], "a settled message came back"
            assert copy.stop() == 0
    # What was started on the copies changed nothing of the broker's own files.
    broker.start()
    assert load.publisher.confirmed - set(numbers_in(broker, "kept")) == set()
    broker.stop()


@pytest.mark.timeout(300)
def test_kills_in_the_middle_of_a_backup(broker: BrokerProcess):
    declare(broker)
    backups = broker.data_dir / "backups"
    confirmed: set[int] = set()
    next_number = 0
    for attempt in range(KILLS):
        load = Load(broker, next_number, 500)
        load.start()
        name = f"b{attempt}"

        def make(name: str = name) -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                ask(broker, "PUT", f"/api/backups/{name}")

        maker = threading.Thread(target=make)
        maker.start()
        deadline = time.monotonic() + SECONDS
        while not list(backups.glob(f"{name}*")) and time.monotonic() < deadline:
            pass
        broker.kill()
        maker.join(SECONDS)
        load.join()
        confirmed |= load.publisher.confirmed
        next_number = load.publisher.next_number
        for left in backups.iterdir():
            # Under its own name it is whole, wherever the kill fell.
            assert left.name.endswith(".unfinished") or (left / "backup.json").exists()
        broker.start()
        assert list(backups.glob("*.unfinished")) == []
    for whole in backups.iterdir():
        code, report = BrokerProcess(whole).check()
        assert code == 0, report
    status, answer = ask(broker, "PUT", "/api/backups/last")
    assert status == 201, answer
    assert confirmed - set(numbers_in(broker, "kept")) == set()
    assert broker.stop() == 0
