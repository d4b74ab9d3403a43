"""`rabbitmq.conf` as settings of ours: what can be kept, and a reason for each line that cannot.

Responsible for the keys of RabbitMQ 3.10 to 4.x, in the form of sysctl. Must not read files. The
other form, Erlang terms (`advanced.config`, `rabbitmq.config`), is refused. Invariant: each line of
the file is in the answer once, as a setting or as a comment; the settings can be used as they are.

Source: the documented keys of rabbitmq.conf (rabbitmq.com/docs/configure).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from leporid.server.config import CHANNEL_MAX_MOST, build
from leporid.server.oauth_settings import HTTP, INTERNAL_HTTP, RIGHT_PATHS
from leporid.server.settings import ConfigError, Problem, join, leaves, nearest, to_toml
from leporid.server.sources import Values

ERLANG: Final = (
    "holds Erlang terms (advanced.config, or the classic rabbitmq.config): only the newer form "
    "with lines such as `heartbeat = 60` is read; write what you need of it in TOML by hand"
)

# As rabbit_resource_monitor_misc:parse_information_unit has them.
_UNITS: Final = {"": "", "K": " KiB", "M": " MiB", "G": " GiB", "T": " TiB"}
_SIZE: Final = re.compile(r"(\d+)(?:([kKmMgGtT])(i?[bB])?)?")
_LINE: Final = re.compile(r"\s*([^\s=#][^\s=]*)\s*=\s*(.*?)\s*")
_REFERENCE: Final = re.compile(r"\$\(([^)]*)\)")
_LEVELS: Final = {
    "debug": "debug",
    "info": "info",
    "notice": "info",
    "warning": "warning",
    "error": "error",
    "critical": "error",
    "alert": "error",
    "emergency": "error",
    "none": "error",
}
_RIGHTS: Final = ("configure", "write", "read")
EVERY_ADDRESS: Final = "0.0.0.0"
MODULE: Final = "rabbit_auth_backend_"
DEFAULT_AUTH_URL: Final = "http://localhost:8000/auth/"
"""Where RabbitMQ asks if nothing is said; `user`, `vhost`, `resource` or `topic` follows."""
CLIENT_KEYS: Final = (
    "ssl_options.cacertfile",
    "ssl_options.verify",
    "ssl_options.fail_if_no_peer_cert",
)
LISTENS: Final = (
    "RabbitMQ listens on all addresses, Leporid on this machine's own unless it is "
    f'told: bind = "{EVERY_ADDRESS}"'
)
USER_KEYS: Final = ("default_user", "default_pass", "default_vhost")
USER_BEGINNINGS: Final = ("default_permissions.", "default_user_tags.", "loopback_users")


@dataclass(frozen=True, slots=True)
class Line:
    """What a file says of one key.

    Attributes:
        value: without quotes.
        at: where that stands.
        earlier: where the same file said it before.
    """

    value: str = field(repr=False)
    at: str
    earlier: tuple[str, ...] = ()


class _NotKept(Exception):
    """A line means nothing here; the reason."""


class _InvalidValue(_NotKept):
    """RabbitMQ would refuse the value of a line, too."""


def _number(value: str) -> int:
    if not re.fullmatch(r"\d{1,18}", value, re.ASCII):
        raise _InvalidValue("is not a whole number")
    return int(value)


def _size(value: str) -> int | str:
    match = _SIZE.fullmatch(value)
    if match is None:
        raise _InvalidValue("is not a size")
    number, unit, byte = match[1], (match[2] or "").upper(), match[3] or ""
    if not unit:
        return int(number)
    # kB is a power of 1000, k and kiB are powers of 1024.
    return f"{number} {unit}B" if byte and byte[0] not in "iI" else number + _UNITS[unit]


def _share(value: str) -> float:
    try:
        share = float(value)
    except ValueError:
        raise _InvalidValue("is not a number") from None
    return min(share, 1.0)


def _unlimited(most: int) -> Callable[[str], int]:
    """Numbers of which 0, infinity and undefined mean none; here the highest does."""
    return lambda value: most if value in ("0", "infinity", "undefined") else _number(value)


def _connections(value: str) -> int:
    if value == "infinity":
        raise _NotKept("is the default here, as far as open files allow")
    return _number(value)


def _seconds(value: str) -> int:
    if value == "infinity":
        raise _NotKept("a handshake always has an end here")
    return math.ceil(_number(value) / 1000)


def _level(value: str) -> str:
    if value not in _LEVELS:
        raise _InvalidValue(f"is not a level{nearest(value, _LEVELS)}")
    return _LEVELS[value]


def _format(value: str) -> str:
    return "json" if value == "json" else "console"


def _interceptor(value: str) -> str:
    return "overwrite" if value == "true" else "keep"


def _flag(value: str) -> bool:
    return value == "true"


def _login_from(value: str) -> str:
    return value.replace("subject_alt_name", "subject_alternative_name")


# RabbitMQ's key, ours, and what makes a value of ours of one of RabbitMQ's.
_KEPT: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "heartbeat": ("heartbeat", _number),
    "frame_max": ("frame_max", _number),
    "channel_max": ("channel_max", _unlimited(CHANNEL_MAX_MOST)),
    "connection_max": ("limits.connections_max", _connections),
    "max_message_size": ("limits.message_bytes_max", _number),
    "handshake_timeout": ("limits.handshake_seconds", _seconds),
    "consumer_timeout": (
        "consumer_timeout_ms",
        lambda value: 0 if value == "undefined" else _number(value),
    ),
    "vm_memory_high_watermark.relative": ("memory_watermark", _share),
    "vm_memory_high_watermark.absolute": ("memory_watermark", _size),
    "disk_free_limit.absolute": ("disk_free_min", _size),
    "log.level": ("log_level", _level),
    "log.console.level": ("log_level", _level),
    "log.file.level": ("log_level", _level),
    "log.console.formatter": ("log_format", _format),
    "log.file.formatter": ("log_format", _format),
    "ssl_options.certfile": ("tls.certificate", str),
    "ssl_options.keyfile": ("tls.key", str),
    "ssl_cert_login_from": ("tls.login_from", _login_from),
    "ssl_cert_login_san_type": ("tls.login_san_type", str),
    "ssl_cert_login_san_index": ("tls.login_san_index", _number),
    "auth_oauth2.resource_server_id": ("oauth2.resource_server_id", str),
    "auth_oauth2.issuer": ("oauth2.issuer", str),
    "auth_oauth2.jwks_url": ("oauth2.jwks_url", str),
    "auth_oauth2.jwks_uri": ("oauth2.jwks_url", str),
    "auth_oauth2.https.cacertfile": ("oauth2.ca", str),
    "auth_oauth2.default_key": ("oauth2.default_key", str),
    "auth_oauth2.additional_scopes_key": ("oauth2.additional_scopes_key", str),
    "auth_oauth2.scope_prefix": ("oauth2.scope_prefix", str),
    "auth_oauth2.authorization_endpoint": ("oauth2.authorization_endpoint", str),
    "auth_oauth2.token_endpoint": ("oauth2.token_endpoint", str),
    "management.oauth_client_id": ("oauth2.client_id", str),
    "management.oauth_client_secret": ("oauth2.client_secret", str),
    "management.oauth_scopes": ("oauth2.scopes", str),
    "auth_oauth2.verify_aud": ("oauth2.verify_aud", _flag),
    "auth_http.user_path": ("auth_http.user_path", str),
    "auth_http.vhost_path": ("auth_http.vhost_path", str),
    "auth_http.resource_path": ("auth_http.resource_path", str),
    "auth_http.topic_path": ("auth_http.topic_path", str),
    "auth_http.http_method": ("auth_http.http_method", str),
    "auth_http.ssl_options.cacertfile": ("auth_http.ca", str),
    "load_definitions": ("definitions.import", str),
    "management.load_definitions": ("definitions.import", str),
    "definitions.local.path": ("definitions.import", str),
    "definitions.skip_if_unchanged": (
        "definitions.skip_if_unchanged",
        lambda value: value == "true",
    ),
    "prometheus.tcp.port": ("metrics_port", _number),
    "prometheus.ssl.port": ("metrics_https_port", _number),
    "management.ssl.port": ("https_port", _number),
    "management.tcp.port": ("http_port", _number),
    "management.listener.port": ("http_port", _number),
    "message_interceptors.incoming.set_header_timestamp.overwrite": (
        "interceptors.timestamp",
        _interceptor,
    ),
}

# Keys with a number, or a name, at their end: lists of ours, and what their words are here.
_LISTS: Final[Mapping[str, tuple[str, Mapping[str, str | None]]]] = {
    "auth_backends": (
        "auth.backends",
        {
            "internal": "internal",
            "rabbit_auth_backend_internal": "internal",
            "oauth2": "oauth2",
            "oauth": "oauth2",
            "http": "http",
            "rabbit_auth_backend_http": "http",
            "rabbit_auth_backend_oauth2": "oauth2",
            "ldap": None,
            "rabbit_auth_backend_ldap": None,
            "cache": None,
            "rabbit_auth_backend_cache": None,
        },
    ),
    "auth_oauth2.algorithms": ("oauth2.algorithms", {}),
    "auth_oauth2.preferred_username_claims": ("oauth2.preferred_username_claims", {}),
}
# Back ends of which one says who somebody is, and another what that one may do.
HALVES: Final = {
    (HTTP, "internal"): HTTP,
    (HTTP, HTTP): HTTP,
    ("internal", HTTP): INTERNAL_HTTP,
}
_NUMBERED: Final = re.compile(
    r"(auth_backends|auth_oauth2\.(?:algorithms|preferred_username_claims|signing_keys))\.([^.]+)"
)

_ON_BY_ITSELF: Final = "needs no setting here"
_NO_CLUSTER: Final = "there is one node"
_NO_TLS: Final = "is not taken over; docs/tls.md has what there is, such as clients' certificates"
_AS_AMQP: Final = "HTTP has the certificates of AMQP, [tls]; docs/tls.md has what else there is"
_NOT_HERE: Final = "there is nothing of this here"
_ERLANG_ONLY: Final = "concerns the Erlang runtime"

# Beginnings of keys, and why they mean nothing here; the first that fits counts.
_REASONS: Final[tuple[tuple[str, str], ...]] = (
    ("listeners.ssl", _NO_TLS),
    ("ssl_", _NO_TLS),
    ("management.ssl", _AS_AMQP),
    ("prometheus.ssl", _AS_AMQP),
    ("prometheus.", _NOT_HERE),
    ("management.tcp.ip", "HTTP listens on the addresses of AMQP (bind)"),
    ("management.", _NOT_HERE),
    ("management_agent.", _NOT_HERE),
    ("collect_statistics", "counts are always kept, and cost nothing to speak of"),
    ("definitions.tls", _NOT_HERE),
    ("definitions.https", "definitions are read from files only (definitions.import)"),
    ("definitions.import_backend", "definitions are read from files only (definitions.import)"),
    ("definitions.hashing", "the digest is SHA-256"),
    ("definitions.", _NOT_HERE),
    ("cluster_", _NO_CLUSTER),
    ("mirroring_", _NO_CLUSTER),
    ("queue_master_locator", _NO_CLUSTER),
    ("queue_leader_locator", _NO_CLUSTER),
    ("quorum_", "a quorum queue is one copy on one node, synced before it is confirmed"),
    ("raft.", "a quorum queue is one copy on one node, synced before it is confirmed"),
    ("classic_queue.", "there is one kind of storage"),
    ("queue_index_", "there is one kind of storage"),
    ("msg_store_", "there is one kind of storage"),
    ("lazy_queue_", "all queues keep their messages on disk"),
    ("mnesia_", "definitions are in SQLite"),
    ("net_ticktime", _NO_CLUSTER),
    ("distribution.", _NO_CLUSTER),
    ("auth_http.", "docs/authentication.md has what there is of a server that decides"),
    ("auth_oauth2.", "docs/authentication.md has what there is of tokens"),
    ("auth_mechanisms.", "PLAIN and AMQPLAIN always, EXTERNAL where a certificate was verified"),
    ("auth_", "users are those of this broker, or of tokens; docs/authentication.md"),
    ("loopback_users.", "concerns another user than the default one"),
    ("disk_free_limit.relative", "give disk_free_min as a size"),
    ("vm_memory_high_watermark_paging_ratio", "messages are on disk anyway"),
    ("vm_memory_calculation_strategy", "what counts is what the operating system says"),
    ("memory_monitor_interval", _ON_BY_ITSELF),
    ("log.", "the log goes to standard error"),
    ("tcp_listen_options", _ON_BY_ITSELF),
    ("num_acceptors", _ON_BY_ITSELF),
    ("reverse_dns_lookups", "addresses are not looked up"),
    ("proxy_protocol", "name the networks of your proxies: proxy_protocol.trusted"),
    ("hipe_compile", _ERLANG_ONLY),
    ("background_gc", _ERLANG_ONLY),
    ("delegate_count", _ERLANG_ONLY),
    ("credit_flow", _ERLANG_ONLY),
    ("channel_operation_timeout", _ERLANG_ONLY),
    ("socket_writer", _ERLANG_ONLY),
    ("runtime_", _ERLANG_ONLY),
    ("erlang.", _ERLANG_ONLY),
    ("kernel.", _ERLANG_ONLY),
    ("sysmon_handler.", _ERLANG_ONLY),
    ("ranch_connection_max", "give connection_max"),
    ("vhost_max", "limits are of each virtual host: leporid limits set"),
    ("default_queue_type", "give it to a virtual host: leporid vhosts set"),
    ("file_handle", "the limit of open files is the process's"),
    ("total_memory_available_override_value", "give memory_watermark as a size"),
    ("password_hashing_module", "passwords are kept as argon2id"),
    ("initial_frame_max", _ON_BY_ITSELF),
    ("message_store_shutdown_timeout", "there is one kind of storage"),
    ("trace_vhosts", _NOT_HERE),
    ("channel_max_per_node", "give channel_max, the channels of one connection"),
    ("consumer_max_per_channel", _NOT_HERE),
    ("default_limits.", _NOT_HERE),
    ("default_policies.", "write [[policies]] or [[operator_policies]]"),
    ("default_users.", "write [users.NAME]"),
    ("deprecated_features.", _NOT_HERE),
    ("message_interceptors.", "only the timestamp and the message id can be set"),
    ("federation_", _NOT_HERE),
    ("shovel_", _NOT_HERE),
    ("mqtt.", "only AMQP 0-9-1 is spoken"),
    ("stomp.", "only AMQP 0-9-1 is spoken"),
    ("amqp1_0.", "only AMQP 0-9-1 is spoken"),
    ("stream.", "streams are read over AMQP 0-9-1 and HTTP"),
    ("web_", "only AMQP 0-9-1 is spoken"),
)


class _Translation:
    """What has been made of the lines so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values = Values()
        self.comments: list[str] = []
        # Values that are none of their keys.
        self.wrong: list[str] = []
        self._user: dict[str, tuple[str, str]] = {}
        self._listeners: list[tuple[str, str, str]] = []
        self._tls_listeners: list[tuple[str, str]] = []
        self._loopback: dict[str, bool] = {}
        self._loopback_at = ""
        self._clients: dict[str, tuple[str, str]] = {}
        self._lists: dict[str, list[str]] = {}
        self._halves: dict[str, dict[str, tuple[str, str]]] = {}
        # Where it says that a server decides about rights, too.
        self._asked_rights_at = ""

    def take(self, key: str, value: str, at: str) -> None:
        """Take one line, which stands somewhere."""
        try:
            if key in USER_KEYS or key.startswith(USER_BEGINNINGS[:2]):
                self._user[key] = (value, at)
            elif key == "loopback_users" or key.startswith("loopback_users."):
                self._take_loopback(key, value, at)
            elif re.fullmatch(r"listeners\.tcp\.[^.]+", key):
                self._listeners.append((key, value, at))
            elif re.fullmatch(r"listeners\.ssl\.[^.]+", key):
                self._tls_listeners.append((value, at))
            elif key == "listeners.tcp":
                self._take_no_listener(value, at)
            elif key.startswith("auth_backends.") and key.endswith((".authn", ".authz")):
                place, _, half = key.removeprefix("auth_backends.").rpartition(".")
                self._halves.setdefault(place, {})[half] = (value, at)
            elif (found := _NUMBERED.fullmatch(key)) is not None:
                self._take_numbered(found[1], found[2], value, at)
            elif key in CLIENT_KEYS:
                self._clients[key] = (value, at)
            elif key in _KEPT:
                ours, convert = _KEPT[key]
                self.values.set(ours.split("."), convert(value), at)
            else:
                raise _NotKept(_reason(key))
        except _InvalidValue as reason:
            self.wrong.append(f"{at}: {reason}")
        except _NotKept as reason:
            self.comments.append(f"{at}: {reason}")

    def _take_loopback(self, key: str, value: str, at: str) -> None:
        if key == "loopback_users":
            if value != "none":
                raise _NotKept("is either none or loopback_users.NAME = true")
            self._loopback["guest"] = False
        else:
            self._loopback[key.removeprefix("loopback_users.")] = value == "true"
        self._loopback_at = at

    def _take_no_listener(self, value: str, at: str) -> None:
        if value != "none":
            raise _NotKept("is either none or listeners.tcp.NAME = port")
        self.values.set(["amqp_port"], -1, at)

    def _take_numbered(self, beginning: str, rest: str, value: str, at: str) -> None:
        """Take a line of several that make a list or a table."""
        if beginning == "auth_oauth2.signing_keys":
            self.values.set(["oauth2", "signing_keys", rest], value, at)
            return
        ours, words = _LISTS[beginning]
        word = words.get(value, value) if words else value
        if word is None:
            raise _NotKept("is not there; docs/authentication.md has what is")
        if word == "http":
            self._asked_rights_at = at
        self._lists.setdefault(ours, []).append(word)
        self.values.set(ours.split("."), list(self._lists[ours]), at)

    def finish(self) -> None:
        """What several lines say together."""
        self._finish_listeners()
        self._finish_tls_listeners()
        self._finish_clients()
        self._finish_halves()
        named = any(key in self._user for key in USER_KEYS[:2])
        if self.values.tables.get("definitions", {}).get("import") and not named:
            places = [at for _, at in self._user.values()]
            places += [self._loopback_at] if self._loopback else []
            self.comments += [f"{at}: users are those of the definitions" for at in places]
        elif self._user or self._loopback:
            self._finish_user()

    def _finish_halves(self) -> None:
        """Back ends of which one says who somebody is, and another what that one may do."""
        for halves in self._halves.values():
            names = {half: value.removeprefix(MODULE) for half, (value, _) in halves.items()}
            at = next(iter(halves.values()))[1]
            ours = HALVES.get((names.get("authn", ""), names.get("authz", "")))
            if ours is not None:
                self._lists.setdefault("auth.backends", []).append(ours)
                self.values.set(["auth", "backends"], list(self._lists["auth.backends"]), at)
                if names["authz"] == "http":
                    self._asked_rights_at = at
            else:
                self.comments.append(
                    f"{at}: only authn = http, and internal with authz = http, are there"
                )
        self._finish_asked_rights()

    def _finish_asked_rights(self) -> None:
        """Whether a server decides about rights, RabbitMQ says by the back end, we by addresses."""
        given = self.values.tables.get("auth_http", {})
        for key in RIGHT_PATHS:
            if self._asked_rights_at and key not in given:
                url = DEFAULT_AUTH_URL + key.removesuffix("_path")
                self.values.set(["auth_http", key], url, f"{self._asked_rights_at}, by default")
            elif not self._asked_rights_at and given.pop(key, None) is not None:
                self.comments.append(
                    f"{self.name} auth_http.{key}: rights are those of users (authz = internal)"
                )
        asked = {HTTP, INTERNAL_HTTP} & set(self._lists.get("auth.backends", ()))
        if asked and "user_path" not in given:
            at = f"{self._asked_rights_at or self.name}, by default"
            self.values.set(["auth_http", "user_path"], f"{DEFAULT_AUTH_URL}user", at)

    def _finish_clients(self) -> None:
        """Certificates of clients are checked if all of it is there, as in RabbitMQ."""
        authority, verify, required = (self._clients.get(key, ("", ""))[0] for key in CLIENT_KEYS)
        if not authority or verify != "verify_peer" or "tls" not in self.values.tables:
            self.comments += [f"{at}: {_NO_TLS}" for _, at in self._clients.values()]
            return
        word = "required" if required == "true" else "optional"
        for ours, value, key in (
            ("client_ca", authority, CLIENT_KEYS[0]),
            ("client_certificates", word, CLIENT_KEYS[1]),
        ):
            self.values.set(["tls", ours], value, self._clients[key][1])

    def _finish_user(self) -> None:
        def said(key: str, default: str) -> str:
            return self._user.get(key, (default, ""))[0]

        name, vhost = said("default_user", "guest"), said("default_vhost", "/")
        at = next(iter(self._user.values()))[1] if self._user else self._loopback_at
        rights = {right: said(f"default_permissions.{right}", ".*") for right in _RIGHTS}
        tags = [
            key.removeprefix("default_user_tags.")
            for key, (value, _) in self._user.items()
            if key.startswith("default_user_tags.") and value == "true"
        ]
        user = {
            "password": said("default_pass", "guest"),
            "tags": tags if any("_tags." in key for key in self._user) else ["administrator"],
            "permissions": {vhost: rights},
            # Everybody knows the password that nobody chose.
            "loopback_only": self._loopback.pop(
                name, name == "guest" or "default_pass" not in self._user
            ),
        }
        self.values.set(["users", name], user, at)
        if vhost != "/":
            self.values.set(["vhosts"], ["/", vhost], self._user["default_vhost"][1])
        for other in self._loopback:
            reason = "concerns another user than the default one"
            self.comments.append(f"{self._loopback_at}: {reason}: {other}")

    def _finish_listeners(self) -> None:
        addresses: list[str] = []
        port = ""
        for _, value, at in self._listeners:
            host, its_port = _address(value)
            host = host or EVERY_ADDRESS
            if port and its_port != port:
                self.comments.append(f"{at}: all addresses have one port, {port}")
                continue
            port = its_port
            addresses += [host] if host not in addresses else []
            bound = addresses if len(addresses) > 1 else host
            self.values.set(["bind"], bound, at)
            self.values.set(["amqp_port"], int(port) if port.isdigit() else port, at)

    def _finish_tls_listeners(self) -> None:
        first = ""
        for value, at in self._tls_listeners:
            host, port = _address(value)
            if first and port != first:
                self.comments.append(f"{at}: all addresses have one port for TLS, {first}")
                continue
            first = port
            self.values.set(["amqps_port"], int(port) if port.isdigit() else port, at)
            bound = self.values.tables.get("bind", [])
            if host and host not in ([bound] if isinstance(bound, str) else bound):
                self.comments.append(f"{at}: TLS is on the addresses of AMQP (bind), not on {host}")

    def check(self) -> None:
        """Make comments of what is not allowed here."""
        while True:
            try:
                whole = Values()
                whole.set(["data_dir"], "/", "")
                whole.add(self.values)
                build(whole)
                return
            except ConfigError as error:
                before = list(leaves(self.values.tables))
                for key, message in error.problems:
                    self.comments.append(message)
                    _take_out(self.values.tables, key)
                if list(leaves(self.values.tables)) == before:
                    raise


