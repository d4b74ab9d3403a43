"""Brokers for tests of the client: a real Leporid, and a real RabbitMQ where it is installed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.rabbitmq import SERVER, rabbitmq

from leporid.testing import BrokerProcess, reserve_port


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A Leporid for the tests of a module."""
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data") as process:
        yield process
        assert process.stop() == 0, process.log_tail()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A Leporid for one test, which may kill it; it comes back on the same port."""
    with BrokerProcess(tmp_path / "data", amqp_port=reserve_port()) as process:
        yield process


@pytest.fixture(scope="session")
def rabbitmq_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a RabbitMQ, or of what the variable OTHER_BROKER_URL names, LavinMQ for one."""
    if url := os.environ.get("OTHER_BROKER_URL"):
        yield url
        return
    if not SERVER.exists():
        pytest.skip("Debian's rabbitmq-server is not installed")
    with rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as url:
        yield url


@pytest.fixture(params=["leporid", pytest.param("rabbitmq", marks=pytest.mark.conformance)])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a broker: the test runs with each."""
    if request.param == "leporid":
        process: BrokerProcess = request.getfixturevalue("broker")
        return process.url
    found: str = request.getfixturevalue("rabbitmq_url")
    return found


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, whatever the loops of other tests have left."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return f"client-{request.node.name}"
