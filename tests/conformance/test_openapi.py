"""schemathesis asks a broker what its OpenAPI document allows, and looks at what it answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import requests
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from leporid.testing import BrokerProcess

schemathesis = pytest.importorskip("schemathesis")

EXAMPLES = 4


@schemathesis.serializer("application/vnd.apache.arrow.stream", "text/x-python")
def octets(_: Any, value: Any) -> bytes:
    """A body that is not JSON."""
    return value if isinstance(value, bytes) else bytes(value.data)


AUTH = ("guest", "guest")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    config = "filter_server.allow_guest = true\n"
    with BrokerProcess(tmp_path_factory.mktemp("openapi") / "data", config=config) as broker:
        yield broker
        assert broker.stop() == 0, broker.log_tail()
        assert "defect" not in broker.log_path.read_text()


def test_what_is_answered_is_documented(broker: BrokerProcess):
    base = f"http://127.0.0.1:{broker.http_port}"
    with httpx.Client(base_url=base, auth=AUTH, trust_env=False) as client:
        document = client.get("/api/openapi.json").json()
        schema = schemathesis.openapi.from_dict(document)
        operations = [each.ok() for each in schema.get_all_operations()]
        assert len(operations) == sum(map(len, document["paths"].values()))
        with requests.Session() as session:
            session.trust_env = False
            for operation in operations:
                _ask(base, session, operation)
        assert client.get("/health").status_code == 200


def _ask(base: str, session: requests.Session, operation: Any) -> None:
    """Send some requests that the document allows; the server says nothing else than it does."""
    documented = set(operation.definition.raw["responses"])

    @seed(7)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def some(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy())
        answer = case.call(base_url=base, session=session, auth=AUTH)
        assert answer.status_code < 500 or answer.status_code == 503, answer.text
        assert str(answer.status_code) in documented, (answer.request.url, answer.text)

    some()
