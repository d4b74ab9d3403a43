"""The settings of a broker: what there is, what is allowed, and what holds when nothing is said.

Responsible for the table of all settings, as frozen dataclasses, from which docs/configuration.md
has its tables (`tools/configuration_page.py`), and for what concerns several settings at once. Must
not open sockets or data directories, and keeps nothing global: a Config is made and handed on.

Invariant: a Config that exists is whole and consistent; every part may be used without looking
at it again.
"""

# ruff: noqa: RUF009 - `setting` is dataclasses.field with a check
from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from leporid.broker.access.access import DEFAULT_USER
from leporid.broker.access.passwords import (
    Argon2Hash,
    PasswordHashError,
    SaltedHash,
    parse_hash,
)
from leporid.broker.access.permissions import EVERYTHING, Pattern, PatternError, Permissions
from leporid.broker.access.tags import ADMINISTRATOR
from leporid.broker.access.users import ConfiguredUser
from leporid.broker.broker import GROUP_EXPIRES_MS
from leporid.broker.settings.redeclaring import Redeclare
from leporid.broker.settings.unknown_arguments import OnUnknown
from leporid.broker.settings.values import EXPIRY_MS_MAX
from leporid.filterserver.filter_class import FilterClass
from leporid.server import rabbitmq_environment
from leporid.server.config_checks import check_ports
from leporid.server.filter_class_settings import FilterServer, filter_classes, filter_server
from leporid.server.oauth_settings import Auth, AuthHttp, OAuth2, check_auth
from leporid.server.policy_settings import ConfiguredPolicy, policy_tables
from leporid.server.proxy_protocol import ProxyProtocol
from leporid.server.rabbitmq_files import from_places
from leporid.server.settings import (
    Choice,
    ConfigError,
    file,
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
from leporid.server.sources import COMMAND_LINE, DEFAULT, Values, default_data_dir, from_environment
from leporid.server.tls import Tls, check_tls

__all__ = [
    "Config",
    "ConfigError",
    "Http",
    "Interceptors",
    "Limits",
    "UserSettings",
    "build",
    "configured_users",
    "load",
    "values_of",
]

# AMQP's own minimum. RabbitMQ 4 wants 8192; clients that ask for 4096 exist and are let in.
FRAME_MAX_LEAST = 4096
# All connections read into one buffer that has room for three frames of this size (a method, its
# header and its body); larger frames would save no time. RabbitMQ's default, too.
FRAME_MAX_MOST = 128 * 2**10
# RabbitMQ's ceiling for max_message_size.
MESSAGE_BYTES_MOST = 512 * 2**20
SIZE_MOST = 2**60
CHANNEL_MAX_MOST = 65535

# As in RFC 1123, 2.1, but that underscores are common in names of containers.
HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")

DEFAULT_VHOST = "/"
# RabbitMQ's.
METRICS_PORT = 15692
REDECLARE = Choice("strict", "warn", "adopt")
UNKNOWN_ARGUMENTS = Choice("warn", "refuse")


def _address(path: str, value: Any) -> str:
    if value == "localhost":
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(value if isinstance(value, str) else ""))
    except ValueError:
        allowed = 'must be an IP address such as "127.0.0.1", or a list such as ["0.0.0.0", "::"]'
        raise refusal(path, value, allowed) from None


