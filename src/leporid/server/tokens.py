"""Tokens (JSON Web Tokens, RFC 7519): whether one is right, and which user it makes.

Responsible for signatures, audience, issuer and times, and for scopes and names in claims, as
RabbitMQ's OAuth 2 back end has them. Must not know where keys come from, nor a clock. Invariants:
nothing of a token is believed before its signature was verified, but which key it names; nothing of
a token is in a message.

It is imported only if tokens are wanted: joserfc is an extra.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from typing import Any, Final

from joserfc import jws
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey

from leporid.broker.access.access import User
from leporid.broker.access.passwords import NoPassword
from leporid.broker.access.scopes import SCOPES_MAX, ScopedPermissions, ScopedTopics, tags_of
from leporid.server.oauth_settings import OAUTH2, OAuth2

TOKEN_BYTES_MAX: Final = 24 * 1024
"""All that a client may send before its login."""
NAME_BYTES_MAX: Final = 255

Key = RSAKey | ECKey | OKPKey
"""Public keys. There are none of shared secrets, so that no public key is taken for one."""


class TokenError(Exception):
    """A token that logs nobody in; the text says why, for the log."""


class TokenExpired(TokenError):
    """One that was right, until it ended."""


class UnknownKey(TokenError):
    """It names a key that is not known, or not yet."""


def looks_like_a_token(text: bytes) -> bool:
    """Say whether a password has the form of a signed token; so no other one is looked at."""
    return text.count(b".") == 2 and len(text) <= TOKEN_BYTES_MAX


def key_name(token: bytes) -> str | None:
    """Return which key a token names; None: none.

    Raises:
        TokenError: it is not a JSON Web Token.
    """
    if not looks_like_a_token(token):
        raise TokenError("it is not a JSON Web Token")
    try:
        header = jws.extract_compact(token).headers()
    except (JoseError, ValueError, RecursionError, TypeError, AttributeError, KeyError):
        raise TokenError("it is not a JSON Web Token") from None
    name = header.get("kid")
    return name if isinstance(name, str) else None


def import_keys(document: bytes) -> dict[str, Key]:
    """Read a JSON Web Key Set (RFC 7517): its public keys for signatures, by their identifiers.

    Raises:
        ValueError: it is none.
    """
    try:
        listed = json.loads(document)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("it is not a JSON Web Key Set") from None
    if not isinstance(listed, list):
        raise ValueError("it is not a JSON Web Key Set")
    found: dict[str, Key] = {}
    for each in listed:
        if not isinstance(each, dict) or each.get("use", "sig") != "sig":
            continue
        name, kind = each.get("kid"), _KINDS.get(str(each.get("kty")))
        if kind is None or not isinstance(name, str):
            continue  # a shared secret, or nothing that a token could name
        try:
            found[name] = kind.import_key({**each, "kty": str(each["kty"])})
        except (JoseError, ValueError, TypeError, KeyError):
            continue
    return found


_KINDS: Final[Mapping[str, Any]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}


def import_pem(text: bytes) -> Key:
    """Read a public key in PEM.

    Raises:
        ValueError: it is none.
    """
    for kind in _KINDS.values():
        try:
            found: Key = kind.import_key(text)
        except (JoseError, ValueError, TypeError):
            continue
        return found
    raise ValueError("has no public key in PEM")


class Verifier:
    """Makes users of tokens.

    Args:
        settings: whole and checked.
    """

    def __init__(self, settings: OAuth2) -> None:
        assert settings.resource_server_id is not None
        self._settings = settings
        self._id = settings.resource_server_id
        prefix = settings.scope_prefix
        self._prefix = f"{self._id}." if prefix is None else prefix

    def user(self, token: bytes, key: Key, now_s: float) -> User:
        """Return whom a token logs in.

        Args:
            token: as `key_name` has taken it.
            key: the one that it names.
            now_s: the wall's clock.

        Raises:
            TokenError: nobody.
        """
        try:
            with warnings.catch_warnings():
                # RFC 9864 has other names for EdDSA; which ones may be used, the settings say.
                warnings.simplefilter("ignore", SecurityWarning)
                signed = jws.deserialize_compact(token, key, list(self._settings.algorithms))
        except (JoseError, ValueError, RecursionError, TypeError, AttributeError, KeyError) as bad:
            # Not its text, which may have some of the token.
            raise TokenError(f"the signature is not right ({type(bad).__name__})") from None
        try:
            claims = json.loads(signed.payload)
        except (ValueError, RecursionError):
            raise TokenError("it has no claims") from None
        if not isinstance(claims, dict):
            raise TokenError("it has no claims")
        expires_s = self._check(claims, now_s)
        scopes = self._scopes(claims)
        if len(scopes) > SCOPES_MAX:
            raise TokenError(f"it has {len(scopes)} scopes; at most {SCOPES_MAX} may be")
        permissions = ScopedPermissions(scopes)
        return User(
            self._name(claims),
            NoPassword(),
            tags_of(scopes),
            permissions,
            topics=ScopedTopics(permissions),
            backend=OAUTH2,
            expires_ms=int(expires_s * 1000),
        )

    def _check(self, claims: Mapping[str, Any], now_s: float) -> float:
        """Check what a token says of itself (RFC 7519 4.1); return when it ends."""
        expires_s, not_before_s = _number(claims.get("exp")), _number(claims.get("nbf", 0))
        if expires_s is None or not_before_s is None:
            raise TokenError("it does not say until when it is right (exp)")
        if expires_s <= now_s:
            raise TokenExpired("it has expired")
        if not_before_s > now_s:
            raise TokenError("it is not right yet (nbf)")
        issuer = self._settings.issuer
        if issuer is not None and claims.get("iss") != issuer:
            raise TokenError("somebody else than oauth2.issuer has issued it (iss)")
        if self._settings.verify_aud and self._id not in _texts(claims.get("aud")):
            raise TokenError("it is for somebody else than oauth2.resource_server_id (aud)")
        return expires_s

    def _name(self, claims: Mapping[str, Any]) -> str:
        for claim in self._settings.preferred_username_claims:
            name = claims.get(claim)
            if isinstance(name, str) and name and _is_utf8(name):
                if len(name.encode()) > NAME_BYTES_MAX:
                    break
                return name
        raise TokenError("it has no name for a user (oauth2.preferred_username_claims)")

    def _scopes(self, claims: Mapping[str, Any]) -> list[str]:
        """Return the scopes for this broker, without what they begin with."""
        found = _texts(claims.get("scope"))
        for path in (self._settings.additional_scopes_key or "").split():
            found += self._of(claims, path.split("."))
        aliases = self._settings.scope_aliases or {}
        for each in tuple(found):
            found += aliases.get(each, ())
        prefix = self._prefix
        return list(
            dict.fromkeys(each.removeprefix(prefix) for each in found if each.startswith(prefix))
        )

    def _of(self, value: Any, path: list[str]) -> list[str]:
        """Return the scopes at a path of names, each also in every object of a list."""
        for at, name in enumerate(path):
            if isinstance(value, list):
                return [each for one in value for each in self._of(one, path[at:])]
            if not isinstance(value, Mapping):
                return []
            value = value.get(name)
        if isinstance(value, Mapping):
            own = _texts(value.get(self._id))
            return [f"{self._id}.{each}" for each in own]
        return _texts(value)


def _number(value: Any) -> float | None:
    """Return a moment in seconds; None: it is none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    # A whole number of JSON may be too large to be compared as a float.
    return float(value) if abs(value) < 2**53 and math.isfinite(value) else None


def _texts(value: Any) -> list[str]:
    """Return the texts of a list, or those of one text with spaces between."""
    if isinstance(value, str):
        value = value.split()
    if isinstance(value, list):
        return [each for each in value if isinstance(each, str) and _is_utf8(each)]
    return []


def _is_utf8(text: str) -> bool:
    """Say whether a text is one; JSON may have halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
