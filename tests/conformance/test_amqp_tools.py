"""Debian's amqp-tools: command-line programs on librabbitmq, the C client."""

import shutil
import subprocess
import time

import pytest
from pika import BasicProperties
from pika.exceptions import UnroutableError
from tests.conformance.pika_steps import depth, drain

SECONDS = 20

pytestmark = pytest.mark.skipif(
    shutil.which("amqp-publish") is None,
    reason="amqp-tools are not installed (Debian: apt-get install amqp-tools)",
)


@pytest.fixture
def tool(broker_url):
    """Run one of the tools; it must end by itself."""

    def run(program: str, *arguments: str, stdin: bytes = b"", exit_code: int = 0) -> bytes:
        done = subprocess.run(
            [program, f"--url={broker_url}", *arguments],
            input=stdin,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == exit_code, done.stderr.decode()
        return done.stdout if exit_code == 0 else done.stderr

    return run


def test_declare_publish_get_delete(tool, name):
    queue = name()
    assert tool("amqp-declare-queue", "-q", queue, "-d").decode().strip() == queue
    tool("amqp-publish", "-r", queue, "-b", "one", "-p")
    tool("amqp-publish", "-r", queue, stdin=b"two, from standard input")
    assert tool("amqp-get", "-q", queue) == b"one"
    assert tool("amqp-get", "-q", queue) == b"two, from standard input"
    tool("amqp-get", "-q", queue, exit_code=2)  # empty
    assert tool("amqp-delete-queue", "-q", queue).decode().strip() == "0"
    assert b"NOT_FOUND" in tool("amqp-get", "-q", queue, exit_code=1)


def test_server_named_queue(tool, channel):
    queue = tool("amqp-declare-queue", "-q", "").decode().strip()
    assert queue.startswith("amq.gen-")
    channel.queue_delete(queue)


def test_properties(tool, channel, name):
    queue = name()
    channel.queue_declare(queue)
    tool(
        "amqp-publish",
        *("-r", queue, "-b", "{}", "-p", "-C", "application/json", "-E", "identity"),
        *("-t", "back", "-H", "colour: red", "-H", "size: 7"),
    )
    _, properties, body = channel.basic_get(queue, auto_ack=True)
    assert body == b"{}"
    assert (properties.content_type, properties.content_encoding) == (
        "application/json",
        "identity",
    )
    assert (properties.delivery_mode, properties.reply_to) == (2, "back")
    assert properties.headers == {"colour": "red", "size": "7"}


def test_one_message_a_line(tool, channel, name):
    queue = name()
    channel.queue_declare(queue)
    tool("amqp-publish", "-r", queue, "-l", stdin=b"1\n2\n3\n")
    assert [body.strip() for body in drain(channel, queue)] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("options", [(), ("-A",), ("-p", "1")])
def test_consume_acks_what_its_command_took(tool, channel, name, options):
    queue = name()
    channel.queue_declare(queue)
    for number in range(10):
        channel.basic_publish("", queue, b"%d\n" % number, BasicProperties(delivery_mode=2))
    out = tool("amqp-consume", "-q", queue, "-c", "10", *options, "cat")
    assert out.split() == [b"%d" % number for number in range(10)]
    assert depth(channel, queue) == 0


def test_consume_requeues_what_its_command_refused(tool, channel, name, tmp_path):
    refuse = tmp_path / "refuse"
    refuse.write_text("#!/bin/sh\ncat > /dev/null\nexit 1\n")
    refuse.chmod(0o755)
    queue = name()
    channel.queue_declare(queue)
    channel.basic_publish("", queue, b"x")
    tool("amqp-consume", "-q", queue, "-c", "1", str(refuse))
    method, _, _ = channel.basic_get(queue)
    assert method.redelivered


def test_consume_from_an_exchange(tool, channel, broker_url, name):
    exchange = name()
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    command = [
        "amqp-consume",
        f"--url={broker_url}",
        "-e",
        exchange,
        "-r",
        "k",
        "-x",
        "-c",
        "1",
        "cat",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        deadline = time.monotonic() + SECONDS
        while not routed(channel, exchange, b"for the tool"):
            assert time.monotonic() < deadline, "the tool never bound its queue"
        out, _ = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.communicate()
    assert (out, process.returncode) == (b"for the tool", 0)


def routed(channel, exchange: str, body: bytes) -> bool:
    """Publish, and tell whether there was a queue for it."""
    try:
        channel.basic_publish(exchange, "k", body, mandatory=True)
    except UnroutableError:
        return False
    return True


def test_publish_to_a_missing_exchange_fails(tool, name):
    tool("amqp-publish", "-e", name(), "-r", "k", "-b", "x", exit_code=1)


def test_wrong_password_fails(broker_url, name):
    done = subprocess.run(
        ["amqp-get", f"--url={broker_url.replace(':guest@', ':wrong@')}", "-q", name()],
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert b"403" in done.stderr