def _addresses(path: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (_address(path, value),)
    addresses = many(_address)(path, value)
    if not addresses or len(set(addresses)) != len(addresses):
        raise refusal(path, value, "must name at least one address, and none twice")
    return addresses


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
        raise ConfigError(f"{path}: must be a text that is not empty", path)
    return value


def _password_hash(path: str, value: Any) -> Argon2Hash | SaltedHash:
    try:
        return parse_hash(value if isinstance(value, str) else "")
    except PasswordHashError as error:
        raise ConfigError(f"{path}: {error}", path) from None


def _tag(path: str, value: Any) -> str:
    tag = name(path, value)
    if "," in tag:
        raise refusal(path, value, "must be one tag, without commas")
    return tag


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

    configure: Pattern = setting(
        _pattern, Pattern(""), "what the user may declare and delete", default_doc='`""`'
    )
    write: Pattern = setting(
        _pattern, Pattern(""), "where the user may publish", default_doc='`""`'
    )
    read: Pattern = setting(
        _pattern, Pattern(""), "from where the user may consume", default_doc='`""`'
    )


@dataclass(frozen=True, slots=True)
class UserSettings:
    """`[users.NAME]`: exactly one of `password` and `password_hash`, and what the user may do."""

    password: str | None = setting(
        _password,
        None,
        "in clear; stored as argon2id, which takes 75 ms for each user at the first start. Each "
        "user has this or `password_hash`",
        secret=True,
    )
    password_hash: Argon2Hash | SaltedHash | None = setting(
        _password_hash,
        None,
        "argon2id, or RabbitMQ's salted SHA-256 or SHA-512 as `rabbitmqctl export_definitions` "
        "writes it",
        secret=True,
    )
    # None: true for guest, false for everybody else, as in RabbitMQ.
    loopback_only: bool | None = setting(
        flag,
        None,
        "may connect from this machine only",
        default_doc="`true` for `guest`, else `false`",
        rabbitmq="`loopback_users`",
    )
    tags: tuple[str, ...] = setting(
        many(_tag),
        (),
        "[what the user may manage](users.md#tags)",
        rabbitmq="`default_user_tags`",
    )
    # None: the user may enter none.
    permissions: Mapping[str, Rights] | None = setting(
        named(section(Rights)),
        None,
        "by virtual host, each a table `[users.NAME.permissions.VHOST]`",
        default_doc="`{}`",
        rabbitmq="`default_permissions`",
    )
    enforce: bool = setting(
        flag,
        False,
        "whether this table counts at each start, not only at the first of a data directory",
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """`[limits]`: what one broker or one peer may ask for."""

    transaction_entries_max: int = setting(
        whole(1, 10_000_000),
        10_000,
        "publishes and settles of one transaction; a publish to *n* queues counts as 1 + *n*/4, "
        "and once more for each stream among them. Others wait while it is committed: 0.5 ms for "
        "1000, and for each megabyte to streams 1 to 3 ms",
        live=True,
    )
    # RabbitMQ 3.13's default; 4 allows 16 MiB.
    message_bytes_max: int = setting(
        size(1, MESSAGE_BYTES_MOST),
        128 * 2**20,
        "largest body",
        unit="bytes",
        live=True,
        rabbitmq="`max_message_size`",
    )
    reader_hold_percent: int = setting(
        whole(0, 1000),
        50,
        "by how much a stream may be over its limit of size or age while [a consumer has not read "
        "what would be dropped](streams-http.md#retention-and-slow-consumers); at most 1000. 0: by "
        "any size and age",
        unit="per cent",
        live=True,
    )
    # Above what file descriptors usually allow, so that the operating system's limit decides
    # (descriptors.links_max).
    connections_max: int = setting(
        whole(1, 10_000_000),
        1_000_000,
        "connections together, of whose last tenth one user gets half at most; the operating "
        "system's limit of open files, less 1184 (at most half) that stay for the log and HTTP, "
        "usually comes first. A lower one closes nobody",
        live=True,
        rabbitmq="`connection_max`",
    )
    handshake_seconds: int = setting(
        whole(1, 3600),
        10,
        "from connecting until the virtual host is open",
        unit="seconds",
        live=True,
        rabbitmq="`handshake_timeout`, in milliseconds",
    )


# What may be done with a property: nothing, set it where the publisher did not, set it always.
_intercepting = Choice("off", "keep", "overwrite")


@dataclass(frozen=True, slots=True)
class Interceptors:
    """`[interceptors]`: what is set in the properties of every message that clients publish."""

    timestamp: str = setting(
        _intercepting,
        "off",
        "sets the time, in seconds",
        rabbitmq="`message_interceptors.incoming.set_header_timestamp`",
    )
    message_id: str = setting(_intercepting, "off", "sets `M-` and a random UUID")

    @property
    def used(self) -> bool:
        """Whether anything is set at all."""
        return (self.timestamp, self.message_id) != ("off", "off")


@dataclass(frozen=True, slots=True)
class Http:
    """`[http]`: what concerns requests over HTTP."""

    hosts: tuple[str, ...] = setting(
        many(_host),
        (),
        'names that the broker has in browsers, such as `"mq.example.org"`, without a port. Its '
        "addresses and `localhost` need not stand here. "
        "[A browser's requests](#pages-in-a-browser) for `/api/…` with another `Host` are refused",
        live=True,
    )


def _vhost_or_none(path: str, value: Any) -> str:
    return "" if value == "" else name(path, value)


@dataclass(frozen=True, slots=True)
class EventExchange:
    """`[event_exchange]`: where [events](events.md) go."""

    vhost: str = setting(
        _vhost_or_none,
        DEFAULT_VHOST,
        "the virtual host that has the exchange `amq.rabbitmq.event`; empty: none has it",
        rabbitmq="`event_exchange.vhost`",
    )


@dataclass(frozen=True, slots=True)
class ImportedDefinitions:
    """`[definitions]`: what is imported at each start, before clients may connect."""

    import_: Path | None = setting(
        file,
        None,
        "a [document of definitions](definitions.md), or a directory, of which all files that end "
        "in `.json` are imported in the order of their names. They are in force before clients may "
        "connect; if one cannot be imported, the broker does not start, and nothing has changed. "
        "Without `[users]`, there is no `guest` then",
        rabbitmq="`load_definitions`, `definitions.local.path`",
    )
    skip_if_unchanged: bool = setting(
        flag,
        False,
        "leaves the import out if the files are those of the last start that imported some",
        rabbitmq="`definitions.skip_if_unchanged`",
    )


@dataclass(frozen=True, slots=True)
class Config:
    """Everything a broker is told at its start."""

    # The default depends on the user, so `load` fills it in.
    data_dir: Path = setting(
        file,
        doc="where state lives; made if it is not there. Absolute, or beginning with `~/`. At each "
        "start all rights on it, and on the broker's files in it, are taken from everybody but its "
        "owner",
        default_doc="`$XDG_STATE_HOME/leporid`, or `~/.local/state/leporid`",
        rabbitmq="`RABBITMQ_MNESIA_BASE`",
    )
    backup_dir: Path | None = setting(
        file, None, "where [backups](operations.md#backup) stand", default_doc="`data_dir`/backups"
    )
    bind: tuple[str, ...] = setting(
        _addresses,
        ("127.0.0.1",),
        "IP addresses that all ports listen on, one or a list",
        rabbitmq="`listeners.tcp.*`",
    )
    amqp_port: int = setting(
        whole(-1, 65535),
        5672,
        "port for clients; 0: any free one, -1: none but that for TLS",
        rabbitmq="`listeners.tcp.*`",
    )
    http_port: int = setting(
        whole(-1, 65535),
        15672,
        "port for the [management API](management-api.md), the [web UI](web-ui.md), `/health` and "
        "`/metrics`; 0: any free one, -1: none",
        rabbitmq="`management.tcp.port`",
    )
    metrics_port: int = setting(
        whole(-1, 65535),
        METRICS_PORT,
        "port for [metrics](monitoring.md) alone, left out if it is the default one and taken; 0: "
        "any free one, -1: none. With -1 for both ports, the broker loads no HTTP server",
        rabbitmq="`prometheus.tcp.port`",
    )
    amqps_port: int = setting(
        whole(0, 65535),
        5671,
        "port for clients that speak [TLS](tls.md), listened on if there is a certificate; 0: any "
        "free one",
        rabbitmq="`listeners.ssl.*`",
    )
    https_port: int = setting(
        whole(-1, 65535),
        15671,
        "the same as `http_port` over [TLS](tls.md#http), listened on if there is a certificate; "
        "0: any free one, -1: none",
        rabbitmq="`management.ssl.port`",
    )
    metrics_https_port: int = setting(
        whole(-1, 65535),
        -1,
        "the same as `metrics_port` over TLS; RabbitMQ's is 15691. -1: none",
        rabbitmq="`prometheus.ssl.port`",
    )
    log_level: str = setting(
        Choice("debug", "info", "warning", "error"),
        "info",
        'how much is [logged](operations.md#log): `"debug"`, `"info"`, `"warning"` or `"error"`',
        live=True,
        rabbitmq="`log.console.level`",
    )
    log_format: str = setting(
        Choice("console", "json"),
        "console",
        'lines for people (`"console"`) or, each an object, for programs (`"json"`)',
        live=True,
        rabbitmq="`log.console.formatter`",
    )
    durability: str = setting(
        Choice("synced", "written"),
        "synced",
        'when a publish is confirmed: `"synced"`, on disk; `"written"`, handed to the operating '
        "system, so that a power cut can lose it",
    )
    # What we propose in connection.tune, RabbitMQ's values.
    heartbeat: int = setting(
        whole(0, 65535),
        60,
        "proposed to clients; 0: none",
        unit="seconds",
        live=True,
        rabbitmq="`heartbeat`",
    )
    frame_max: int = setting(
        size(FRAME_MAX_LEAST, FRAME_MAX_MOST),
        131072,
        "largest frame proposed to clients",
        unit="bytes",
        live=True,
        rabbitmq="`frame_max`",
    )
    channel_max: int = setting(
        whole(1, CHANNEL_MAX_MOST),
        2047,
        "channels of one connection",
        live=True,
        rabbitmq="`channel_max`",
    )
    consumer_timeout_ms: int = setting(
        whole(0, EXPIRY_MS_MAX),
        1_800_000,
        "how long a delivery may be unsettled before its channel is closed; 0: for ever. "
        "[Queues and consumers](returned-messages.md#how-long-x-consumer-timeout) can have times "
        "of their own",
        unit="milliseconds",
        live=True,
        rabbitmq="`consumer_timeout`",
    )
    group_expires_ms: int = setting(
        whole(1, EXPIRY_MS_MAX),
        GROUP_EXPIRES_MS,
        "how long a [group of readers](groups.md) of a stream is kept without a member",
        unit="milliseconds",
        live=True,
    )
    memory_watermark: int | float = setting(
        _watermark,
        0.6,
        "above this share of the memory, or size, publishers are blocked",
        unit="share, or bytes",
        live=True,
        rabbitmq="`vm_memory_high_watermark`",
    )
    disk_free_min: int = setting(
        size(0, SIZE_MOST),
        50 * 10**6,
        "below this much free disk publishers are blocked",
        unit="bytes",
        live=True,
        rabbitmq="`disk_free_limit`",
    )
    vhosts: tuple[str, ...] = setting(
        _vhosts,
        (DEFAULT_VHOST,),
        "virtual hosts; `/` is always one. One that is taken out of the list stays on disk with "
        "what it holds",
        live=True,
        rabbitmq="`default_vhost`, `rabbitmqctl add_vhost`",
    )
    # None: only RabbitMQ's guest. Whoever names users has to name guest to keep it.
    users: Mapping[str, UserSettings] | None = setting(
        named(section(UserSettings)),
        None,
        "[users](#users) of the first start of a data directory, each a table `[users.NAME]`",
        default_doc="only `guest`",
        rabbitmq="`default_user`",
    )
    limits: Limits = setting(section(Limits), Limits())
    interceptors: Interceptors = setting(section(Interceptors), Interceptors())
    http: Http = setting(section(Http), Http())
    tls: Tls = setting(section(Tls), Tls())
    event_exchange: EventExchange = setting(section(EventExchange), EventExchange())
    auth: Auth = setting(section(Auth), Auth())
    auth_http: AuthHttp = setting(section(AuthHttp), AuthHttp())
    oauth2: OAuth2 = setting(section(OAuth2), OAuth2())
    proxy_protocol: ProxyProtocol = setting(section(ProxyProtocol), ProxyProtocol())
    definitions: ImportedDefinitions = setting(section(ImportedDefinitions), ImportedDefinitions())
    redeclare: str = setting(
        REDECLARE,
        "strict",
        "what becomes of a [declaration that differs](policies.md#declarations-that-differ) from "
        'the queue or exchange that is there: `"strict"`, refused; `"warn"`, it gets what is '
        'there; `"adopt"`, it changes what is there',
        live=True,
    )
    redeclare_by_vhost: Mapping[str, str] | None = setting(
        named(REDECLARE),
        None,
        "the same by virtual host, where it is another",
        live=True,
        default_doc="`{}`",
    )
    unknown_arguments: str = setting(
        UNKNOWN_ARGUMENTS,
        "warn",
        "what becomes of [arguments that nothing reads](queue-arguments.md#unknown-arguments): "
        '`"warn"`, they are logged, counted and listed; `"refuse"`, they are refused',
        live=True,
    )
    unknown_arguments_by_vhost: Mapping[str, str] | None = setting(
        named(UNKNOWN_ARGUMENTS),
        None,
        "the same by virtual host, where it is another",
        live=True,
        default_doc="`{}`",
    )
    policies: tuple[ConfiguredPolicy, ...] = setting(
        policy_tables(operator=False),
        (),
        "[policies](policies.md), each a table `[[policies]]`",
        live=True,
    )
    operator_policies: tuple[ConfiguredPolicy, ...] = setting(
        policy_tables(operator=True),
        (),
        "operator policies, each a table `[[operator_policies]]`",
        live=True,
    )
    filter_classes: tuple[FilterClass, ...] = setting(
        filter_classes,
        (),
        "[filter classes](filter-classes.md), each a table `[[filter_classes]]`",
    )
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
    """Read the configuration; `values_of` and `build` in one.

    Raises:
        ConfigError: a file cannot be read, or something in it is not allowed.
    """
    return build(values_of(path, overrides or {}, environment or {}))


def values_of(
    path: Path | Sequence[Path] | None,
    overrides: Mapping[str, Any],
    environment: Mapping[str, str],
    variables: Mapping[str, str] | None = None,
) -> Values:
    """Read all that is said of settings, and where.

    Args:
        path: files and the directories of files, those that win last; None for the defaults.
        overrides: settings from the command line; they win and are checked the same way.
        environment: the process's environment.
        variables: what `$(NAME)` in files of RabbitMQ's means; None: the environment.

    Raises:
        ConfigError: a file cannot be read, or a variable is no setting.
    """
    values = Values()
    values.set(["data_dir"], str(default_data_dir(environment)), DEFAULT)
    values.add(from_places(path, environment, environment if variables is None else variables))
    values.add(from_environment(Config, environment))
    values.add(Values(dict(overrides), dict.fromkeys(overrides, COMMAND_LINE)))
    rabbitmq_environment.add_default_vhost(values, environment)
    return values


def build(values: Values) -> Config:
    """Make the configuration of what was said.

    Raises:
        ConfigError: something is not allowed; it says where that stands.
    """
    try:
        config = read(Config, values.tables)
        _check_users(config)
        check_ports(config)
        check_tls(config.tls)
        check_auth(config.auth, config.oauth2, config.auth_http)
        for setting_name in ("redeclare_by_vhost", "unknown_arguments_by_vhost"):
            for vhost in getattr(config, setting_name) or ():
                _check_vhost(config, join(setting_name, vhost), vhost)
        _check_policies(config, "policies", config.policies)
        _check_policies(config, "operator_policies", config.operator_policies)
    except ConfigError as error:
        raise values.located(error) from None
    return config


def configured_users(config: Config) -> tuple[ConfiguredUser, ...]:
    """Return the users that the configuration names, or RabbitMQ's guest if it names none."""
    if config.users is None:
        return (
            ConfiguredUser(
                DEFAULT_USER,
                DEFAULT_USER,
                tags=(ADMINISTRATOR,),
                permissions={DEFAULT_VHOST: EVERYTHING},
                loopback_only=True,
            ),
        )
    return tuple(_user(name, settings) for name, settings in config.users.items())


def _user(name: str, settings: UserSettings) -> ConfiguredUser:
    loopback_only = settings.loopback_only
    return ConfiguredUser(
        name,
        settings.password,
        settings.password_hash,
        tags=settings.tags,
        permissions={
            vhost: Permissions(rights.configure, rights.write, rights.read)
            for vhost, rights in (settings.permissions or {}).items()
        },
        loopback_only=name == DEFAULT_USER if loopback_only is None else loopback_only,
        enforced=settings.enforce,
    )


def _check_users(config: Config) -> None:
    """Check what concerns several settings at once."""
    for user, settings in (config.users or {}).items():
        path = join("users", user)
        if (settings.password is None) == (settings.password_hash is None):
            raise ConfigError(f"{path}: must have exactly one of password and password_hash", path)
        for vhost in settings.permissions or {}:
            _check_vhost(config, join(f"{path}.permissions", vhost), vhost)


def _check_policies(config: Config, path: str, policies: Iterable[ConfiguredPolicy]) -> None:
    for at, one in enumerate(policies):
        path_of_one = f"{path}[{at}].vhost"
        _check_vhost(config, path_of_one, one.vhost, f'{path_of_one} = "{one.vhost}"')


def _check_vhost(config: Config, path: str, vhost: str, shown: str = "") -> None:
    if vhost not in config.vhosts:
        known = ", ".join(f'"{one}"' for one in config.vhosts)
        hint = nearest(vhost, config.vhosts) or ";"
        raise ConfigError(f"{shown or path}: no such virtual host{hint} vhosts has {known}", path)
