"""A node: a real broker process, from its ready line to its exit code."""

import asyncio
import contextlib
import os
import re
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from tests.server.client import GARBAGE, HEARTBEAT, PATIENCE_S, Client, published
from tests.server.test_metrics import MEASURED

from leporid.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionStartOk,
    ConnectionTune,
    ExchangeDeclare,
    QueueDeclare,
    QueueDeclareOk,
)
from leporid.amqp.tables import Value
from leporid.server.config import METRICS_PORT
from leporid.server.descriptors import descriptor_places
from leporid.testing import BrokerError, BrokerProcess
from leporid.testing.process import default_command

slow = pytest.mark.slow

LIMITED = """
heartbeat = 7
channel_max = 10
frame_max = 8192
[limits]
handshake_seconds = 1
connections_max = 3
"""
# Less than any broker needs.
LITTLE_MEMORY = 'memory_watermark = "1 MiB"\n'


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker as it is without a configuration."""
    with BrokerProcess(tmp_path_factory.mktemp("node") / "data") as broker:
        yield broker
        assert broker.stop() == 0, broker.log_tail()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker for one test, which may end it."""
    with BrokerProcess(tmp_path / "data") as broker:
        yield broker


@pytest.fixture
def configured(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BrokerProcess]:
    """A broker with the configuration that is the test's parameter."""
    file = tmp_path / "leporid.toml"
    file.write_text(request.param)
    with BrokerProcess(tmp_path / "data", options=["--config", str(file)]) as broker:
        yield broker
        assert broker.stop() == 0, broker.log_tail()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
        yield client


def page(broker: BrokerProcess, name: str) -> str:
    return f"http://127.0.0.1:{broker.http_port}/{name}"


# A broker that says when it makes a parser from a grammar.
SAYS_GRAMMARS = """
import sys, lark
from leporid.cli.main import main
make = lark.Lark.__init__
def say(*arguments, **options):
    sys.stderr.write("a grammar\\n")
    make(*arguments, **options)
lark.Lark.__init__ = say
sys.exit(main())
"""

# ------------------------------------------------------------- start


@slow
async def test_no_peer_waits_for_the_grammars_of_filters(tmp_path: Path):
    command = [sys.executable, "-c", SAYS_GRAMMARS, "serve"]
    with BrokerProcess(tmp_path / "data", command=command) as broker:
        made = broker.log_path.read_text().count("a grammar")
        client = await (await Client.connect(broker.amqp_port)).log_in()
        for dialect in ("jms", "rocketmq"):
            filtered: dict[str, Value] = {"x-filter-sql": "k = 1", "x-filter-dialect": dialect}
            queue = await client.call(QueueDeclare(), QueueDeclareOk)
            consume = BasicConsume(queue=queue.queue, arguments=filtered)
            await client.call(consume, BasicConsumeOk)
        assert broker.log_path.read_text().count("a grammar") == made
        client.close()


@slow
def test_a_data_directory_keeps_its_id(tmp_path: Path):
    ids = []
    for directory in ("data", "data", "other"):
        with BrokerProcess(tmp_path / directory) as broker:
            ids.append((tmp_path / directory / "incarnation").read_text())
            assert broker.stop() == 0, broker.log_tail()
    assert ids[0] == ids[1] != ids[2]


@slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_ready_line_is_all_of_standard_output(tmp_path: Path, number: signal.Signals):
    options = ["--data-dir", str(tmp_path)]
    for port in ("amqp", "http", "metrics"):
        options += [f"--{port}-port", "0"]
    process = await asyncio.create_subprocess_exec(
        *default_command(), *options, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        line = (await process.stdout.readline()).decode()
        found = re.fullmatch(
            r"ready amqp=127\.0\.0\.1:(\d+) http=127\.0\.0\.1:(\d+) "
            r"metrics=127\.0\.0\.1:(\d+) pid=(\d+)\n",
            line,
        )
        assert found is not None, line
        assert int(found[4]) == process.pid
        client = await (await Client.connect(int(found[1]))).log_in()
        client.close()
        process.send_signal(number)
        output, log = await process.communicate()
    assert output == b""
    assert process.returncode == 0
    assert log.splitlines()[-1].endswith(b"stopped")


@slow
def test_one_process_per_data_directory(broker: BrokerProcess):
    code, log = broker.start_refused()
    assert code == 1
    assert f"{broker.data_dir} is in use by process {broker.pid}\n" in log


@slow
def test_a_port_that_is_taken_is_named(broker: BrokerProcess, tmp_path: Path):
    second = BrokerProcess(tmp_path / "data", amqp_port=broker.amqp_port)
    with pytest.raises(BrokerError, match="ended with code 1") as ended:
        second.start()
    taken = f"cannot start: cannot listen on 127.0.0.1:{broker.amqp_port}: Address already in use; "
    assert taken in str(ended.value)
    assert "--amqp-port" in str(ended.value)


@slow
def test_a_data_directory_that_cannot_be_had_is_named(tmp_path: Path):
    file = tmp_path / "data"
    file.write_text("something else")
    code, log = BrokerProcess(file).start_refused()
    assert code == 1
    (line,) = log.splitlines()
    assert f"cannot use the data directory {file}: Not a directory: {file}; --data-dir" in line


SERVE_AND_LIST_MODULES = """
import sys
from leporid.cli.main import main
code = main(["serve", *sys.argv[1:]])
packages = {name.partition(".")[0] for name in sys.modules}
sys.stderr.write(f"loaded: {' '.join(sorted(packages))}\\n")
sys.exit(code)
"""


@slow
@pytest.mark.parametrize("port", ["none", "metrics"])
async def test_a_broker_without_http_loads_none_of_it(tmp_path: Path, port: str):
    """Likewise with a port for metrics, which shows that the test can see what is loaded."""
    options = ["--http-port", "-1", "--metrics-port", "0" if port == "metrics" else "-1"]
    command = [sys.executable, "-c", SERVE_AND_LIST_MODULES]
    broker = BrokerProcess(tmp_path / "data", options=options, command=command)
    with broker:
        assert broker.http_port == 0
        assert (broker.metrics_port != 0) == (port == "metrics")
        client = await (await Client.connect(broker.amqp_port)).log_in()
        await client.declare("q")
        client.close()
        assert broker.stop() == 0
    loaded = broker.log_tail().splitlines()[-1].split()
    assert loaded[0] == "loaded:"
    web = {"starlette", "uvicorn", "h11", "prometheus_client", "pyarrow"} & set(loaded)
    expected = {"starlette", "uvicorn", "h11", "prometheus_client"} if port == "metrics" else set()
    assert web == expected


@slow
async def test_the_port_for_metrics(tmp_path: Path, http: httpx.AsyncClient):
    with BrokerProcess(tmp_path / "data", options=["--metrics-port", "0"]) as broker:
        client = await (await Client.connect(broker.amqp_port)).log_in()
        await client.declare("q")
        for number in (broker.http_port, broker.metrics_port):
            url = f"http://127.0.0.1:{number}/metrics"
            text = (await http.get(url)).text
            assert "rabbitmq_queues 1.0\n" in text
            assert all(f"leporid_{name}_count " in text for name in MEASURED)
            queue = 'queue_consumers{vhost="/",queue="q"} 0\n'
            assert f"rabbitmq_{queue}" in (await http.get(f"{url}/per-object")).text
            detailed = f"{url}/detailed?family=queue_consumer_count"
            assert f"rabbitmq_detailed_{queue}" in (await http.get(detailed)).text
        health = f"http://127.0.0.1:{broker.metrics_port}/health"
        assert (await http.get(health)).status_code == 404
        client.close()


@slow
async def test_pages(broker: BrokerProcess, http: httpx.AsyncClient):
    answer = await http.get(page(broker, "health"))
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    client = await (await Client.connect(broker.amqp_port)).log_in()
    await client.declare("q")
    text = (await http.get(page(broker, "metrics"))).text
    assert "rabbitmq_connections 1.0\n" in text
    assert "rabbitmq_queues 1.0\n" in text
    client.close()


@slow
async def test_metrics_name_the_cluster_as_it_is_called_now(
    broker: BrokerProcess, http: httpx.AsyncClient
):
    api = page(broker, "api/cluster-name")
    guest = ("guest", "guest")
    before = (await http.get(api, auth=guest)).json()["name"]
    assert (await http.put(api, auth=guest, json={"name": "shop"})).status_code == 204
    try:
        for each in ("", "/per-object", "/detailed?family=queue_coarse_metrics"):
            text = (await http.get(page(broker, f"metrics{each}"))).text
            (line,) = re.findall(r"^rabbitmq_identity_info.*", text, re.MULTILINE)
            assert 'rabbitmq_cluster="shop"' in line
    finally:
        await http.put(api, auth=guest, json={"name": before})


@slow
async def test_a_cluster_has_an_id_that_stays(tmp_path: Path, http: httpx.AsyncClient):
    """As in RabbitMQ, and it may be given another by an import or over HTTP."""

    async def shown(broker: BrokerProcess) -> tuple[str, str]:
        text = (await http.get(page(broker, "metrics"))).text
        (label,) = re.findall(r'rabbitmq_cluster_permanent_id="([^"]*)"', text)
        return (await http.get(page(broker, path), auth=guest)).json()["value"], label

    guest, path = ("guest", "guest"), "api/global-parameters/internal_cluster_id"
    with BrokerProcess(tmp_path / "data") as broker:
        first, label = await shown(broker)
        assert re.fullmatch(r"rabbitmq-cluster-id-[\w-]{22}", first)
        assert first == label
        broker.kill()
    with BrokerProcess(tmp_path / "data") as broker:
        assert await shown(broker) == (first, first)
        given = {"name": "internal_cluster_id", "value": "another"}
        await http.put(page(broker, path), json=given, auth=guest)
        assert await shown(broker) == ("another", "another")
        broker.kill()
    with BrokerProcess(tmp_path / "data") as broker:
        assert await shown(broker) == ("another", "another")


@slow
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),  # guest's password is known to everybody
        ({"host": "evil.example", "accept-language": "en"}, 421),
        ({"host": "evil.example"}, 401),
        ({"origin": "http://evil.example"}, 403),
        ({"x-forwarded-for": "203.0.113.5"}, 401),
    ],
    ids=lambda each: str(each),
)
async def test_nobody_has_code_run_by_a_broker_as_it_is(
    broker: BrokerProcess, http: httpx.AsyncClient, headers: dict[str, str], status: int
):
    url = page(broker, "api/filter-classes/mine")
    source = b"class Filter:\n    def match(self, message):\n        return True\n"
    answer = await http.put(url, content=source, headers=headers, auth=("guest", "guest"))
    assert answer.status_code == status, answer.text
    listed = await http.get(page(broker, "api/filter-classes"), auth=("guest", "guest"))
    assert listed.json() == []


