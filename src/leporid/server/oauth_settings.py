"""The settings of logins by token, and of who is asked about users.

Responsible for `[auth]` and `[oauth2]`, with RabbitMQ's names. Must not import what verifies
tokens, which is an extra.
"""

# ruff: noqa: RUF009 - `setting` is dataclasses.field with a check
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leporid.broker.access.backends import INTERNAL
from leporid.server.outgoing import url
from leporid.server.settings import (
    Choice,
    ConfigError,
    file,
    flag,
    many,
    named,
    refusal,
    setting,
    whole,
)

OAUTH2: Final = "oauth2"
HTTP: Final = "http"
INTERNAL_HTTP: Final = "internal:http"
"""Who somebody is, by the broker's own users; what that one may do, by a server."""

RIGHT_PATHS: Final = ("vhost_path", "resource_path", "topic_path")
"""Those of `[auth_http]` that have the server decide what users may do."""

# Asymmetric ones alone: whoever verifies by a shared secret could make tokens as well.
ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
    "EdDSA", "Ed25519",
)  # fmt: skip


def _text(path: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise refusal(path, value, "must be a text that is not empty")
    return value


def _any_text(path: str, value: Any) -> str:
    if not isinstance(value, str):
        raise refusal(path, value, "must be a text")
    return value


def _scopes(path: str, value: Any) -> tuple[str, ...]:
    """Allow scopes as tokens have them: one text, with spaces between, or a list."""
    if isinstance(value, str):
        return tuple(value.split())
    return many(_text)(path, value)


def _backends(path: str, value: Any) -> tuple[str, ...]:
    found = many(Choice(INTERNAL, OAUTH2, HTTP, INTERNAL_HTTP))(path, value)
    if not found or len(set(found)) != len(found):
        raise refusal(path, value, "must name at least one back end, and none twice")
    return found


@dataclass(frozen=True, slots=True)
class Auth:
    """`[auth]`: who is asked about users."""

    backends: tuple[str, ...] = setting(
        _backends,
        (INTERNAL,),
        'who is asked, in turn, until one lets somebody in: `"internal"`, the broker\'s own users; '
        '`"oauth2"`, [tokens](authentication.md#tokens); `"http"`, '
        "[a server](authentication.md#a-server-that-decides); "
        '`"internal:http"`, own users with [rights of that server](authentication.md#rights)',
        rabbitmq="`auth_backends.*`",
    )
    cache_seconds: int = setting(
        whole(0, 3600),
        15,
        'how long an answer of `"http"` counts that has let somebody in (0: only once), or that '
        "has granted or refused a right (one second at least)",
        unit="seconds",
        live=True,
        rabbitmq="`auth_cache.cache_ttl`, in milliseconds",
    )


@dataclass(frozen=True, slots=True)
class AuthHttp:
    """`[auth_http]`: the server that decides about names and passwords, and maybe about rights."""

    user_path: str | None = setting(
        url,
        None,
        "where it is asked whether a name and a password belong together",
        live=True,
        rabbitmq="`auth_http.user_path`",
    )
    vhost_path: str | None = setting(
        url,
        None,
        "where it is asked whether a user may enter a virtual host. This and the next two are all "
        "given or none; without them the broker's own users say what a user may do",
        live=True,
        rabbitmq="`auth_http.vhost_path`",
    )
    resource_path: str | None = setting(
        url,
        None,
        "where it is asked for the rights configure, write and read on queues and exchanges",
        live=True,
        rabbitmq="`auth_http.resource_path`",
    )
    topic_path: str | None = setting(
        url,
        None,
        "where it is asked for the rights on routing keys of topic exchanges",
        live=True,
        rabbitmq="`auth_http.topic_path`",
    )
    http_method: str = setting(
        Choice("get", "post"),
        "get",
        'how: `"get"`, which has the password in the address, or `"post"`',
        live=True,
        rabbitmq="`auth_http.http_method`",
    )
    ca: Path | None = setting(
        file,
        None,
        "PEM file: who may have signed its certificate",
        default_doc="whom the system trusts",
        rabbitmq="`auth_http.ssl_options.cacertfile`",
    )


@dataclass(frozen=True, slots=True)
class OAuth2:
    """`[oauth2]`: which tokens log somebody in."""

    resource_server_id: str | None = setting(
        _text,
        None,
        "what tokens for this broker have as their audience (`aud`)",
        rabbitmq="`auth_oauth2.resource_server_id`",
    )
    issuer: str | None = setting(
        url,
        None,
        "who has issued them (`iss`); without `jwks_url` it is asked where its keys are "
        "(`/.well-known/openid-configuration`)",
        rabbitmq="`auth_oauth2.issuer`",
    )
    jwks_url: str | None = setting(
        url,
        None,
        "where the issuer publishes its keys, as a JSON Web Key Set",
        rabbitmq="`auth_oauth2.jwks_url`, `auth_oauth2.jwks_uri`",
    )
    ca: Path | None = setting(
        file,
        None,
        "PEM file: who may have signed the certificate of the issuer's server",
        default_doc="whom the system trusts",
        rabbitmq="`auth_oauth2.https.cacertfile`",
    )
    signing_keys: Mapping[str, Path] | None = setting(
        named(file),
        None,
        "PEM files with public keys by their identifiers (`kid`), instead of or beside those that "
        "are published",
        default_doc="`{}`",
        rabbitmq="`auth_oauth2.signing_keys.*`",
    )
    default_key: str | None = setting(
        _text,
        None,
        "the identifier of the key for tokens that name none",
        rabbitmq="`auth_oauth2.default_key`",
    )
    algorithms: tuple[str, ...] = setting(
        many(Choice(*ALGORITHMS)),
        ALGORITHMS,
        "with which tokens may be signed",
        rabbitmq="`auth_oauth2.algorithms.*`",
    )
    preferred_username_claims: tuple[str, ...] = setting(
        many(_text),
        ("sub", "client_id"),
        "claims of which the first one there is the user's name",
        rabbitmq="`auth_oauth2.preferred_username_claims.*`",
    )
    additional_scopes_key: str | None = setting(
        _text,
        None,
        "claims, with spaces between, that have scopes beside `scope`; a dot leads into an object",
        rabbitmq="`auth_oauth2.additional_scopes_key`",
    )
    scope_prefix: str | None = setting(
        _any_text,
        None,
        "what scopes for this broker begin with; others are ignored",
        default_doc="`resource_server_id` and a dot",
        rabbitmq="`auth_oauth2.scope_prefix`",
    )
    scope_aliases: Mapping[str, tuple[str, ...]] | None = setting(
        named(_scopes),
        None,
        "scopes that stand for others, each with those that it stands for",
        default_doc="`{}`",
        rabbitmq="`auth_oauth2.scope_aliases.*`",
    )
    client_id: str | None = setting(
        _text,
        None,
        "what the broker is called at the issuer; with it, one logs in to the "
        "[web UI](web-ui.md#oauth-2) there",
        rabbitmq="`management.oauth_client_id`",
    )
    client_secret: str | None = setting(
        _text,
        None,
        "the secret of a confidential client; a public one has none",
        secret=True,
        rabbitmq="`management.oauth_client_secret`",
    )
    authorization_endpoint: str | None = setting(
        url,
        None,
        "where one logs in",
        default_doc="where the issuer says",
        rabbitmq="`auth_oauth2.authorization_endpoint`",
    )
    token_endpoint: str | None = setting(
        url,
        None,
        "where the broker gets tokens for codes",
        default_doc="where the issuer says",
        rabbitmq="`auth_oauth2.token_endpoint`",
    )
    scopes: tuple[str, ...] = setting(
        _scopes,
        ("openid",),
        "what is asked for at a login to the web UI: the scopes that the issuer puts into tokens "
        "for this broker are those that it is asked for, or all",
        rabbitmq="`management.oauth_scopes`",
    )
    verify_aud: bool = setting(
        flag,
        True,
        "whether the audience is looked at",
        rabbitmq="`auth_oauth2.verify_aud`",
    )


def check_auth(auth: Auth, settings: OAuth2, http: AuthHttp) -> None:
    """Check what concerns several settings at once.

    Raises:
        ConfigError: they do not belong together.
    """
    asked = [each for each in (HTTP, INTERNAL_HTTP) if each in auth.backends]
    if asked and http.user_path is None:
        raise ConfigError(
            "auth_http.user_path: missing; nobody can be asked", "auth_http.user_path"
        )
    given = [key for key in RIGHT_PATHS if getattr(http, key) is not None]
    if INTERNAL_HTTP in auth.backends and not given:
        raise ConfigError(
            f"auth_http.{RIGHT_PATHS[0]}: missing; {INTERNAL_HTTP!r} asks a server about rights",
            f"auth_http.{RIGHT_PATHS[0]}",
        )
    if given and len(given) < len(RIGHT_PATHS):
        missing = next(key for key in RIGHT_PATHS if key not in given)
        # A right that is asked for in one place and not in another would protect nothing.
        raise ConfigError(
            f"auth_http.{missing}: missing beside {given[0]}; a server decides about all rights "
            "or about none",
            f"auth_http.{missing}",
        )
    if OAUTH2 not in auth.backends:
        return
    if settings.resource_server_id is None:
        raise ConfigError(
            "oauth2.resource_server_id: missing; tokens are for somebody (aud)",
            "oauth2.resource_server_id",
        )
    if not (settings.issuer or settings.jwks_url or settings.signing_keys):
        raise ConfigError(
            "oauth2: without issuer, jwks_url or signing_keys, no token can be verified", "oauth2"
        )
    endpoints = settings.authorization_endpoint and settings.token_endpoint
    if settings.client_id is not None and not (settings.issuer or endpoints):
        raise ConfigError(
            "oauth2.client_id: without issuer, authorization_endpoint and token_endpoint must be "
            "given",
            "oauth2.client_id",
        )
    if settings.default_key is not None and settings.signing_keys is not None:
        known = settings.signing_keys
        if settings.default_key not in known and not (settings.issuer or settings.jwks_url):
            raise ConfigError(
                f'oauth2.default_key = "{settings.default_key}": none of signing_keys',
                "oauth2.default_key",
            )
