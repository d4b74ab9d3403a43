"""Tokens by themselves: what makes one right, and which user it makes."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from leporid.amqp.errors import AccessRefused
from leporid.broker.access.access import User
from leporid.server.oauth_settings import OAuth2
from leporid.server.tokens import (
    TokenError,
    Verifier,
    import_keys,
    import_pem,
    key_name,
    looks_like_a_token,
)

NOW_S = 1_700_000_000.0
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"})
CLAIMS: dict[str, Any] = {
    "sub": "jo",
    "aud": ["mq"],
    "exp": NOW_S + 60,
    "scope": "mq.read:v/q mq.tag:administrator other.write:*/* openid",
}
SETTINGS = OAuth2(resource_server_id="mq")


def signed(claims: Any = CLAIMS, key: Any = RSA, alg: str = "RS256", **header: Any) -> bytes:
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    kid = {"kid": key.kid} if key.kid else {}
    made = jws.serialize_compact({"alg": alg, **kid, **header}, payload, key, [alg])
    return made.encode()


def user(token: bytes, settings: OAuth2 = SETTINGS, key: Any = RSA) -> User:
    public = import_pem(key.as_pem(private=False))
    return Verifier(settings).user(token, public, NOW_S)


@pytest.mark.parametrize(
    ("key", "alg"), [(RSA, "RS256"), (RSA, "PS512"), (EC, "ES256"), (ED, "Ed25519")]
)
def test_a_token_makes_a_user(key, alg):
    token = signed(key=key, alg=alg)
    assert looks_like_a_token(token)
    assert key_name(token) == key.kid
    found = user(token, key=key)
    assert (found.name, found.backend) == ("jo", "oauth2")
    assert found.tags == ("administrator",)
    assert found.expires_ms == (NOW_S + 60) * 1000
    assert found.may("read", "queue", "q", "v")
    assert not found.may("write", "queue", "q", "v")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"exp": NOW_S}, "has expired"),
        ({"exp": None}, "until when"),
        ({"exp": "1800000000"}, "until when"),
        ({"exp": True}, "until when"),
        ({"exp": 1e300}, "until when"),
        ({"exp": 10**400}, "until when"),
        ({"nbf": -(10**400)}, "until when"),
        ({"exp": float("inf")}, "until when"),
        ({"nbf": NOW_S + 1}, "not right yet"),
        ({"nbf": "x"}, "until when"),
        ({"aud": "other"}, "for somebody else"),
        ({"aud": ["mq2"]}, "for somebody else"),
        ({"aud": None}, "for somebody else"),
        ({"aud": {"mq": 1}}, "for somebody else"),
        ({"sub": None}, "no name"),
        ({"sub": ""}, "no name"),
        ({"sub": 1}, "no name"),
        ({"sub": "x" * 256}, "no name"),
        ({"sub": "\ud800"}, "no name"),
        ({"scope": " ".join(f"mq.read:v/{n}" for n in range(257))}, "257 scopes; at most 256"),
    ],
)
def test_what_a_token_may_not_say(changed, why):
    with pytest.raises(TokenError, match=why):
        user(signed({**CLAIMS, **changed}))


@pytest.mark.parametrize("payload", [b"", b"[]", b"{", b"\xff", b"[" * 5000, b'"x"'])
def test_a_payload_that_is_no_claims(payload):
    with pytest.raises(TokenError):
        user(signed(payload))


def encoded(part: Any) -> bytes:
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def test_no_signature_is_no_token():
    for alg in ("none", "None", "NONE"):
        token = encoded({"alg": alg, "kid": "rsa"}) + b"." + encoded(CLAIMS) + b"."
        with pytest.raises(TokenError, match="signature"):
            user(token)


def test_a_public_key_is_no_shared_secret():
    """Somebody signs with the public key as if it were the secret of HS256."""
    for secret in (RSA.as_pem(private=False), json.dumps(RSA.as_dict(private=False)).encode()):
        head = encoded({"alg": "HS256", "kid": "rsa"}) + b"." + encoded(CLAIMS)
        mac = hmac.new(secret, head, hashlib.sha256).digest()
        with pytest.raises(TokenError, match="signature"):
            user(head + b"." + encoded(mac))


def test_another_key_or_another_algorithm():
    with pytest.raises(TokenError, match="signature"):
        user(signed(key=RSAKey.generate_key(2048, {"kid": "rsa"})))
    with pytest.raises(TokenError, match="signature"):
        user(signed(alg="RS512"), OAuth2(resource_server_id="mq", algorithms=("RS256",)))
    token = signed()
    head, body, mark = token.split(b".")
    with pytest.raises(TokenError, match="signature"):
        user(b".".join([head, encoded({**CLAIMS, "sub": "root"}), mark]))
    with pytest.raises(TokenError, match="signature"):
        user(
            b".".join([encoded({"alg": "RS256", "kid": "rsa", "crit": ["x"], "x": 1}), body, mark])
        )


def test_a_key_in_the_header_is_not_believed():
    own = RSAKey.generate_key(2048, {"kid": "rsa"})
    token = signed(key=own, jwk=own.as_dict(private=False))
    with pytest.raises(TokenError, match="signature"):
        user(token)


@given(st.binary(max_size=60).map(lambda data: data.replace(b".", b"") + b"..x"))
def test_anything_with_two_dots_is_refused(data):
    with pytest.raises(TokenError):
        user(data)
    with contextlib.suppress(TokenError):
        key_name(data)


def test_the_issuer():
    settings = OAuth2(resource_server_id="mq", issuer="https://sso.example")
    with pytest.raises(TokenError, match="iss"):
        user(signed(), settings)
    assert user(signed({**CLAIMS, "iss": "https://sso.example"}), settings).name == "jo"


def test_scopes_come_from_where_they_are_said_to():
    settings = OAuth2(
        resource_server_id="mq",
        additional_scopes_key="roles realm.access.scopes",
        scope_aliases={"operator": ("mq.tag:monitoring", "mq.write:v/x")},
        preferred_username_claims=("user_name", "sub"),
    )
    claims = {
        **CLAIMS,
        "user_name": "Jo",
        "scope": ["mq.read:v/q", 5],
        "roles": {"mq": "configure:v/c operator", "other": ["write:*/*"]},
        "realm": {"access": [{"scopes": "operator"}, {"scopes": ["mq.read:v/r"]}, 7]},
    }
    found = user(signed(claims), settings)
    assert found.name == "Jo"
    assert found.tags == ("monitoring",)
    assert found.may("configure", "queue", "c", "v")
    assert found.may("write", "exchange", "x", "v")
    assert found.may("read", "queue", "r", "v")
    assert not found.may("write", "queue", "any", "any")


@pytest.mark.parametrize(("prefix", "scope"), [("", "read:v/q"), ("api:", "api:read:v/q")])
def test_another_prefix(prefix, scope):
    settings = OAuth2(resource_server_id="mq", scope_prefix=prefix)
    found = user(signed({**CLAIMS, "scope": scope}), settings)
    assert found.may("read", "queue", "q", "v")


def test_topics():
    found = user(signed({**CLAIMS, "scope": "mq.write:v/amq.topic/a.*"}))
    found.check_key("write", "amq.topic", "a.b", "v")
    with pytest.raises(AccessRefused):
        found.check_key("write", "amq.topic", "b", "v")


def test_a_set_of_keys():
    secret = OctKey.generate_key(256, {"kid": "secret"})
    listed = [
        RSA.as_dict(private=False),
        EC.as_dict(private=False),
        secret.as_dict(private=True),
        {**RSA.as_dict(private=False), "kid": "enc", "use": "enc"},
        {"kty": "RSA", "kid": "broken", "n": "x"},
        {"kty": "RSA"},
        7,
    ]
    found = import_keys(json.dumps({"keys": listed}).encode())
    assert sorted(found) == ["ec", "rsa"]
    for bad in (b"", b"{}", b'{"keys": 1}', b"[" * 9999):
        with pytest.raises(ValueError, match="not a JSON Web Key Set"):
            import_keys(bad)


def test_a_key_in_pem():
    for key in (RSA, EC, ED):
        assert type(import_pem(key.as_pem(private=False))) is type(key)
    with pytest.raises(ValueError, match="no public key"):
        import_pem(b"-----BEGIN NOTHING-----")