def _address(value: str) -> tuple[str, str]:
    """Return host and port of a listener; "" if it names no host."""
    host, _, port = value.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port


def lines_of(text: str, name: str) -> dict[str, Line]:
    """Read a file of RabbitMQ's: its keys, in their order.

    Args:
        text: of the file.
        name: of the file, for messages.

    Raises:
        ConfigError: it is of the other form, or a line is of none.
    """
    if re.match(r"(?:\s|%[^\n]*\n)*\[", text) or name.endswith(".config"):
        raise ConfigError(f"{name} {ERLANG}")
    found: dict[str, Line] = {}
    for number, line in enumerate(re.split("\r?\n", text), 1):
        bare = _without_comment(line)
        if not bare.strip():
            continue
        match = _LINE.fullmatch(bare)
        if match is None:
            raise ConfigError(f"{name}:{number}: is not a line of the form `key = value`")
        value = match[2]
        if len(value) > 1 and value[0] == value[-1] == "'":
            value = value[1:-1]
        at = f"{name}:{number} {match[1]}"
        before = found.get(match[1])
        found[match[1]] = Line(value, at, (*before.earlier, before.at) if before else ())
    return found


def interpolated(lines: Mapping[str, Line], variables: Mapping[str, str]) -> dict[str, Line]:
    """Put values in place of `$(NAME)`: those of other keys, else those of the environment.

    Raises:
        ConfigError: nothing has that name, or names lead in a circle.
    """

    def whole(line: Line, inside: tuple[str, ...]) -> str:
        def of(match: re.Match[str]) -> str:
            name = match[1].strip()
            if name in inside:
                raise ConfigError(f"{line.at}: $({name}) leads back to itself")
            if name in lines:
                return whole(lines[name], (*inside, name))
            if name in variables:
                return variables[name]
            # The name is not said: it may be a part of a password.
            raise ConfigError(f"{line.at}: $(…) in it is neither a key nor a variable that is set")

        return _REFERENCE.sub(of, line.value)

    return {key: replace(line, value=whole(line, (key,))) for key, line in lines.items()}


