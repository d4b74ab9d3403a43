"""The settings of a broker: what there is, what is allowed, and what holds when nothing is said.

Responsible for the TOML file and the command line's overrides, as frozen dataclasses. Must not
open sockets or data directories, and keeps nothing global: a Config is made once and handed on.

Invariant: a Config that exists is whole and consistent; every part may be used without looking
at it again.
"""

# ruff: noqa: RUF009 - `setting` is dataclasses.field with a check
from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from leporid.broker.access.access import User, guest
from leporid.broker.access.passwords import (
    Argon2Hash,
    PasswordHashError,
    SaltedSha256,
    from_clear,
    parse_hash,
)
from leporid.broker.access.permissions import Pattern, PatternError, Permissions
from leporid.broker.broker import GROUP_EXPIRES_MS
from leporid.broker.settings.redeclaring import Redeclare
from leporid.broker.settings.unknown_arguments import OnUnknown
from leporid.broker.settings.values import EXPIRY_MS_MAX
from leporid.filterserver.filter_class import FilterClass
from leporid.server.filter_class_settings import FilterServer, filter_classes, filter_server
from leporid.server.policy_settings import ConfiguredPolicy, policy_tables
from leporid.server.settings import (
    ConfigError,
    choice,
    flag,
    join,
    many,
    name,
    named,
    nearest,
    parse_size,
    read,
    refusal,
    section,
    setting,
    size,
    whole,
)

__all__ = [
    "Config",
    "ConfigError",
    "Http",
    "Interceptors",
    "Limits",
    "UserSettings",
    "access_users",
    "load",
]

# AMQP's own minimum. RabbitMQ 4 wants 8192; clients that ask for 4096 exist and are let in.
FRAME_MAX_LEAST = 4096
# All connections read into one buffer that has room for three frames of this size (a method, its
# header and its body); larger frames would save no time. RabbitMQ's default, too.
FRAME_MAX_MOST = 128 * 2**10
# RabbitMQ's ceiling for max_message_size.
MESSAGE_BYTES_MOST = 512 * 2**20
SIZE_MOST = 2**60

# As in RFC 1123, 2.1, but that underscores are common in names of containers.
HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")

DEFAULT_VHOST = "/"
REDECLARE = choice("strict", "warn", "adopt")
UNKNOWN_ARGUMENTS = choice("warn", "refuse")


def _address(path: str, value: Any) -> str:
    if value == "localhost":
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(value if isinstance(value, str) else ""))
    except ValueError:
        allowed = 'must be an IP address such as "127.0.0.1", "::1" or "0.0.0.0"'
        raise refusal(path, value, allowed) from None


