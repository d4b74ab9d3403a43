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
EVENTS = "text/event-stream"


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
    cases = operation.as_strategy()

    @seed(7)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def some(data: st.DataObject) -> None:
        case = data.draw(cases)
        request = case.as_transport_kwargs(base_url=base)
        with session.request(**request, auth=AUTH, stream=True) as answer:
            # Live figures would go on.
            said = "" if answer.headers.get("content-type") == EVENTS else answer.text
        assert answer.status_code < 500 or answer.status_code == 503, said
        assert str(answer.status_code) in documented, (answer.request.url, said)

    some()