@slow
async def test_the_data_directory_is_its_owners_alone(tmp_path: Path):
    """Whatever the process is started with, and whatever it was before."""
    data = tmp_path / "data"
    generous = ["sh", "-c", 'umask 0; exec "$@"', "sh", *default_command()]
    for umask in ("0", "777"):
        with BrokerProcess(
            data, command=[each.replace("0;", f"{umask};") for each in generous]
        ) as broker:
            client = await (await Client.connect(broker.amqp_port)).log_in()
            stream: dict[str, Value] = {"x-queue-type": "stream"}
            declare = QueueDeclare(queue="s", durable=True, arguments=stream)
            await client.call(declare, QueueDeclareOk)
            await client.call(ConfirmSelect(), ConfirmSelectOk)
            await client.write(published("s", b"secret", persistent=True))
            await client.hear(BasicAck)
            found = [data, *data.rglob("*")]
            assert {"definitions.db", "lock", "log", "streams"} <= {each.name for each in found}
            wide = [each for each in found if each.stat().st_mode & 0o077]
            assert wide == []
            client.close()
            assert broker.stop() == 0, broker.log_tail()
        for each in found:
            if each.exists():
                each.chmod(0o777)


# ------------------------------------------------------------- stop


@slow
async def test_stopping_in_order(own_broker: BrokerProcess, http: httpx.AsyncClient):
    port = own_broker.amqp_port
    answering = await (await Client.connect(port)).log_in()
    mute = await (await Client.connect(port)).log_in()
    greeted = await Client.connect(port)
    await greeted.greet()
    stopping = asyncio.create_task(asyncio.to_thread(own_broker.stop))
    for client in (answering, mute):
        close = await client.hear(ConnectionClose)
        assert close.reply_code == 320
        assert close.reply_text == (
            "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        )
    # There is time for this, because the mute one is waited for.
    answer = await http.get(page(own_broker, "health"))
    assert (answer.status_code, answer.json()["reasons"]) == (503, ["draining"])
    with pytest.raises(ConnectionRefusedError):
        await Client.connect(port)
    await answering.say(ConnectionCloseOk(), channel=0)
    for client in (answering, greeted, mute):
        await client.ends()
        client.close()
    assert await stopping == 0


@slow
async def test_what_was_confirmed_is_there_after_the_stop(own_broker: BrokerProcess):
    client = await (await Client.connect(own_broker.amqp_port)).log_in()
    await client.declare("q", durable=True)
    await client.call(ConfirmSelect(), ConfirmSelectOk)
    await client.write(published("q", b"kept", persistent=True) + published("q", b"lost"))
    while (await client.hear(BasicAck)).delivery_tag < 2:
        pass
    client.close()
    assert await asyncio.to_thread(own_broker.stop) == 0
    await asyncio.to_thread(own_broker.start)
    client = await (await Client.connect(own_broker.amqp_port)).log_in()
    declared = await client.call(QueueDeclare(queue="q", passive=True), QueueDeclareOk)
    assert declared.message_count == 1
    await client.consume("q")
    deliver, body = await client.delivered()
    assert (deliver.redelivered, body) == (False, b"kept")
    client.close()


# ------------------------------------------------------------- configured limits


@slow
@pytest.mark.parametrize("configured", [LIMITED], indirect=True, ids=["limited"])
async def test_limits_are_those_of_the_configuration(configured: BrokerProcess):
    first = await Client.connect(configured.amqp_port)
    await first.greet()
    await first.say(ConnectionStartOk(response=b"\0guest\0guest"), channel=0)
    tune = await first.hear(ConnectionTune)
    assert tune == ConnectionTune(channel_max=10, frame_max=8192, heartbeat=7)
    second, third, fourth = [await Client.connect(configured.amqp_port) for _ in range(3)]
    await fourth.ends()
    # Nobody said anything more, for a second.
    for client in (first, second, third):
        await client.ends()
    # There is room again.
    last = await (await Client.connect(configured.amqp_port)).log_in()
    for client in (first, second, third, fourth, last):
        client.close()


@slow
async def test_peers_leave_descriptors_for_the_log(tmp_path: Path):
    """Whoever opens sockets, and says nothing, must not keep the log from its next file."""
    limited = ["sh", "-c", 'ulimit -n 200; exec "$@"', "sh", *default_command()]
    with BrokerProcess(tmp_path / "data", command=limited) as broker:
        publisher = await (await Client.connect(broker.amqp_port)).log_in()
        await publisher.call(QueueDeclare(queue="q", durable=True), QueueDeclareOk)
        await publisher.call(ConfirmSelect(), ConfirmSelectOk)
        silent = [await Client.connect(broker.amqp_port) for _ in range(220)]
        for _ in range(200):  # more than a segment's 16 MiB
            await publisher.write(published("q", bytes(100_000), persistent=True))
            await publisher.hear(BasicAck)
        for client in [publisher, *silent]:
            client.close()
        assert broker.stop() == 0, broker.log_tail()


@pytest.mark.skipif(sys.platform != "linux", reason="the table of descriptors is Linux's")
async def test_there_are_places_for_all_descriptors_before_peers_come(broker: BrokerProcess):
    """Linux has whoever needs a larger table wait, 10 to 20 ms each time."""
    status = Path(f"/proc/{broker.pid}/status").read_text()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    (size,) = re.findall(r"^FDSize:\s+(\d+)$", status, re.MULTILINE)
    assert int(size) >= descriptor_places(1_000_000, most)


@slow
@pytest.mark.parametrize("configured", [LITTLE_MEMORY], indirect=True, ids=["little memory"])
async def test_above_the_watermark_publishers_wait_and_nothing_is_declared(
    configured: BrokerProcess, http: httpx.AsyncClient
):
    port = configured.amqp_port
    aware = ("connection.blocked",)
    publisher = await (await Client.connect(port)).log_in(capabilities=aware)
    await publisher.publish("q", b"first")
    assert (await publisher.hear(ConnectionBlocked)).reason == "low on memory"
    other = await (await Client.connect(port)).log_in()
    refused = await other.call(QueueDeclare(queue="q"), ChannelClose)
    assert (refused.reply_code, "memory_watermark" in refused.reply_text) == (406, True)
    answer = await http.get(page(configured, "health"))
    assert (answer.status_code, answer.json()["reasons"]) == (503, ["memory alarm"])
    assert (
        'received_total{protocol="amqp091"} 0.0'
        in (await http.get(page(configured, "metrics"))).text
    )
    publisher.close()
    other.close()


# ------------------------------------------------------------- peers


async def test_pyarrow_is_loaded_before_anybody_asks_for_a_table(broker: BrokerProcess):
    maps = Path(f"/proc/{broker.pid}/maps")
    async with asyncio.timeout(PATIENCE_S):
        while "libarrow" not in maps.read_text():
            await asyncio.sleep(0)


@pytest.mark.skipif(sys.platform != "linux", reason="only there threads have a priority each")
async def test_threads_that_encode_tables_let_the_broker_go_first(broker: BrokerProcess):
    """Such a thread has loaded pyarrow, before anybody asked for a table."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while 10 not in (found := nicenesses(broker.pid)):
        assert asyncio.get_running_loop().time() < deadline, found
        await asyncio.sleep(0.01)
    assert min(found) == nicenesses(broker.pid, "/stat")[0]


def nicenesses(pid: int, of: str = "/task/*/stat") -> list[int]:
    """By how much threads stand back behind this process; see proc(5) for the fields."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    texts = [path.read_text() for path in Path(f"/proc/{pid}").glob(of.lstrip("/"))]
    return [int(text.rpartition(")")[2].split()[16]) - own for text in texts]


# ------------------------------------------------------------- memory


def anonymous_bytes(broker: BrokerProcess) -> int:
    """Memory of a broker that is no mapping of a file."""
    status = Path(f"/proc/{broker.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]


async def until_health(broker: BrokerProcess, http: httpx.AsyncClient, code: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await http.get(page(broker, "health"))).status_code != code:
            pass


LARGE = 64 * 2**20


@slow
async def test_readers_of_a_large_message_that_never_read_it_cost_nothing(broker: BrokerProcess):
    publisher = await (await Client.connect(broker.amqp_port)).log_in()
    declare = QueueDeclare(queue="s", durable=True, arguments={"x-queue-type": "stream"})
    await publisher.call(declare, QueueDeclareOk)
    await publisher.call(ConfirmSelect(), ConfirmSelectOk)
    before = anonymous_bytes(broker)
    await publisher.write(published("s", bytes(LARGE), persistent=True))
    await publisher.hear(BasicAck)
    readers = []
    for _ in range(11):
        reader = await Client.connect(broker.amqp_port, receive_bytes=16384)
        readers.append(await reader.log_in())
        await reader.call(BasicQos(prefetch_count=10), BasicQosOk)
        first: dict[str, Value] = {"x-stream-offset": "first"}
        await reader.call(BasicConsume(queue="s", arguments=first), BasicConsumeOk)
        # The rest of it never.
        await reader.hear(BasicDeliver)
        assert anonymous_bytes(broker) - before < LARGE
    # One that reads gets it all the same.
    await readers[0].frame()
    received = 0
    while received < LARGE:
        received += len((await readers[0].frame())[2])
    assert received == LARGE
    for reader in readers:
        reader.close()
    publisher.close()


@slow
@pytest.mark.parametrize("configured", ['memory_watermark = "150 MiB"\n'], indirect=True, ids=[""])
@pytest.mark.parametrize("heartbeat_s", [0, 60])
async def test_the_alarm_ends_with_the_peer_that_caused_it(
    configured: BrokerProcess, http: httpx.AsyncClient, heartbeat_s: int
):
    """It fills a queue of its own, and leaves so much unread behind that its end cannot come."""
    hostile = await Client.connect(configured.amqp_port)
    await hostile.log_in(heartbeat_s=heartbeat_s)
    await hostile.declare("own")

    async def flood() -> None:
        while True:
            await hostile.write(published("own", bytes(100_000)))

    flooding = asyncio.create_task(flood())
    await until_health(configured, http, 503)
    flooding.cancel()
    with suppress(asyncio.CancelledError):
        await flooding
    hostile.close()
    await until_health(configured, http, 200)
    # The alarm has ended, and what is left of the queue may still be going.
    async with asyncio.timeout(PATIENCE_S):
        while anonymous_bytes(configured) >= 100 * 2**20:
            await until_health(configured, http, 200)


@slow
async def test_heartbeats_in_real_time(broker: BrokerProcess):
    living, dead = [
        await (await Client.connect(broker.amqp_port)).log_in(heartbeat_s=1) for _ in range(2)
    ]

    async def live() -> int:
        """Answer each heartbeat until the other is gone; returns how many came."""
        count = 0
        while not ended.done() or count < 3:
            await living.heartbeat()
            await living.write(HEARTBEAT)
            count += 1
        return count

    ended = asyncio.create_task(dead.ends())
    assert await live() >= 3
    await ended
    await living.declare("q")
    assert re.search(r"missed heartbeats: nothing came for \d{4,} ms", broker.log_tail())
    living.close()
    dead.close()


@slow
async def test_a_flood_starves_nobody(broker: BrokerProcess, http: httpx.AsyncClient):
    flooding, other = [await (await Client.connect(broker.amqp_port)).log_in() for _ in range(2)]
    frames = published("nowhere", b"x" * 100) * 1000

    async def pour() -> None:
        while True:
            await flooding.write(frames)

    async def received() -> float:
        text = (await http.get(page(broker, "metrics"))).text
        found = re.search(r'messages_received_total\{protocol="amqp091"\} (\S+)', text)
        assert found is not None
        return float(found[1])

    pouring = asyncio.create_task(pour())
    before = await received()
    for number in range(100):
        await other.declare(f"q{number}")
    assert await received() > before
    pouring.cancel()
    with suppress(asyncio.CancelledError):
        await pouring
    flooding.close()
    other.close()


@slow
async def test_last_words_in_real_time(broker: BrokerProcess):
    client = await (await Client.connect(broker.amqp_port)).log_in()
    await client.write(GARBAGE + bytes(2**20))
    assert (await client.hear(ConnectionClose)).reply_code == 501
    await client.ends()
    client.close()


@slow
async def test_peers_cannot_write_log_lines(broker: BrokerProcess):
    forged = "2026-01-01 00:00:00,000 INFO leporid.server.node: forged"
    client = await (await Client.connect(broker.amqp_port)).log_in()
    await client.say(QueueDeclare(queue=f"q\n{forged}\x1b[2K", passive=True))
    assert forged in (await client.hear(ChannelClose)).reply_text
    await client.say(ExchangeDeclare(exchange=f"e\r{forged}", type="direct"), channel=7)
    assert (await client.hear(ConnectionClose)).reply_code == 504
    client.close()
    failing = await Client.connect(broker.amqp_port)
    await failing.greet()
    await failing.say(ConnectionStartOk(response=f"\0g\n{forged}\0x".encode()), channel=0)
    await failing.ends()
    failing.close()
    lines = broker.log_path.read_text().splitlines()
    assert not [line for line in lines if line.startswith(forged) or "\x1b" in line]
    assert len([line for line in lines if forged in line]) == 2


def test_a_second_broker_goes_without_the_default_port_for_metrics(tmp_path: Path):
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # or somebody else has it
            stack.enter_context(socket.create_server(("127.0.0.1", METRICS_PORT)))
        options = ["--metrics-port", str(METRICS_PORT)]
        broker = stack.enter_context(BrokerProcess(tmp_path / "data", options=options))
        assert broker.metrics_port == 0
        assert f"cannot listen on 127.0.0.1:{METRICS_PORT}" in broker.log_path.read_text()


async def test_what_an_alarm_refuses_names_the_limit_that_is_in_force(
    tmp_path: Path, http: httpx.AsyncClient
):
    with BrokerProcess(tmp_path / "data", config='disk_free_min = "1000000 GiB"') as broker:
        url = f"http://127.0.0.1:{broker.http_port}/api/queues/%2F/q"
        answer = await http.put(url, auth=("guest", "guest"), json={})
    assert answer.status_code == 503
    found = answer.json()
    assert (found["limit"], found["value"]) == ("disk_alarm", 1_000_000 * 2**30)