def _addresses(path: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (_address(path, value),)
    addresses = many(_address)(path, value)
    if not addresses or len(set(addresses)) != len(addresses):
        raise refusal(path, value, "must name at least one address, and none twice")
    return addresses


def _directory(path: str, value: Any) -> Path:
    allowed = 'must be an absolute path, or one that begins with "~/"'
    if not isinstance(value, str) or not value or "\0" in value:
        raise refusal(path, value, allowed)
    directory = Path.home() / value[2:] if value.startswith("~/") else Path(value)
    if not directory.is_absolute():
        raise refusal(path, value, allowed)
    return directory


def _watermark(path: str, value: Any) -> int | float:
    if isinstance(value, float) and 0 < value <= 1:
        return value
    count = parse_size(value)
    if count is None or not 2**20 <= count <= SIZE_MOST:
        allowed = 'must be a share of the memory such as 0.6, or a size such as "2 GiB"'
        raise refusal(path, value, allowed)
    return count


def _vhosts(path: str, value: Any) -> tuple[str, ...]:
    vhosts = many(name)(path, value)
    if len(set(vhosts)) != len(vhosts):
        raise refusal(path, value, "must not name a virtual host twice")
    return vhosts if DEFAULT_VHOST in vhosts else (DEFAULT_VHOST, *vhosts)


def _password(path: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{path}: must be a text that is not empty")
    return value


def _password_hash(path: str, value: Any) -> Argon2Hash | SaltedSha256:
    try:
        return parse_hash(value if isinstance(value, str) else "")
    except PasswordHashError as error:
        raise ConfigError(f"{path}: {error}") from None


def _pattern(path: str, value: Any) -> Pattern:
    if not isinstance(value, str):
        raise refusal(path, value, "must be a pattern, in quotes")
    try:
        return Pattern(value)
    except PatternError as error:
        raise refusal(path, value, str(error)) from None


def _host(path: str, value: Any) -> str:
    if not isinstance(value, str) or not HOST_NAME.fullmatch(value):
        raise refusal(path, value, 'must be a name such as "mq.example.org", without a port')
    return value.lower()


@dataclass(frozen=True, slots=True)
class Rights:
    """`[users.NAME.permissions.VHOST]`: patterns; the empty one grants nothing."""

    configure: Pattern = setting(_pattern, Pattern(""))
    write: Pattern = setting(_pattern, Pattern(""))
    read: Pattern = setting(_pattern, Pattern(""))


@dataclass(frozen=True, slots=True)
class UserSettings:
    """`[users.NAME]`: exactly one of `password` and `password_hash`, and what the user may do."""

    password: str | None = setting(_password, None, secret=True)
    password_hash: Argon2Hash | SaltedSha256 | None = setting(_password_hash, None, secret=True)
    tags: tuple[str, ...] = setting(many(name), ())
    # None: true for guest, false for everybody else, as in RabbitMQ.
    loopback_only: bool | None = setting(flag, None)
    # By virtual host. None: the user may enter none.
    permissions: Mapping[str, Rights] | None = setting(named(section(Rights)), None)


@dataclass(frozen=True, slots=True)
class Limits:
    """`[limits]`: what one broker or one peer may ask for."""

    # RabbitMQ 3.13's default; 4 allows 16 MiB.
    message_bytes_max: int = setting(size(1, MESSAGE_BYTES_MOST), 128 * 2**20)
    # Above what file descriptors usually allow, so that the operating system's limit decides
    # (node.links_max).
    connections_max: int = setting(whole(1, 10_000_000), 1_000_000)
    # Publishes and settles of one transaction: others wait while it is committed, for about a
    # millisecond per thousand.
    transaction_entries_max: int = setting(whole(1, 10_000_000), 10_000)
    # By how much of its limit a stream may be over it because a consumer is slow; 0: by any size.
    reader_hold_percent: int = setting(whole(0, 1000), 50)
    # From accept to connection.open.
    handshake_seconds: int = setting(whole(1, 3600), 10)


# What may be done with a property: nothing, set it where the publisher did not, set it always.
_intercepting = choice("off", "keep", "overwrite")


@dataclass(frozen=True, slots=True)
class Interceptors:
    """`[interceptors]`: what is set in the properties of every message that clients publish."""

    # The time, in seconds, as RabbitMQ's set_header_timestamp.
    timestamp: str = setting(_intercepting, "off")
    # "M-" and a UUID.
    message_id: str = setting(_intercepting, "off")

    @property
    def used(self) -> bool:
        """Whether anything is set at all."""
        return (self.timestamp, self.message_id) != ("off", "off")


@dataclass(frozen=True, slots=True)
class Http:
    """`[http]`: what concerns requests over HTTP."""

    # What the broker is called in requests, beside its addresses and localhost.
    hosts: tuple[str, ...] = setting(many(_host), ())


@dataclass(frozen=True, slots=True)
class Config:
    """Everything a broker is told at its start."""

    # Where state lives; the default depends on the user, so `load` fills it in.
    data_dir: Path = setting(_directory)
    # The addresses that both ports listen on; port 0 means any free one.
    bind: tuple[str, ...] = setting(_addresses, ("127.0.0.1",))
    amqp_port: int = setting(whole(0, 65535), 5672)
    http_port: int = setting(whole(0, 65535), 15672)
    # When a publish is confirmed: once on disk, or once handed to the operating system.
    durability: str = setting(choice("synced", "written"), "synced")
    # What we propose in connection.tune, RabbitMQ's values. Heartbeat in seconds, 0 means none.
    heartbeat: int = setting(whole(0, 65535), 60)
    frame_max: int = setting(size(FRAME_MAX_LEAST, FRAME_MAX_MOST), 131072)
    channel_max: int = setting(whole(1, 65535), 2047)
    # How long a delivery may be unsettled before its channel is closed; 0: for ever.
    consumer_timeout_ms: int = setting(whole(0, EXPIRY_MS_MAX), 1_800_000)
    # How long a group of readers of a stream is kept without a member (x-group).
    group_expires_ms: int = setting(whole(1, EXPIRY_MS_MAX), GROUP_EXPIRES_MS)
    # Above: publishers are not read. A share of the memory there is, or bytes.
    memory_watermark: int | float = setting(_watermark, 0.6)
    # Below: publishers are not read.
    disk_free_min: int = setting(size(0, SIZE_MOST), 50 * 10**6)
    # "/" is always among them.
    vhosts: tuple[str, ...] = setting(_vhosts, (DEFAULT_VHOST,))
    # None: only RabbitMQ's guest. Whoever names users has to name guest to keep it.
    users: Mapping[str, UserSettings] | None = setting(named(section(UserSettings)), None)
    limits: Limits = setting(section(Limits), Limits())
    interceptors: Interceptors = setting(section(Interceptors), Interceptors())
    http: Http = setting(section(Http), Http())
    # What becomes of a declaration that differs from what is there; and the same by virtual host.
    redeclare: str = setting(REDECLARE, "strict")
    redeclare_by_vhost: Mapping[str, str] | None = setting(named(REDECLARE), None)
    # What becomes of arguments that nothing reads; and the same by virtual host.
    unknown_arguments: str = setting(UNKNOWN_ARGUMENTS, "warn")
    unknown_arguments_by_vhost: Mapping[str, str] | None = setting(named(UNKNOWN_ARGUMENTS), None)
    policies: tuple[ConfiguredPolicy, ...] = setting(policy_tables(operator=False), ())
    operator_policies: tuple[ConfiguredPolicy, ...] = setting(policy_tables(operator=True), ())
    filter_classes: tuple[FilterClass, ...] = setting(filter_classes, ())
    filter_server: FilterServer = setting(filter_server, FilterServer())

    def redeclare_in(self, vhost: str) -> Redeclare:
        """Return what becomes of declarations that differ in a virtual host."""
        chosen: Any = (self.redeclare_by_vhost or {}).get(vhost, self.redeclare)
        return cast(Redeclare, chosen)

    def unknown_arguments_in(self, vhost: str) -> OnUnknown:
        """Return what becomes of arguments that nothing reads in a virtual host."""
        by_vhost = self.unknown_arguments_by_vhost or {}
        return cast(OnUnknown, by_vhost.get(vhost, self.unknown_arguments))

    def memory_bytes_max(self, memory_bytes: int) -> int:
        """Return the watermark in bytes for a machine with `memory_bytes` of memory."""
        if isinstance(self.memory_watermark, float):
            return int(self.memory_watermark * memory_bytes)
        return self.memory_watermark


def load(
    path: Path | None,
    overrides: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Config:
    """Read the configuration.

    Args:
        path: the TOML file, None for the defaults.
        overrides: settings from the command line; they win and are checked the same way.
        environment: the process's environment, for the default data directory.

    Raises:
        ConfigError: the file cannot be read, or something in it is not allowed.
    """
    values = {"data_dir": str(default_data_dir(environment or {}))}
    try:
        values |= _parse(path) if path is not None else {}
        values |= overrides or {}
        config = read(Config, values)
        _check_users(config)
        for setting_name in ("redeclare_by_vhost", "unknown_arguments_by_vhost"):
            for vhost in getattr(config, setting_name) or ():
                _check_vhost(config, join(setting_name, vhost), vhost)
        _check_policies(config, "policies", config.policies)
        _check_policies(config, "operator_policies", config.operator_policies)
    except ConfigError as error:
        if path is None:
            raise
        raise ConfigError(f"{path}: {error}") from None
    return config


def default_data_dir(environment: Mapping[str, str]) -> Path:
    """Return `leporid` in the user's state directory (XDG base directories, 0.8)."""
    state = environment.get("XDG_STATE_HOME", "")
    # The specification wants relative paths ignored.
    if state.startswith("/"):
        return Path(state) / "leporid"
    return Path.home() / ".local" / "state" / "leporid"


def access_users(config: Config, secret: bytes) -> tuple[User, ...]:
    """Make the users that the configuration names; `secret` as for `Access`."""
    if config.users is None:
        return (guest(secret),)
    return tuple(_user(name, settings, secret) for name, settings in config.users.items())


def _user(name: str, settings: UserSettings, secret: bytes) -> User:
    loopback_only = settings.loopback_only
    return User(
        name=name,
        password=settings.password_hash or from_clear(settings.password or "", secret),
        tags=frozenset(settings.tags),
        permissions={
            vhost: Permissions(rights.configure, rights.write, rights.read)
            for vhost, rights in (settings.permissions or {}).items()
        },
        loopback_only=name == "guest" if loopback_only is None else loopback_only,
    )


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"is not TOML: {error}") from None


def _check_users(config: Config) -> None:
    """Check what concerns several settings at once."""
    for user, settings in (config.users or {}).items():
        path = join("users", user)
        if (settings.password is None) == (settings.password_hash is None):
            raise ConfigError(f"{path}: must have exactly one of password and password_hash")
        for vhost in settings.permissions or {}:
            _check_vhost(config, join(f"{path}.permissions", vhost), vhost)


def _check_policies(config: Config, path: str, policies: Iterable[ConfiguredPolicy]) -> None:
    for at, one in enumerate(policies):
        _check_vhost(config, f'{path}[{at}].vhost = "{one.vhost}"', one.vhost)


def _check_vhost(config: Config, path: str, vhost: str) -> None:
    if vhost not in config.vhosts:
        known = ", ".join(f'"{one}"' for one in config.vhosts)
        hint = nearest(vhost, config.vhosts) or ";"
        raise ConfigError(f"{path}: no such virtual host{hint} vhosts has {known}")
