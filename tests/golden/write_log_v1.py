"""Writes `log-v1/`: a small data directory of format 1, by a real broker and a real client.

    python tests/golden/write_log_v1.py

It was run once, when the format was fixed. What it wrote is kept as it is, so that every later
version can show that it still reads it; a later format gets a directory of its own.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.storage.format_v1 import used  # noqa: E402

from leporid.testing import BrokerProcess  # noqa: E402


def properties(**fields: object) -> pika.BasicProperties:
    return pika.BasicProperties(delivery_mode=2, **fields)


def declare(channel: BlockingChannel) -> None:
    channel.queue_declare("work", durable=True)
    channel.queue_declare("gone", durable=True)
    channel.queue_declare("audit", durable=True, arguments={"x-max-length": 1000})
    channel.exchange_declare("events", "topic", durable=True)
    channel.queue_bind("work", "events", "order.*")
    channel.queue_bind("audit", "events", "#")
    channel.queue_delete("gone")


def first_run(channel: BlockingChannel) -> None:
    declare(channel)
    channel.confirm_delivery()
    for index in range(10):
        channel.basic_publish("", "work", b"plain %d" % index, properties())
    for _ in range(5):
        method, _, _ = channel.basic_get("work")
        channel.basic_ack(method.delivery_tag)
    everything = properties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"text": "grün", "number": -7, "nested": {"list": [1, "two", None]}},
        priority=3,
        correlation_id="c-1",
        reply_to="answers",
        message_id="m-1",
        timestamp=1_700_000_000,
        type="kind",
        user_id="guest",
        app_id="golden",
    )
    channel.basic_publish("events", "order.new", b"to both queues", everything)
    channel.basic_publish("events", "other", b"", properties())
    channel.basic_publish("events", "order.large", b"large " * 1000, properties())


def second_run(channel: BlockingChannel) -> None:
    channel.tx_select()
    channel.basic_publish("", "work", b"committed 1", properties())
    channel.basic_publish("", "audit", b"committed 2", properties())
    channel.tx_commit()
    channel.basic_publish("", "work", b"rolled back", properties())
    channel.tx_rollback()
    method, _, body = channel.basic_get("work")
    assert body == b"plain 5"
    channel.basic_ack(method.delivery_tag)
    channel.tx_commit()
    _, _, body = channel.basic_get("work")
    assert body == b"plain 6"  # delivered and never settled


def write(directory: Path) -> None:
    for steps in (first_run, second_run):
        with BrokerProcess(directory) as broker:
            connection = pika.BlockingConnection(pika.URLParameters(broker.url))
            steps(connection.channel())
            connection.close()
            assert broker.stop() == 0, broker.log_tail()


def main() -> None:
    target = HERE / "log-v1"
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "data"
        write(directory)
        shutil.rmtree(target, ignore_errors=True)
        (target / "log").mkdir(parents=True)
        shutil.copy(directory / "definitions.db", target)
        for path in sorted((directory / "log").iterdir()):
            data = path.read_bytes()[: used(path)]
            (target / "log" / path.name).write_bytes(data)


if __name__ == "__main__":
    main()
