"""The name of a connection, by both ends of its socket."""

import pytest

from leporid.broker.connection.endpoints import Endpoints


@pytest.mark.parametrize(
    ("peer", "own", "name"),
    [
        ("192.0.2.7", "192.0.2.1", "192.0.2.7:40000 -> 192.0.2.1:5672"),
        ("::1", "::1", "[::1]:40000 -> [::1]:5672"),
    ],
)
def test_it_is_named_as_in_rabbitmq(peer: str, own: str, name: str) -> None:
    assert str(Endpoints(peer, 40000, own, 5672)) == name
