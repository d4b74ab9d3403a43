"""Somebody else's clients against a real broker process.

The broker is started once for the session, on a fresh data directory, and ended with SIGTERM; it
must then exit with 0. If LEPORID_TEST_AMQP_URL names a broker, that one is used instead, for
example a RabbitMQ, against which these tests were written first; LEPORID_TEST_API_URL names its
management, for the tests that need one:

    LEPORID_TEST_AMQP_URL=amqp://guest:guest@127.0.0.1:5672/%2F \\
    LEPORID_TEST_API_URL=http://127.0.0.1:15672/api pytest tests/conformance

Tests that end and restart a broker have one of their own (`own_broker`). LEPORID_TEST_COMMAND
replaces its command; see `leporid.testing.process`.
"""

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from tests.conformance.classes import GUEST_REGISTERS
from tests.conformance.marks import API_VARIABLE, URL_VARIABLE

from leporid.testing import BrokerProcess, reserve_port

HERE = Path(__file__).parent

# A client in trouble gives up by itself, with a better message than the test's time-out has.
BLOCKED_SECONDS = 20


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Of all tests there are: twenty times as many as files.
    files = {path for path in {item.path for item in items} if HERE in path.parents}
    for item in items:
        if item.path in files:
            item.add_marker(pytest.mark.conformance)


@pytest.fixture(scope="session")
def our_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The broker under test, if it is ours."""
    broker = BrokerProcess(tmp_path_factory.mktemp("conformance") / "data", config=GUEST_REGISTERS)
    with broker:
        yield broker
        assert broker.stop() == 0, broker.log_tail()


@pytest.fixture(scope="session")
def broker_url(request: pytest.FixtureRequest) -> str:
    """The AMQP URL of the broker under test."""
    return os.environ.get(URL_VARIABLE) or str(request.getfixturevalue("our_broker").url)


@pytest.fixture(scope="session")
def api_url(request: pytest.FixtureRequest) -> str:
    """Where the management of the broker under test is, without a slash at the end."""
    if URL_VARIABLE not in os.environ:
        return f"http://127.0.0.1:{request.getfixturevalue('our_broker').http_port}/api"
    if API_VARIABLE not in os.environ:
        pytest.skip(f"{API_VARIABLE} does not say where this broker's management is")
    return os.environ[API_VARIABLE]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker for one test, which may kill it; it comes back on the same port."""
    data = tmp_path / "data"
    with BrokerProcess(data, amqp_port=reserve_port(), config=GUEST_REGISTERS) as broker:
        yield broker


@pytest.fixture
def name(broker_url: str) -> Iterator[Callable[..., str]]:
    """Make names that no other test uses; queues and exchanges so named are deleted after it."""
    run = uuid.uuid4().hex[:8]
    made: list[str] = []

    def make(label: str = "it") -> str:
        made.append(f"conf-{run}-{len(made)}-{label}")
        return made[-1]

    yield make
    if not made:
        return
    connection = BlockingConnection(pika.URLParameters(broker_url))
    channel = connection.channel()
    for each in made:
        channel.queue_delete(each)
        channel.exchange_delete(each)
    connection.close()


@pytest.fixture
def connect(
    broker_url: str, name: Callable[..., str]
) -> Iterator[Callable[..., BlockingConnection]]:
    """Open pika connections, closed at the end; keywords are attributes of its parameters.

    Asking for `name` makes that fixture clean up after these connections, and with them their
    exclusive queues, are gone.
    """
    opened: list[BlockingConnection] = []

    def open_one(**parameters: object) -> BlockingConnection:
        settings = pika.URLParameters(broker_url)
        settings.blocked_connection_timeout = BLOCKED_SECONDS
        settings.socket_timeout = BLOCKED_SECONDS
        for key, value in parameters.items():
            setattr(settings, key, value)
        opened.append(BlockingConnection(settings))
        return opened[-1]

    yield open_one
    for connection in opened:
        # The broker may have given this one up already.
        with contextlib.suppress(pika.exceptions.AMQPError):
            connection.close()


@pytest.fixture
def connection(connect: Callable[..., BlockingConnection]) -> BlockingConnection:
    """One pika connection."""
    return connect()


@pytest.fixture
def channel(connection: BlockingConnection) -> BlockingChannel:
    """One pika channel that waits for the broker's confirm of each publish."""
    channel = connection.channel()
    channel.confirm_delivery()
    return channel
