"""What peers make leaves no cycles, which only full collections would free; those stay short."""

import io
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pika
import pyarrow as pa
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from leporid.testing.process import BrokerProcess

PROGRAM = Path(__file__).with_name("without_collector.py")
PATIENCE_S = 20.0


class Asked:
    """A broker that says what only its collector would free."""

    def __init__(self, broker: BrokerProcess, path: Path) -> None:
        self.broker = broker
        self._path = path
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{broker.http_port}", auth=("guest", "guest")
        )

    def connect(self, password: str = "guest") -> pika.BlockingConnection:
        credentials = pika.PlainCredentials("guest", password)
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.broker.amqp_port, credentials=credentials)
        )

    def raw(self, data: bytes) -> None:
        """Send some bytes, and leave once there is an answer."""
        with socket.create_connection(("127.0.0.1", self.broker.amqp_port)) as sock:
            sock.sendall(data)
            sock.recv(1000)

    def cut(self, connection: pika.BlockingConnection) -> None:
        """Reset a connection instead of closing it."""
        transport = connection._impl._transport
        transport._sock.shutdown(socket.SHUT_RDWR)
        with pytest.raises(AMQPError):
            connection.close()

    def garbage(self) -> dict[str, int]:
        """The objects that no reference leads to, by type, when all connections are gone."""
        deadline = time.monotonic() + PATIENCE_S
        while "\nrabbitmq_connections 0.0\n" not in (metrics := self.http.get("/metrics").text):
            assert time.monotonic() < deadline, metrics
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(self._path))
            answer = b"".join(iter(lambda: sock.recv(65536), b""))
        found: dict[str, int] = json.loads(answer)
        return found


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A broker that collects only when it is asked."""
    folder = tmp_path_factory.mktemp("garbage")
    path = folder / "ask"
    command = [sys.executable, str(PROGRAM), str(path), "serve"]
    with BrokerProcess(folder / "data", command=command) as broker:
        found = Asked(broker, path)
        # What is loaded soon after the start has been, once somebody was answered who needs it.
        kind = {"Content-Type": "application/vnd.apache.arrow.stream"}
        answer = found.http.post("/api/publish/%2F/amq.fanout", content=b"no table", headers=kind)
        assert answer.status_code == httpx.codes.BAD_REQUEST, answer.text
        yield found
        found.http.close()


def ignore(*_: object) -> None:
    """A consumer that leaves its deliveries unsettled."""


def logins(asked: Asked) -> None:
    asked.connect().close()
    asked.raw(b"AMQP\0\0\x09\x01")
    asked.raw(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(AMQPError):
        asked.connect("wrong")


def faults(asked: Asked) -> None:
    for cut in (False, True):
        connection = asked.connect()
        channel = connection.channel()
        with pytest.raises(AMQPError):
            channel.queue_declare("there-is-none", passive=True)
        channel = connection.channel()
        channel.queue_declare("own", exclusive=True)
        channel.basic_consume("own", ignore)
        channel.confirm_delivery()
        channel.basic_publish("", "own", b"x")
        transaction = connection.channel()
        transaction.tx_select()
        transaction.basic_publish("", "own", b"x")
        transaction.tx_commit()
        transaction.basic_publish("", "own", b"x")
        if cut:
            asked.cut(connection)
        else:
            connection.close()


def definitions(asked: Asked) -> None:
    connection = asked.connect()
    channel = connection.channel()
    for kind in ("direct", "topic", "headers", "fanout", "x-recent-history", "x-consistent-hash"):
        arguments = {"x-dead-letter-exchange": "amq.fanout", "x-message-ttl": 1, "x-max-length": 2}
        channel.queue_declare("q", durable=True, arguments=arguments)
        channel.exchange_declare("e", kind, durable=True)
        channel.exchange_bind("e", "amq.topic", "1.*")
        channel.queue_bind("q", "e", "1", {"k": 1, "x-filter-sql": "k = 1"})
        channel.queue_bind("q", "e", "1", {"k": 2})
        channel.basic_consume("q", ignore, arguments={"x-filter-sql": "k = 1"})
        channel.basic_consume("q", ignore)
        for _ in range(4):
            properties = pika.BasicProperties(headers={"k": 1})
            channel.basic_publish("e", "1", b"x", properties)
            channel.basic_publish("amq.topic", "1.1", b"x", properties)
        channel.queue_unbind("q", "e", "1", {"k": 2})
        connection.process_data_events(0)
        channel.queue_delete("q")
        channel.exchange_delete("e")
    connection.close()


def full_queues(asked: Asked) -> None:
    connection = asked.connect()
    channel = connection.channel()
    for overflow in ("drop-head", "reject-publish", "reject-publish-dlx"):
        arguments = {"x-max-length": 1, "x-overflow": overflow, "x-dead-letter-exchange": "e"}
        channel.queue_declare("q", arguments=arguments)
        for _ in range(3):
            channel.basic_publish("", "q", b"x")
        channel.queue_delete("q")
    connection.close()


def delays(asked: Asked) -> None:
    connection = asked.connect()
    channel = connection.channel()
    channel.exchange_declare("d", "x-delayed-message", arguments={"x-delayed-type": "direct"})
    channel.queue_declare("q")
    channel.queue_bind("q", "d", "k")
    for delay_ms in (1, 100_000):
        properties = pika.BasicProperties(headers={"x-delay": delay_ms})
        channel.basic_publish("d", "k", b"x", properties)
    channel.exchange_delete("d")
    channel.queue_delete("q")
    connection.close()


def read_stream(channel: BlockingChannel, **arguments: object) -> None:
    """Have a consumer of the stream `s` for one message."""
    channel.basic_qos(prefetch_count=1)
    for _, _, body in channel.consume("s", arguments=arguments, inactivity_timeout=PATIENCE_S):
        assert body is not None
        break
    channel.cancel()


def streams(asked: Asked) -> None:
    connection = asked.connect()
    channel = connection.channel()
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    channel.basic_publish("", "s", b"x")
    arguments: tuple[dict[str, object], ...] = (
        {"x-stream-offset": "first"},
        {"x-stream-offset": "first", "x-filter-sql": "k IS NULL"},
        {"x-group": "g", "x-stream-offset": "first"},
    )
    for each in arguments:
        reading = connection.channel()
        read_stream(reading, **each)
        reading.close()
    records = asked.http.get("/api/streams/%2F/s/records", params={"from": 0})
    assert records.status_code == httpx.codes.OK, records.text
    channel.queue_delete("s")
    connection.close()


def requests(asked: Asked) -> None:
    policy = "/api/policies/%2F/p"
    for _ in range(3):
        made = asked.http.put(policy, json={"pattern": "^x", "definition": {"max-length": 1}})
        assert made.is_success, made.text
        assert asked.http.put(policy, content=b"{").is_client_error
        assert asked.http.delete(policy).is_success
        assert asked.http.get("/there-is-none").is_client_error
        refused = asked.http.get("/api/streams/%2F", auth=("guest", "wrong"))
        assert refused.status_code == httpx.codes.UNAUTHORIZED


def uploads(asked: Asked) -> None:
    table = pa.table({"body": pa.array([b"x"], pa.binary())})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    for body, is_table in ((sink.getvalue(), True), (sink.getvalue()[:50], False)):
        answer = asked.http.post(
            "/api/publish/%2F/amq.fanout",
            content=body,
            headers={"content-type": "application/vnd.apache.arrow.stream"},
        )
        assert answer.is_success == is_table, answer.text


@pytest.mark.parametrize(
    "use", [logins, faults, definitions, full_queues, delays, streams, requests, uploads]
)
def test_what_peers_make_leaves_no_cycles(asked: Asked, use: Callable[[Asked], None]) -> None:
    use(asked)
    asked.garbage()  # what is made once, as when a parser is loaded
    use(asked)
    assert asked.garbage() == {}


LOADING = """
import gc
from leporid.server.garbage import without_collections
for collects in (True, False):
    gc.enable() if collects else gc.disable()
    try:
        with without_collections():
            assert not gc.isenabled()
            raise ImportError
    except ImportError:
        assert gc.isenabled() is collects
