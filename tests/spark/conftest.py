"""The Spark side against a small broker in this process (see `fake`), and when tests kill."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark.fake import FakeBroker, serving

from leporid.spark import options
from leporid.spark.http import Client, forget_clients

SEED = "LEPORID_TEST_SEED"
"""A number: tests that kill something do so at other moments. A test that fails shows it."""


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with serving() as fake:
        yield fake
        forget_clients()


@pytest.fixture
def choose(request: pytest.FixtureRequest) -> random.Random:
    """What says when something is killed."""
    seed = os.environ.get(SEED, "1")
    request.node.add_report_section("setup", "seed", f"{SEED}={seed}")
    return random.Random(f"{request.node.name} {seed}")


@pytest.fixture
def connect(broker: FakeBroker) -> Iterator[Callable[..., Client]]:
    """Make clients, which do not try for long."""
    made = []

    def connect(**given: object) -> Client:
        values = {"url": broker.url, "retryTimeout": 2000, **given}
        made.append(Client(options.connection(values, {})))
        return made[-1]

    yield connect
    for client in made:
        client.close()


@pytest.fixture
def client(connect: Callable[..., Client]) -> Client:
    return connect()


@pytest.fixture
def reading(spark_session: Any, broker: FakeBroker) -> Callable[..., Any]:
    """Make a data frame over the fake broker."""

    def read(**given: str) -> Any:
        return spark_session.read.format("leporid").options(url=broker.url, **given)

    return read


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
