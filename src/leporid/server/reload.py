"""A reload: the configuration is read again, and what can change in a running broker does.

Responsible for what differs, for putting it in force, and for saying what needs a restart. Must not
know where a configuration comes from. Invariants: a configuration with anything wrong in it changes
nothing; each setting that is declared `live` has an effect here, and no other has.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeAlias, TypeVar

from leporid.amqp.errors import BeingDeleted
from leporid.broker.broker import Broker, TuneLimits
from leporid.engine.engine import Engine
from leporid.server import logs
from leporid.server.alarms import Alarms, memory_there_is
from leporid.server.config import Config, build
from leporid.server.listener import Listener
from leporid.server.login_backends import LoginBackends
from leporid.server.notify import ServiceManager
from leporid.server.policy_settings import by_vhost
from leporid.server.rabbitmq_files import remarks
from leporid.server.settings import ConfigError, settings_of, value_at
from leporid.server.sources import Values
from leporid.server.tls import check_certificates
from leporid.server.turns import Turns

logger = logging.getLogger(__name__)

T = TypeVar("T")
Effect = Callable[[Config], None]

LIVE: Final = frozenset(key for key, about in settings_of(Config) if about.live)


def tune_limits(config: Config) -> TuneLimits:
    """Return what clients are offered."""
    return TuneLimits(config.channel_max, config.frame_max, config.heartbeat)


def differing(old: Config, new: Config) -> list[str]:
    """Return the keys of settings that differ, in their order in the table."""
    keys = (key for key, _ in settings_of(Config))
    return [key for key in keys if value_at(old, key) != value_at(new, key)]


def merged(old: T, new: T, keys: frozenset[str]) -> T:
    """Return `old` with the settings of `new` under some keys."""
    changed: dict[str, Any] = {}
    for key in keys:
        first, _, rest = key.partition(".")
        if rest:
            there = changed.get(first, getattr(old, first))
            changed[first] = merged(there, getattr(new, first), frozenset({rest}))
        else:
            changed[first] = getattr(new, first)
    return dataclasses.replace(old, **changed)  # type: ignore[type-var]


class Effects:
    """What each setting that can change does to a running broker.

    Args:
        http_hosts: the names that requests may have; changed in place.
        connections_max: says how many connections there may be, by the configured number.
    """

    def __init__(
        self,
        engine: Engine,
        broker: Broker,
        turns: Turns,
        alarms: Alarms,
        listener: Listener,
        login_backends: LoginBackends,
        *,
        http_hosts: set[str],
        connections_max: Callable[[int], int],
    ) -> None:
        self._engine = engine
        self._broker = broker
        self._turns = turns
        self._alarms = alarms
        self._listener = listener
        self._login_backends = login_backends
        self._http_hosts = http_hosts
        self._connections_max = connections_max

    def by_key(self) -> Mapping[str, Effect]:
        """Return them by key."""
        return {
            "log_level": self._logs,
            "log_format": self._logs,
            "heartbeat": self._tuning,
            "frame_max": self._tuning,
            "channel_max": self._tuning,
            "consumer_timeout_ms": self._consumer_timeout,
            "group_expires_ms": self._groups,
            "memory_watermark": self._memory,
            "disk_free_min": self._disk,
            "vhosts": self._vhosts,
            "limits.transaction_entries_max": self._engine_limits,
            "limits.message_bytes_max": self._engine_limits,
            "limits.reader_hold_percent": self._engine_limits,
            "limits.connections_max": self._connections,
            "limits.handshake_seconds": self._connections,
            "http.hosts": self._hosts,
            "redeclare": self._declaring,
            "redeclare_by_vhost": self._declaring,
            "unknown_arguments": self._declaring,
            "unknown_arguments_by_vhost": self._declaring,
            "policies": self._policies,
            "operator_policies": self._policies,
            "auth.cache_seconds": self._logins,
            "auth_http.user_path": self._logins,
            "auth_http.vhost_path": self._logins,
            "auth_http.resource_path": self._logins,
            "auth_http.topic_path": self._logins,
            "auth_http.http_method": self._logins,
        }

    def _logs(self, config: Config) -> None:
        logs.set_up(config.log_level, config.log_format)

    def _tuning(self, config: Config) -> None:
        self._broker.limits = tune_limits(config)

    def _consumer_timeout(self, config: Config) -> None:
        self._engine.connections.set_consumer_timeout(config.consumer_timeout_ms)

    def _groups(self, config: Config) -> None:
        self._broker.group_expires_ms = config.group_expires_ms

    def _memory(self, config: Config) -> None:
        memory_bytes_max = config.memory_bytes_max(memory_there_is())
        self._alarms.memory_bytes_max = memory_bytes_max
        self._engine.jobs.start(self._broker.setting_memory_bytes_max(memory_bytes_max))
        self._alarms.look()

    def _disk(self, config: Config) -> None:
        self._alarms.disk_free_min = config.disk_free_min
        self._alarms.look()

    def _vhosts(self, config: Config) -> None:
        for name in config.vhosts:
            try:
                self._broker.add_vhost(name)
            except BeingDeleted:
                logger.warning("virtual host '%s' is being deleted: reload again to make it", name)

    def _engine_limits(self, config: Config) -> None:
        limits = config.limits
        self._engine.connections.transaction_entries_max = limits.transaction_entries_max
        self._engine.connections.message_bytes_max = limits.message_bytes_max
        self._engine.streams.set_hold(limits.reader_hold_percent)

    def _connections(self, config: Config) -> None:
        self._listener.handshake_ms = config.limits.handshake_seconds * 1000
        self._listener.set_connections_max(self._connections_max(config.limits.connections_max))

    def _hosts(self, config: Config) -> None:
        self._http_hosts.clear()
        self._http_hosts.update(config.http.hosts)

    def _declaring(self, config: Config) -> None:
        self._broker.set_declaring(config.redeclare_in, config.unknown_arguments_in)

    def _policies(self, config: Config) -> None:
        policies = by_vhost((*config.policies, *config.operator_policies))
        self._engine.jobs.start(self._broker.configuring_policies(policies))

    def _logins(self, config: Config) -> None:
        self._login_backends.reload(config)

    def apply(self, config: Config, keys: list[str]) -> None:
        """Put what has changed in force."""
        self._turns.set_clock()  # there may have been no turn for long
        effects = self.by_key()
        for effect in dict.fromkeys(effects[key] for key in keys):
            effect(config)
        self._turns.wake()


@dataclasses.dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration, and where each of its values comes from.

    Attributes:
        config: the configuration.
        whence: says where the value of a setting comes from, by its key: file and line, variable,
            command line or default.
        files: what of it was read from files.
        remarks: what in them has no effect, one line each.
    """

    config: Config
    whence: Callable[[str], str]
    files: Sequence[Path] = ()
    remarks: Sequence[str] = ()

    @classmethod
    def of(cls, values: Values) -> Self:
        """Make the configuration of what was said, and read its certificates.

        Raises:
            ConfigError: something is not allowed, or a restart could not use a certificate.
        """
        config = build(values)
        check_certificates(config.tls, values)
        return cls(config, values.whence, values.files, remarks(values))

    def named(self, keys: list[str]) -> str:
        """Name settings, each with where it comes from."""
        return ", ".join(f"{key} ({self.whence(key)})" for key in keys)


