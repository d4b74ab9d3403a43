"""Settings of tokens: what does not belong together is refused."""

import pytest

from leporid.server.config import Config, ConfigError, load

GOOD = 'auth.backends = ["oauth2"]\noauth2.resource_server_id = "mq"\n'


def loaded(tmp_path, text: str) -> Config:
    file = tmp_path / "leporid.toml"
    file.write_text(text)
    return load(file)


def test_scopes_may_be_one_text_or_several(tmp_path):
    config = loaded(
        tmp_path,
        GOOD + 'oauth2.jwks_url = "https://sso.example/keys"\n'
        'oauth2.scope_aliases = {a = "x y", b = ["z"]}\n',
    )
    assert config.oauth2.scope_aliases == {"a": ("x", "y"), "b": ("z",)}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('auth.backends = ["oauth2"]', "oauth2.resource_server_id: missing"),
        (GOOD, "without issuer, jwks_url or signing_keys"),
        (GOOD + 'oauth2.signing_keys.a = "/a"\noauth2.default_key = "b"', "none of signing_keys"),
        ('auth.backends = ["http"]', "auth_http.user_path: missing"),
        ('auth.backends = ["internal:http"]', "auth_http.user_path: missing"),
        (
            'auth.backends = ["internal:http"]\n[auth_http]\nuser_path = "http://127.0.0.1:1/"',
            "auth_http.vhost_path: missing; 'internal:http' asks a server about rights",
        ),
        ('auth_http.http_method = "put"', 'must be one of "get", "post"'),
        ("auth.backends = []", "must name at least one back end"),
        ('auth.backends = ["internal", "internal"]', "none twice"),
        ('auth.backends = ["oauth"]', 'did you mean "oauth2"'),
        ('oauth2.algorithms = ["HS256"]', 'must be one of "RS256"'),
        ('oauth2.algorithms = ["none"]', 'must be one of "RS256"'),
        ('oauth2.jwks_url = "file:///etc/passwd"', "must be an address such as"),
    ],
)
def test_what_is_refused(tmp_path, text, why):
    with pytest.raises(ConfigError, match=why):
        loaded(tmp_path, text)