def values_of_lines(lines: Mapping[str, Line], name: str) -> Values:
    """Return what lines mean as settings of ours; what means nothing here is in the remarks.

    Raises:
        ConfigError: a value is none of its key's; not all such values are found here.
    """
    translation = _translation(lines, name)
    if translation.wrong:
        raise ConfigError.of(Problem("", _one_line(each)) for each in translation.wrong)
    values = translation.values
    values.remarks += map(_one_line, translation.comments)
    return values


def _translation(lines: Mapping[str, Line], name: str) -> _Translation:
    made = _Translation(name)
    for key, line in lines.items():
        relative = key.removesuffix("absolute") + "relative"
        if key.endswith(".absolute") and relative in _KEPT and relative in lines:
            made.comments.append(f"{line.at}: {relative} wins")
            continue
        made.take(key, line.value, line.at)
    made.finish()
    return made


def translate(text: str, name: str, variables: Mapping[str, str] | None = None) -> str:
    """Return a file of RabbitMQ's as TOML of ours.

    Args:
        text: of the file.
        name: of the file, for comments.
        variables: of the environment, for `$(NAME)`.

    Raises:
        ConfigError: it is of the other form, or a line is of none.
    """
    given = lines_of(text, name)
    translation = _translation(interpolated(given, variables or {}), name)
    translation.comments += translation.wrong
    translation.comments += (
        f"{earlier}: is said again below, which wins"
        for line in given.values()
        for earlier in line.earlier
    )
    if "bind" not in translation.values.tables:
        translation.comments.append(LISTENS)
    translation.check()
    lines = [f"# From {name}.\n"]
    for key, value in leaves(translation.values.tables):
        origin = translation.values.origin(key)
        lines.append(f"{key} = {to_toml(value)}  # {_one_line(origin)}\n")
    lines += [f"# {_one_line(comment)}\n" for comment in translation.comments]
    return "".join(lines)


def _without_comment(line: str) -> str:
    """Return a line up to its comment; in quotes there is none."""
    quoted = False
    for at, character in enumerate(line):
        if character == "'":
            quoted = not quoted
        elif character == "#" and not quoted:
            return line[:at]
    return line


def _reason(key: str) -> str:
    for beginning, reason in _REASONS:
        if key.startswith(beginning):
            return reason
    known = [*_KEPT, *USER_KEYS, *(beginning for beginning, _ in _REASONS)]
    return f"is no known setting of RabbitMQ{nearest(key, known)}"


def _one_line(text: str) -> str:
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _take_out(tables: dict[str, Any], key: str) -> None:
    """Delete the value under a key, or what it is in."""
    for name in list(tables):
        full = join("", name)
        if key == full or not isinstance(tables[name], dict):
            if key == full or key.startswith((f"{full}[", f"{full}.")):
                del tables[name]
        elif key.startswith(f"{full}."):
            _take_out(tables[name], key.removeprefix(f"{full}."))
            if not tables[name]:
                del tables[name]
