"""What is sent to a server that decides, and what counts as its answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.server.outside import Decider

from leporid.server.auth_requests import AuthRequests
from leporid.server.oauth_settings import AuthHttp
from leporid.server.outgoing import OutgoingError

FIELDS = {"username": "jo", "key": "a&b=c ü/?#"}


@pytest.fixture
def decider() -> Iterator[Decider]:
    made = Decider()
    yield made
    made.close()


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("where", ["/auth", "/auth?token=x"])
def test_fields_arrive_as_they_are(decider: Decider, method: str, where: str):
    requests = AuthRequests(AuthHttp(http_method=method))
    decider.decides = lambda path, fields: (201, b" ALLOW  a B\n")
    assert requests.ask(decider.url + where, FIELDS) == (True, ["a", "b"])
    ((sent, path, fields),) = decider.asked
    assert (sent, path) == (method.upper(), "/auth")
    assert FIELDS.items() <= fields.items()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((200, b"allowed"), "neither allow nor deny"),
        ((200, b""), "neither allow nor deny"),
        ((500, b"allow"), "answers 500"),
    ],
)
def test_what_is_neither_yes_nor_no_is_no_answer(decider: Decider, said: tuple[int, bytes], why):
    decider.decides = lambda path, fields: said
    with pytest.raises(OutgoingError, match=why) as caught:
        AuthRequests(AuthHttp()).ask(f"{decider.url}/auth", FIELDS)
    assert "jo" not in str(caught.value)


def test_no_means_no(decider: Decider):
    decider.decides = lambda path, fields: (200, b"deny administrator")
    assert AuthRequests(AuthHttp()).ask(f"{decider.url}/auth", FIELDS)[0] is False


def test_without_an_address_nothing_is_allowed():
    with pytest.raises(OutgoingError, match="no server any more"):
        AuthRequests(AuthHttp()).ask(None, FIELDS)


@pytest.mark.parametrize("method", ["get", "post"])
def test_nothing_that_was_asked_is_in_the_reason(method: str):
    with pytest.raises(OutgoingError) as caught:
        AuthRequests(AuthHttp(http_method=method)).ask("http://127.0.0.1:1/auth", FIELDS)
    assert "jo" not in str(caught.value)
    assert "http://127.0.0.1:1/auth" in str(caught.value)
