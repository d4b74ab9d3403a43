"""What the tests of this folder share: the session, and a registry of schemas."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.spark.pipelines.registry import RegistryServer, serving

from leporid.spark.pipelines.bodies import decoder


@pytest.fixture
def spark(spark_session: Any) -> Any:
    return spark_session


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with serving() as server:
        yield server
    for schemas in decoder._OPENED.values():
        close = getattr(schemas, "close", None)
        if close is not None:
            close()
    decoder._OPENED.clear()
