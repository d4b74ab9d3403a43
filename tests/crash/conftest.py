"""A real broker that these tests kill; afterwards `leporid check` must find its data whole."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from leporid.testing import BrokerProcess, reserve_port
from leporid.testing.process import COMMAND_VARIABLE

HERE = Path(__file__).parent

# Whether LEPORID_TEST_COMMAND names another broker than this one (these tests pass on RabbitMQ).
foreign = "leporid" not in os.environ.get(COMMAND_VARIABLE, "leporid")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Of all tests there are: twenty times as many as files.
    files = {path for path in {item.path for item in items} if HERE in path.parents}
    for item in items:
        if item.path in files:
            item.add_marker(pytest.mark.crash)
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that is running, on a port of its own that it keeps over restarts."""
    # Only ours has this setting.
    config = "" if foreign else "filter_server.allow_guest = true\n"
    broker = BrokerProcess(tmp_path / "data", amqp_port=reserve_port(), config=config)
    with broker:
        yield broker
    if not foreign:
        code, report = broker.check()
        assert code == 0, report


@pytest.fixture
def promises_settles() -> None:
    """Skip where settled messages may come back after a crash: RabbitMQ allows itself that."""
    if foreign:
        pytest.skip("another broker; see docs/known-differences.md")
