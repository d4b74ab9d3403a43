"""The back ends that the configuration names, in its order; `test_token_logins` uses them."""

from types import SimpleNamespace
from typing import Any

import pytest

from leporid.broker.access.access import LoginAttempts
from leporid.broker.access.backends import Backends, LoginRequest
from leporid.broker.access.sasl import Credentials
from leporid.engine.engine import Engine
from leporid.limits.refusals import Refusals
from leporid.server.config import ConfigError
from leporid.server.login_backends import LoginBackends
from leporid.server.oauth_settings import Auth, AuthHttp, OAuth2


def made(auth: Auth, oauth2: OAuth2) -> tuple[LoginBackends, Backends]:
    internal: Any = SimpleNamespace(name="internal")
    broker: Any = SimpleNamespace(backends=Backends(internal, LoginAttempts()))
    broker.access, broker.refusals, broker.recheck = None, Refusals(), None
    broker.engine = Engine()
    asked = AuthHttp(user_path="http://127.0.0.1:1/")
    config: Any = SimpleNamespace(auth=auth, oauth2=oauth2, auth_http=asked)
    return LoginBackends(config, broker, lambda: None), broker.backends


def test_their_order_is_that_of_the_configuration():
    settings = OAuth2(resource_server_id="mq", jwks_url="http://127.0.0.1:1/")
    found, backends = made(Auth(("oauth2", "http", "internal")), settings)
    assert repr(backends) == "<Backends oauth2 http internal>"
    found.stop()
    found, backends = made(Auth(), OAuth2())
    assert repr(backends) == "<Backends internal>"
    found.stop()


def test_a_key_that_cannot_be_read_is_named(tmp_path):
    missing = tmp_path / "none.pem"
    for path, why in ((missing, "cannot be read"), (tmp_path / "empty.pem", "no public key")):
        (tmp_path / "empty.pem").touch()
        settings = OAuth2(resource_server_id="mq", signing_keys={"a": path})
        with pytest.raises(ConfigError, match=f"{path}: .*{why}"):
            made(Auth(("oauth2",)), settings)


async def test_a_login_while_the_broker_stops_is_left_unanswered():
    found, backends = made(Auth(("http",)), OAuth2())
    told: list[object] = []
    before = LoginRequest(Credentials("PLAIN", "jo", b"before"), "here", loopback=True)
    backends.log_in(before, told.append).leave()  # there is a pool
    found.stop()
    late = LoginRequest(Credentials("PLAIN", "jo", b"late"), "here", loopback=True)
    attempt = backends.log_in(late, told.append)
    assert not attempt.ended
    attempt.leave()
    assert not told
