"""The tutorials of examples/tutorials: each program is run, and does what it says.

The programs' port is replaced by that of a broker; nothing else is changed.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leporid.testing import BrokerProcess

TUTORIALS = Path(__file__).parents[2] / "examples" / "tutorials"
SECONDS = 30

pytestmark = pytest.mark.slow

# Lines of code, without comments and blank lines, of the same programs with pika in
# rabbitmq/rabbitmq-tutorials, python/, as of November 2026. There is none for publisher confirms.
PIKA_LINES = {
    "send.py": 9,
    "receive.py": 27,
    "new_task.py": 18,
    "worker.py": 16,
    "emit_log.py": 11,
    "receive_logs.py": 30,
    "emit_log_direct.py": 16,
    "receive_logs_direct.py": 39,
    "emit_log_topic.py": 16,
    "receive_logs_topic.py": 39,
    "rpc_server.py": 26,
    "rpc_client.py": 38,
}
PARTS = {
    "hello world": ("send.py", "receive.py"),
    "work queues": ("new_task.py", "worker.py"),
    "publish/subscribe": ("emit_log.py", "receive_logs.py"),
    "routing": ("emit_log_direct.py", "receive_logs_direct.py"),
    "topics": ("emit_log_topic.py", "receive_logs_topic.py"),
    "remote procedure calls": ("rpc_server.py", "rpc_client.py"),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("tutorials") / "data") as broker:
        yield broker
        assert broker.stop() == 0, broker.log_tail()


class Program:
    """A program that runs until it is interrupted."""

    def __init__(self, path: Path, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, path, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """Wait for the next line that it prints."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._process.communicate()[1]
        return line.rstrip()

    def interrupt(self) -> None:
        """As by Ctrl-C: it ends, and says no more."""
        self._process.send_signal(signal.SIGINT)
        out, error = self._process.communicate(timeout=SECONDS)
        assert (self._process.returncode, out, error) == (0, "", "")

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def place(broker: BrokerProcess, tmp_path: Path) -> Callable[[str], Path]:
    def copy(name: str) -> Path:
        text = (TUTORIALS / name).read_text()
        assert text.count("localhost:5672") == 1
        path = tmp_path / name
        path.write_text(text.replace("localhost:5672", f"localhost:{broker.amqp_port}"))
        return path

    return copy


@pytest.fixture
def start(place: Callable[[str], Path]) -> Iterator[Callable[..., Program]]:
    running: list[Program] = []

    def start_one(name: str, *arguments: str) -> Program:
        running.append(Program(place(name), *arguments))
        return running[-1]

    yield start_one
    for each in running:
        each.end()


@pytest.fixture
def run(place: Callable[[str], Path]) -> Callable[..., list[str]]:
    def run_one(name: str, *arguments: str, code: int = 0) -> list[str]:
        command = [sys.executable, str(place(name)), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, env=os.environ, check=False
        )
        assert done.returncode == code, done.stderr
        return (done.stdout or done.stderr).splitlines()

    return run_one


def test_hello_world(start, run):
    receiver = start("receive.py")
    assert "Waiting for messages" in receiver.line()
    assert run("send.py") == [" [x] Sent 'Hello World!'"]
    assert receiver.line() == " [x] Received 'Hello World!'"
    receiver.interrupt()


def test_work_queues(start, run):
    """Two workers take turns, and a task that was not finished goes to the other one."""
    workers = [start("worker.py"), start("worker.py")]
    for worker in workers:
        assert "Waiting for messages" in worker.line()
    assert run("new_task.py", "first", "task") == [" [x] Sent 'first task'"]
    run("new_task.py", "second")
    assert {worker.line() for worker in workers} == {
        " [x] Received 'first task'",
        " [x] Received 'second'",
    }
    assert [worker.line() for worker in workers] == [" [x] Done", " [x] Done"]
    workers[0].interrupt()
    run("new_task.py", "a", "long", "one" + 20 * ".")
    assert workers[1].line().startswith(" [x] Received 'a long one.")
    workers[1].interrupt()
    late = start("worker.py")
    assert "Waiting for messages" in late.line()
    assert late.line().startswith(" [x] Received 'a long one.")


def test_publish_and_subscribe(start, run):
    assert run("emit_log.py", "nobody", "listens") == [" [x] Sent 'nobody listens'"]
    listeners = [start("receive_logs.py"), start("receive_logs.py")]
    for each in listeners:
        assert "Waiting for logs" in each.line()
    assert run("emit_log.py") == [" [x] Sent 'info: Hello World!'"]
    for each in listeners:
        assert each.line() == " [x] info: Hello World!"
        each.interrupt()


def test_routing(start, run):
    listener = start("receive_logs_direct.py", "warning", "error")
    assert "Waiting for logs" in listener.line()
    run("emit_log_direct.py")
    assert run("emit_log_direct.py", "error", "it", "burns") == [" [x] Sent error:it burns"]
    assert listener.line() == " [x] error:it burns"
    listener.interrupt()
    assert "Usage" in run("receive_logs_direct.py", code=1)[0]


def test_topics(start, run):
    listener = start("receive_logs_topic.py", "kern.*", "*.critical")
    assert "Waiting for logs" in listener.line()
    run("emit_log_topic.py", "user.info", "no")
    run("emit_log_topic.py", "kern.info", "yes")
    run("emit_log_topic.py", "user.critical", "yes", "too")
    assert listener.line() == " [x] kern.info:yes"
    assert listener.line() == " [x] user.critical:yes too"
    listener.interrupt()


def test_remote_procedure_calls(start, run):
    server = start("rpc_server.py")
    assert "Awaiting RPC requests" in server.line()
    assert run("rpc_client.py") == [" [x] Requesting fib(30)", " [.] Got 832040"]
    assert server.line() == " [.] fib(30)"


def test_publisher_confirms(run):
    one_by_one, tasks, many, returned = run("publisher_confirms.py")
    shown = re.compile(r" \[x\] [a-z_ ]+: \d+\.\d\d s")
    assert all(shown.fullmatch(line) for line in (one_by_one, tasks, many))
    assert returned == " [x] returned: NO_ROUTE"


def code_lines(text: str) -> int:
    """Lines without comments, blank lines and docstrings."""
    code = re.sub(r'^\s*"""(?:.|\n)*?"""\n', "", text, flags=re.MULTILINE)
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") for line in code.splitlines()
    )


@pytest.mark.parametrize("part", PARTS)
def test_each_is_shorter_than_with_pika(part: str):
    ours = {name: code_lines((TUTORIALS / name).read_text()) for name in PARTS[part]}
    theirs = {name: PIKA_LINES[name] for name in PARTS[part]}
    assert sum(ours.values()) < sum(theirs.values()), (ours, theirs)