"""


def test_while_modules_are_loaded_there_are_no_collections() -> None:
    subprocess.run([sys.executable, "-c", LOADING], check=True)


COLLECTING = """
import gc, sys, time
from leporid.server import garbage
looked_at = []
def look(phase, info):
    if phase == "start" and info["generation"] == 2:
        looked_at.append(len(gc.get_objects(2)))
gc.callbacks.append(look)
before = gc.get_threshold(), list(gc.callbacks)
there = [[i] for i in range(200_000)]
with garbage.bounded_collections():
    looked_at.clear()
    garbage.FULL_NS = int(sys.argv[1])
    kept = [[i] for i in range(500_000)]
    print(max(looked_at))
assert (gc.get_threshold(), gc.callbacks, gc.get_freeze_count()) == (*before, 0)
"""


@pytest.mark.parametrize(("full_ns", "frozen"), [(0, True), (10**12, False)])
def test_a_full_collection_looks_only_at_what_came_since_the_last_slow_one(
    full_ns: int, frozen: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLLECTING, str(full_ns)], capture_output=True, text=True, check=True
    )
    assert (int(done.stdout) < 5_000) is frozen


REPLACING = """
import gc, sys
from collections import deque
from leporid.server import garbage
looked_at = []
def look(phase, info):
    if phase == "start":
        ages = range(info["generation"] + 1)
        looked_at.append(sum(len(gc.get_objects(age)) for age in ages))
gc.callbacks.append(look)
handled = 0
churned = garbage.GarbageTrigger(lambda: handled)
with garbage.bounded_collections():
    garbage.FULL_NS = 0
    there = deque([i] for i in range(100_000))
    looked_at.clear()
    for turn in range(1_000):
        for method in range(100):
            there.append([method])
            there.popleft()
            handled += 1
        if sys.argv[1] == "look" and churned.next_due_ms:
            churned.run(0)
    more = [[i] for i in range(10_000)]
print(max(looked_at))
"""


@pytest.mark.parametrize(("how", "few"), [("look", True), ("nothing", False)])
def test_what_replaces_what_goes_is_looked_at_in_time(how: str, few: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REPLACING, how], capture_output=True, text=True, check=True
    )
    assert (int(done.stdout) < 10_000) is few
