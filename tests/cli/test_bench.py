"""`leporid bench`: what PerfTest's letters mean, and figures that are those of the broker."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.certificates import configured, make_files, running

from leporid.cli.bench import figures, plan_of
from leporid.cli.main import parser
from leporid.cli.outcomes import WrongUse
from leporid.load.latencies import BUCKETS, note
from leporid.load.processes import Counts
from leporid.testing import reserve_port


def plan(*arguments: str):
    return plan_of(parser().parse_args(["bench", *arguments]))


def test_letters_are_perftests():
    words = (
        "-h amqp://b -x 2 -y 3 -s 100 -c 50 -A 10 -q 20 -f persistent -r 7 -u queue -e exchange "
        "-k key"
    )
    made = plan(*words.split())
    load = made.load
    assert (made.url, load.producers, load.consumers, load.body_bytes) == ("amqp://b", 2, 3, 100)
    assert (load.confirm_window, load.ack_every, load.prefetch) == (50, 10, 20)
    assert (load.persistent, load.rate) == (True, 7)
    assert (made.queue, made.exchange, made.key) == ("queue", "exchange", "key")
    assert (made.declares, made.deletes) == (True, False)
    assert plan("-a").load.ack_every == 0
    assert plan("-P", "0.5").load.rate == 2
    assert not plan("-p", "-u", "q").declares
    assert plan().deletes


@pytest.mark.parametrize(
    "arguments",
    ["-x 0 -y 0", "-x -1", "-z 0", "-r 1 -P 1", "-p", "-i 0", "--queue-type stream -a"],
)
def test_wrong_use(arguments, cli):
    with pytest.raises(WrongUse):
        plan(*arguments.split())
    cli("bench", *arguments.split(), code=2)
    assert cli.error.count("\n") == 1


def test_figures():
    counts = [0] * BUCKETS
    for milliseconds in range(1, 101):
        note(counts, milliseconds * 1_000_000)
    found = figures(Counts(0.0, 0, 0, 0), Counts(2.0, 200, 150, 100), counts)
    assert found["rates"] == {"sent": 100.0, "confirmed": 75.0, "received": 50.0}
    latency = found["latency_ms"]
    assert 50 <= latency["p50"] <= 54
    assert 99 <= latency["p99"] <= 106
    assert latency["samples"] == 100


def bounded(options: str) -> list[str]:
    """Options of a load that ends after 500 messages, unless they say another number."""
    given = options.split()
    return [*given, "-z", "60", *([] if "-C" in given else ["-C", "500"])]


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker with TLS, and the authority that signed its certificate."""
    folder = tmp_path_factory.mktemp("tls")
    files = make_files(folder)
    with running(folder, configured(files.issue("localhost", "server"))) as broker:
        yield f"amqps://guest:guest@localhost:{broker.amqps_port}/%2F?cacertfile={files.trusted}"


@pytest.mark.parametrize(
    "options",
    ["-x 2 -y 2 -s 1000", "-c 100 -f persistent", "-a -e bench.x", "-s 300000 -C 20 -q 1"],
)
def test_so_many_messages_come(options, leporid, shared_broker):
    before = leporid("queues", "list", "-q")
    assert leporid.run("bench", "-h", shared_broker.url, *bounded(options)) == 0
    check_all_came(json.loads(leporid.out), 20 if "-C" in options else 500)
    assert leporid("queues", "list", "-q") == before, "its own queue is gone"


@pytest.mark.parametrize(
    "options", ["-x 2 -y 2 -s 1000", "-c 100 -f persistent", "-a", "-s 300000 -C 20 -q 1"]
)
def test_so_many_messages_come_over_tls(options, leporid, encrypted):
    assert leporid.run("bench", "-h", encrypted, *bounded(options)) == 0
    check_all_came(json.loads(leporid.out), 20 if "-C" in options else 500)


def test_what_goes_wrong_with_tls_is_one_line(leporid, encrypted, shared_broker, tmp_path):
    trusted = encrypted.partition("?")[2]
    untrusted = encrypted.replace(trusted, "heartbeat=0")
    plain = f"amqps://localhost:{shared_broker.amqp_port}/?{trusted}"
    for url, code, told in (
        (untrusted, 1, "the certificate of localhost:"),
        (untrusted, 1, "is not trusted: "),
        (untrusted, 1, "?cacertfile=FILE"),
        (encrypted.replace("localhost", "127.0.0.1"), 1, "is not trusted: IP address mismatch"),
        (plain, 1, "no TLS with localhost:"),
        (plain.replace(trusted, f"cacertfile={tmp_path}/none"), 2, "cannot use the certificates"),
        (plain.replace(trusted, "cafile=x"), 2, "unknown parameter 'cafile'"),
    ):
        leporid("bench", "-h", url, code=code)
        assert told in leporid.error
        assert leporid.error.count("\n") == 1


def check_all_came(found: dict[str, Any], each: int) -> None:
    sent = each * found["load"]["producers"]
    assert (found["sent"], found["confirmed"], found["received"]) == (sent, sent, sent)
    assert found["latency_ms"]["samples"] > 0
    assert found["latency_ms"]["p50"] > 0


def test_a_rate_is_kept_and_a_line_is_shown(leporid, shared_broker, tmp_path):
    file = tmp_path / "out.json"
    given = ["-h", shared_broker.url, "-r", "100", "-z", "1.2", "-i", "0.3", "-o", str(file)]
    assert leporid.run("bench", *given) == 0
    found = json.loads(file.read_text())
    assert 0 < found["sent"] <= 100 * found["seconds"] + 2
    assert "sent " in leporid.error
    assert "latency p50/p95/p99" in leporid.error


def test_a_load_may_be_quiet(leporid, shared_broker):
    given = ["bench", "-h", shared_broker.url, "-r", "100", "-z", "0.4", "-i", "0.1"]
    assert leporid.json(*given, "--quiet")["sent"] > 0
    assert leporid.error == ""
    leporid.json(*given)
    assert "sent " in leporid.error


def test_what_goes_wrong_is_one_line(leporid, shared_broker, name):
    leporid("bench", "-h", f"amqp://127.0.0.1:{reserve_port()}", code=1)
    assert leporid.error.count("\n") == 1
    assert "refused" in leporid.error
    leporid("bench", "-h", "http://x", code=2)
    leporid("bench", "-h", shared_broker.url, "-p", "-u", name("none"), "-z", "1", code=1)
    assert "404 NOT_FOUND - no queue" in leporid.error
    assert "Traceback" not in leporid.error
    leporid("bench", "-h", shared_broker.url.replace("guest:guest", "guest:wrong"), code=1)
    assert "403 ACCESS_REFUSED - Login was refused" in leporid.error
    assert "wrong" not in leporid.error
    leporid("bench", "-h", f"amqp://127.0.0.1:{shared_broker.http_port}", code=1)
    assert "is that a port of AMQP without TLS?" in leporid.error


def test_nor_do_the_processes_of_a_load_say_more(shared_broker, name):
    command = [sys.executable, "-m", "leporid.cli.main", "bench", "-h", shared_broker.url]
    command += ["-p", "-u", name("none"), "-z", "1"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr


def test_nobody_is_there(cli):
    port = reserve_port()
    cli("bench", "-h", f"amqp://ann:secret@127.0.0.1:{port}", code=1)
    assert cli.error.startswith(f"leporid: no broker at 127.0.0.1:{port}: ")
    assert "secret" not in cli.error
