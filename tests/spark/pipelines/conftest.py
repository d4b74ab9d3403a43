"""The session that the tests of this folder share."""

from typing import Any

import pytest


@pytest.fixture
def spark(spark_session: Any) -> Any:
    return spark_session