Reread: TypeAlias = Callable[[], LoadedConfig]
"""Reads the configuration again, on a thread; raises ConfigError."""


class Reload:
    """Reads the configuration again whenever it is asked to.

    Args:
        config: what is in force.
        files: that it was read from.
        reread: reads it.
        apply: puts what has changed in force, by its keys.
        service_manager: told when a reload begins and ends.
    """

    def __init__(
        self,
        config: Config,
        files: Sequence[Path],
        reread: Reread,
        apply: Callable[[Config, list[str]], None],
        service_manager: ServiceManager,
    ) -> None:
        self.config = config
        self.files = files
        self._reread = reread
        self._apply = apply
        self._service_manager = service_manager
        self._running: asyncio.Task[None] | None = None
        self._asked = False

    def ask(self) -> None:
        """Reload soon; once more after the one that is under way."""
        self._asked = True
        if self._running is None or self._running.done():
            self._running = asyncio.ensure_future(self._work())

    async def stop(self) -> None:
        """Reload no more."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _work(self) -> None:
        while self._asked:
            self._asked = False
            self._service_manager.reloading()
            try:
                self._take(await asyncio.to_thread(self._reread))
            except ConfigError as error:
                for each in error.problems:
                    logger.error("the configuration stays as it was: %s", each.message)
                logger.error("to have the new configuration, mend that and send SIGHUP again")
            except Exception:
                logger.exception("defect: the configuration was not reloaded")
            self._service_manager.ready()

    def _take(self, found: LoadedConfig) -> None:
        """Have the new configuration where that is possible."""
        new = found.config
        for remark in found.remarks:
            logger.warning("%s", remark)
        changed = differing(self.config, new)
        live = [key for key in changed if key in LIVE]
        waiting = [key for key in changed if key not in LIVE]
        # What needs a restart stays as it is, so that the next reload says so again.
        config = merged(self.config, new, frozenset(live))
        self._apply(config, live)
        self.config = config
        self.files = found.files
        logger.info("configuration reloaded; changed: %s", found.named(live) or "nothing")
        if waiting:
            logger.warning("these settings change with a restart: %s", found.named(waiting))
