"""A node: one broker process, from its data directory to its last line of log.

Responsible for the order of start-up and of shutdown; the parts are made here and joined here,
and nowhere else. Invariant: `ready` is printed only when every durable message is back and clients
may connect; the process exits 0 only when all that it confirmed is on disk.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import resource
import secrets
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvloop

from leporid import __version__
from leporid.amqp.errors import ConnectionForced
from leporid.broker.access.access import Access
from leporid.broker.broker import Broker
from leporid.broker.stored import KINDS, StoredQueue
from leporid.engine.engine import Engine
from leporid.engine.publishing.interceptor import Interceptor
from leporid.filters import parser
from leporid.limits.log_lines import LOG_LINES, LogLines
from leporid.server import addresses, ports
from leporid.server.alarms import Alarms, memory_there_is
from leporid.server.allocator import keep_freed_memory
from leporid.server.backups import Backups
from leporid.server.config import Config, ConfigError, configured_users
from leporid.server.definitions_import import import_files
from leporid.server.descriptors import (
    descriptor_places,
    descriptors,
    http_connections_max,
    links_max,
    make_descriptor_places,
    stream_files_max,
)
from leporid.server.durability import Durability
from leporid.server.garbage import GarbageTrigger, bounded_collections, without_collections
from leporid.server.histograms import Histogram, LoopLag
from leporid.server.judging import Judging
from leporid.server.listener import Listener, hashing_threads, on_thread
from leporid.server.login_backends import LoginBackends
from leporid.server.niceness import yield_to_messages
from leporid.server.notify import ServiceManager
from leporid.server.password_hashing import PasswordHashing
from leporid.server.policy_settings import by_vhost
from leporid.server.recovery import replay
from leporid.server.reload import Effects, Reload, Reread, tune_limits
from leporid.server.repeating import Repeating
from leporid.server.resources import Resources
from leporid.server.stream_recovery import StreamRecovery
from leporid.server.turns import Turns
from leporid.storage.backup import Backup, BackupError, check_restored
from leporid.storage.definitions import Definitions, DefinitionsError
from leporid.storage.incarnation import incarnation
from leporid.storage.lock import DirectoryInUse, DirectoryLock
from leporid.storage.private import UMASK, make_private
from leporid.storage.segments import SegmentFiles
from leporid.storage.streams import StreamLogs

if TYPE_CHECKING:
    from leporid.engine.bounds.jobs import Job
    from leporid.management.nodes import ListenerCertificate, Listening, NodeFacts
    from leporid.server.http_services import HttpServices
    from leporid.server.ports import Port

logger = logging.getLogger(__name__)

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
# A disk that stays full would otherwise keep the process for ever, for messages that nobody was
# promised anything about.
LAST_SYNC_S: Final = 30.0
# What peers get to answer connection.close before their sockets are closed.
DRAIN_S: Final = 2.0
# The sync thread needs the interpreter for moments only, but needs it soon.
SWITCH_INTERVAL_S: Final = 0.0005

# What a named reader of a stream has acked is stored this much later at most.
READERS_EVERY_S: Final = 1.0
# Totals for the rates that management shows; microseconds each.
SAMPLE_EVERY_S: Final = 1.0
# Of the watermark, bodies of requests over HTTP have at most one such part together.
BODY_PART: Final = 4
# So often the log says how many lines were left out, if there were any.
LEFT_OUT_EVERY_S: Final = 10.0

# What stands in a data directory; also copies that were put aside, whose names begin alike.
DATA_FOLDERS: Final = frozenset({"log", "streams"})
DATA_FILES: Final = ("definitions.", "incarnation", "lock")

# What RabbitMQ calls the ports.
LISTENERS: Final = {
    "amqp": "amqp",
    "amqps": "amqp/ssl",
    "http": "http",
    "https": "https",
    "metrics": "http/prometheus",
    "metrics-https": "https/prometheus",
}

# The name of the node, which is a cluster by itself; RabbitMQ's have the form rabbit@HOST.
CLUSTER: Final = f"leporid@{os.uname().nodename}"


def run(config: Config, reread: Reread, files: Sequence[Path] = ()) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code.

    Args:
        config: whole and checked.
        reread: reads it again, at SIGHUP; raises ConfigError.
        files: that it was read from.
    """
    os.umask(UMASK)
    # Until there is something to change. A reload must never end the broker.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    # A file of the log that was cut short by somebody else, or that the disk cannot give, ends the
    # process by SIGBUS: then this says so.
    faulthandler.enable()
    keep_freed_memory()
    # A descriptor for each client: as many as we may have, not as many as a shell thinks usual.
    most = descriptors()
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    make_descriptor_places(descriptor_places(config.limits.connections_max, most))
    try:
        lock = DirectoryLock(config.data_dir)
    except DirectoryInUse as error:
        logger.error("%s", error)
        return EXIT_FAILED
    except OSError as error:
        logger.error(
            "cannot use the data directory %s: %s; --data-dir, or data_dir in the configuration, "
            "names another one",
            config.data_dir,
            _reason(error),
        )
        return EXIT_FAILED
    with lock:
        log_lines = LogLines(time.monotonic)
        for handler in logging.getLogger().handlers:
            handler.addFilter(log_lines)
        logger.info("Leporid %s, data in %s", __version__, config.data_dir)
        try:
            for trouble in make_private(config.data_dir, _is_of_data):
                logger.warning("%s", trouble)
            check_restored(config.data_dir)
            return uvloop.run(_serve(config, reread, log_lines, files))
        except OSError as error:
            remedy = ports.REMEDIES.get(error.errno or 0, "")
            logger.error("cannot start: %s%s", _reason(error), remedy)
        except (DefinitionsError, ConfigError, BackupError) as error:
            logger.error("cannot start: %s", error)
    return EXIT_FAILED


def _is_of_data(name: str) -> bool:
    """Whether a name in a data directory is of something that the broker keeps there."""
    return name in DATA_FOLDERS or name.startswith(DATA_FILES)


def _reason(error: OSError) -> str:
    """What the operating system says, without its number."""
    if error.strerror is None:
        return str(error)
    return error.strerror + (f": {error.filename}" if error.filename is not None else "")


async def _serve(config: Config, reread: Reread, log_lines: LogLines, files: Sequence[Path]) -> int:
    node = Node(config, reread, log_lines)
    node.config_files = files
    return await node.serve()


def _engine(config: Config) -> Engine:
    """Make the engine, with what the configuration says of it."""
    engine = Engine(secrets.randbits(32))
    engine.connections.message_bytes_max = config.limits.message_bytes_max
    engine.connections.transaction_entries_max = config.limits.transaction_entries_max
    engine.streams.set_hold(config.limits.reader_hold_percent)
    engine.connections.consumer_timeout_ms = config.consumer_timeout_ms
    if config.interceptors.used:
        engine.publishing.interceptor = Interceptor(
            timestamp=config.interceptors.timestamp,
            message_id=config.interceptors.message_id,
            random_bytes=secrets.token_bytes,
        )
    return engine


class Node:
    """One broker process; made, and used, on a running loop.

    Args:
        config: whole and checked.
        reread: reads it again.

    Attributes:
        config_files: that it was read from.

    Raises:
        ConfigError: the certificate or its key cannot be used.
        DefinitionsError: the definitions cannot be read.
        OSError: a port or the data directory cannot be had.
    """

    config_files: Sequence[Path] = ()

    def __init__(self, config: Config, reread: Reread, log_lines: LogLines) -> None:
        self._config = config
        self._reread = reread
        self._reload: Reload | None = None
        self._service_manager = ServiceManager(os.environ)
        self._watchdog: Repeating | None = None
        self._log_lines = log_lines
        self._stop = asyncio.Event()
        self._started_ms = int(time.time() * 1000)
        self._draining = False
        self._failure: BaseException | None = None
        # The ports first: whoever cannot have them touches no data.
        self._ports = ports.bind(config)
        self._definitions = Definitions(config.data_dir / "definitions.db", KINDS)
        self._files = SegmentFiles(config.data_dir / "log")
        self._streams = StreamLogs(
            config.data_dir / "streams", open_max=stream_files_max(descriptors())
        )
        self._engine = _engine(config)
        self._turns = Turns(self._engine)
        self._hashers = hashing_threads()
        self._password_hashing = PasswordHashing()
        self._durability = Durability(
            self._engine,
            self._files,
            self._definitions,
            self._streams,
            wake=self._turns.wake,
            no_room=self._no_room,
            failed=self._fail,
            sync=config.durability == "synced",
        )
        self._broker = self._make_broker()
        self._login_backends = LoginBackends(config, self._broker, self._turns.wake)
        self._turns.timed += [self._broker.unused, self._broker.handovers, self._broker.cancels]
        self._alarms = Alarms(
            config.data_dir,
            memory_bytes_max=config.memory_bytes_max(memory_there_is()),
            disk_free_min=config.disk_free_min,
            tell=self._set_alarm,
            hold=self._hold_dead_letters,
        )
        place = config.backup_dir or config.data_dir / "backups"
        self._backups = Backups(place, __version__, self._backup, self._durability.rest)
        self._saving: Job | None = None
        self._readers = Repeating(READERS_EVERY_S, self._look_at_readers)
        self._lag = LoopLag()
        self._broker.refusals.expect(LOG_LINES)
        log_lines.refusals = self._broker.refusals
        self._left_out_lines = Repeating(LEFT_OUT_EVERY_S, log_lines.report)
        self._judging = Judging(
            self._broker.filter_classes,
            config.filter_server.limits,
            waiting=self._engine.verdicts.take,
            about_to_judge=self._turns.set_clock,
            judged=self._verdicts_came,
            renewed=self._class_renewed,
        )
        self._http_hosts = set(config.http.hosts)
        self._resources = Resources(
            config.data_dir,
            limits=self._alarms,
            sockets=lambda: len(self._turns.links),
            sockets_max=self._connections_max,
            alarms=self._broker.alarms,
        )
        self._http: HttpServices | None = None
        self._sampler: Repeating | None = None
        if self._ports.http.used or self._ports.metrics.used:
            self._http = self._make_http()

    async def serve(self) -> int:
        """Start, serve until told to stop, stop in order."""
        self._recover()
        self._broker.settle_verdict_queues()
        self._turns.after = self._end_turn
        await self._durability.drain()
        if self._failure is not None:
            return await self._shut_down()
        await self._judging.try_configured()
        parser.prepare()
        self._turns.timed += [GarbageTrigger(lambda: self._broker.handled)]
        with bounded_collections():
            listener = await self._listen()
            if self._http is not None:
                self._http.started()
            await self._stop.wait()
            self._draining = True
            logger.info("stopping")
            self._service_manager.stopping()
            listener.stop()
            return await self._shut_down()

    # ------------------------------------------------------------- start

    def _make_broker(self) -> Broker:
        config, durability = self._config, self._durability
        return Broker(
            self._engine,
            Access((), secrets.token_bytes(32), self._password_hashing.matches),
            record=durability.record,
            random_bytes=secrets.token_bytes,
            offload=on_thread(self._turns, self._hashers),
            redeclare=config.redeclare_in,
            unknown_arguments=config.unknown_arguments_in,
            filter_classes=config.filter_classes,
            policies=by_vhost((*config.policies, *config.operator_policies)),
            group_expires_ms=config.group_expires_ms,
            memory_bytes_max=config.memory_bytes_max(memory_there_is()),
            event_vhost=config.event_exchange.vhost,
            limits=tune_limits(config),
            identity={
                "product": "Leporid",
                "version": __version__,
                "platform": f"Python {sys.version.split()[0]}",
                "copyright": "Copyright the authors of Leporid",
                "information": "Licensed under the Apache License 2.0",
                "cluster_name": CLUSTER,
            },
        )

    def _make_http(self) -> HttpServices:
        """Make what is answered over HTTP; only now is any of it loaded."""
        with without_collections():
            from leporid.management.admission import BODY_BYTES_MAX, ENCODERS_MAX
            from leporid.management.surroundings import Surroundings
            from leporid.server.http_services import HttpServices
            from leporid.server.metrics import Identity

        config, seconds = self._config, self._durability.seconds
        around = Surroundings(
            broker=self._broker,
            engine=self._engine,
            is_loopback=addresses.is_loopback,
            set_clock=self._turns.set_clock,
            wake=self._turns.wake,
            until_synced=self._durability.until,
            monotonic=time.monotonic,
            try_filter_class=self._judging.try_out,
            filter_class_status=self._judging.status,
            http_hosts=self._http_hosts,
            guest_registers=config.filter_server.allow_guest,
            look=self._alarms.look,
            alarm_limits=self._alarms.limits,
            body_bytes=min(BODY_BYTES_MAX, self._alarms.memory_bytes_max // BODY_PART),
            node=self._facts,
            node_name=CLUSTER,
            encoders=ThreadPoolExecutor(ENCODERS_MAX, "tables", yield_to_messages),
            backups=self._backups,
            sign_on=self._login_backends.sign_on,
            sync_totals=lambda: (sum(seconds.counts), seconds.total),
        )
        self._sampler = Repeating(SAMPLE_EVERY_S, around.sample)
        return HttpServices(
            around,
            ports=self._ports,
            troubles=self._troubles,
            identity=Identity(
                node=CLUSTER,
                cluster=lambda: self._broker.cluster_name,
                cluster_id=lambda: self._broker.global_parameters.cluster_id or "",
                version=__version__,
                runtime=f"Python {sys.version.split()[0]}",
            ),
            resources=self._resources,
            filter_classes=self._judging.statuses,
            histograms=self._histograms(),
            connections_max=http_connections_max(descriptors()),
        )

    def _backup(self, name: str) -> Backup:
        """Return a backup of what there is, that is not begun yet."""
        return Backup(
            self._files,
            self._streams,
            self._definitions,
            self._backups.directory,
            name,
            kept_free=self._alarms.limits.get("disk", 0),
        )

    def _connections_max(self) -> int:
        """How many connections there may be, by the configuration that is in force."""
        config = self._config if self._reload is None else self._reload.config
        return links_max(config.limits.connections_max, descriptors())

    def _histograms(self) -> dict[str, Histogram]:
        """What the server measures, under the names of its metrics."""
        return {
            "sync_seconds": self._durability.seconds,
            "sync_bytes": self._durability.bytes,
            "turn_seconds": self._turns.seconds,
            "loop_lag_seconds": self._lag.seconds,
        }

    def _recover(self) -> None:
        """What was there when the last run ended is there again; so is what is configured."""
        for line in self._definitions.report:
            logger.warning("damaged: %s", line)
        self._engine.streams.incarnation_prefix, trouble = incarnation(
            self._config.data_dir, secrets.token_bytes(8)
        )
        if trouble is not None:
            logger.warning("damaged: %s", trouble)
        snapshot = self._definitions.load()
        self._backups.clear()
        self._service_manager.still_starting()
        self._broker.restore(snapshot)
        self._service_manager.still_starting()
        streams = StreamRecovery(
            self._streams,
            self._engine.streams.by_id.values(),
            defined={queue.id for queue in snapshot.of(StoredQueue)},
            next_queue_id=snapshot.next_queue_id,
            progress=self._service_manager.still_starting,
        )
        recovered = replay(
            self._engine,
            self._files,
            next_queue_id=snapshot.next_queue_id,
            beside=streams,
            progress=self._service_manager.still_starting,
        )
        logger.info(
            "log: %d segments with %d records read%s",
            recovered.segments,
            recovered.records,
            "; the last run did not end in order"
            if recovered.records and not recovered.clean
            else "",
        )
        if self._engine.streams.by_id:
            logger.info(
                "streams: %d, with %d messages in %d segments read",
                len(self._engine.streams.by_id), streams.messages, streams.segments,
            )  # fmt: skip
        for name in self._config.vhosts:
            self._broker.add_vhost(name)
        self._broker.global_parameters.seed_cluster_id(secrets.token_bytes)
        self._define()

    def _define(self) -> None:
        """What the configuration says of definitions and users is there; raises ConfigError."""
        config = self._config
        place, defined = config.definitions.import_, []
        if place is not None:
            defined = import_files(
                self._broker,
                place,
                secrets.token_bytes,
                skip_if_unchanged=config.definitions.skip_if_unchanged,
            )
        named = config.users is not None
        # As in RabbitMQ, what is imported says which users there are, and guest need not be one.
        users = configured_users(config) if named or place is None else ()
        self._broker.users.seed(
            [user for user in users if user.enforced or user.name not in defined],
            secrets.token_bytes,
            named=named,
        )

    async def _listen(self) -> Listener:
        """Open the ports, and say so."""
        listener = Listener(
            self._ports.amqp.plain,
            self._broker,
            self._turns,
            handshake_ms=self._config.limits.handshake_seconds * 1000,
            connections_max=links_max(self._config.limits.connections_max, descriptors()),
            tls_sockets=self._ports.amqp.tls,
            certificates=self._ports.certificates,
            proxies=self._ports.proxies,
        )
        if self._http is not None:
            await self._http.start()
        listener.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop.set)
        self._follow_configuration(listener)
        self._service_manager.ready()
        seconds = self._service_manager.watchdog_seconds
        if seconds is not None:
            # Half of the time, as sd_watchdog_enabled(3) recommends.
            self._watchdog = Repeating(seconds / 2, self._service_manager.alive)
        sys.stdout.write(f"ready {self._ports.ready_line()} pid={os.getpid()}\n")
        sys.stdout.flush()
        return listener

    def _follow_configuration(self, listener: Listener) -> None:
        """Have the configuration read again at SIGHUP."""
        effects = Effects(
            self._engine,
            self._broker,
            self._turns,
            self._alarms,
            listener,
            self._login_backends,
            http_hosts=self._http_hosts,
            connections_max=lambda configured: links_max(configured, descriptors()),
        )
        self._reload = Reload(
            self._config, self.config_files, self._reread, effects.apply, self._service_manager
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload.ask)

    # ------------------------------------------------------------- told by the parts

    def _set_alarm(self, reason: str, on: bool) -> None:
        self._broker.set_alarm(reason, on)
        self._turns.resume_reading()
        self._turns.wake()

    def _hold_dead_letters(self, held: bool) -> None:
        self._engine.queues.dead_lettering.held = held
        self._turns.wake()

    def _end_turn(self) -> None:
        self._judging.poll()
        self._durability.poll()
        self._alarms.at_work(self._engine.clock.now_ms)

    def _verdicts_came(self) -> None:
        self._broker.settle_verdict_queues()
        self._turns.wake()

    def _class_renewed(self, name: str) -> None:
        self._engine.searches.renew_filter_class(name)
        self._turns.wake()

    def _look_at_readers(self) -> None:
        self._turns.set_clock()  # there may have been no turn for long
        recorded = self._broker.recorded_count
        if self._saving is None or self._saving.ended:
            self._saving = self._engine.jobs.start(self._broker.saving_reader_offsets())
        self._broker.look_at_groups()
        if self._broker.recorded_count != recorded or self._engine.busy:
            self._turns.wake()

    def _no_room(self, full: bool) -> None:
        self._alarms.disk_full(full)

    def _facts(self) -> NodeFacts:
        """Return what RabbitMQ's routes say of the process; a tenth of a millisecond."""
        from leporid.management.nodes import NodeFacts

        used = self._resources.now()
        return NodeFacts(
            name=CLUSTER,
            version=__version__,
            started_ms=self._started_ms,
            os_pid=os.getpid(),
            memory_used=used.memory_bytes,
            memory_limit=used.memory_bytes_max,
            disk_free=used.disk_free_bytes,
            disk_free_limit=used.disk_free_bytes_min,
            descriptors=used.descriptors,
            descriptors_max=used.descriptors_max,
            connections_max=used.sockets_max,
            processors=os.cpu_count() or 1,
            data_dir=str(self._config.data_dir),
            config_files=[str(each) for each in self._read_files()],
            listening=self._listening(),
            draining=self._draining,
        )

    def _read_files(self) -> Sequence[Path]:
        """Return the files that the configuration in force was read from."""
        return self.config_files if self._reload is None else self._reload.files

    def _listening(self) -> list[Listening]:
        """Return all sockets that peers connect to."""
        from leporid.management.nodes import Listening

        return [
            Listening(
                LISTENERS[each.name],
                each.host,
                each.port,
                tls=each.tls,
                certificates=self._shown_at(each),
            )
            for each in self._ports.listening()
        ]

    def _shown_at(self, port: Port) -> list[ListenerCertificate]:
        """Return the certificates that peers may be shown at a port."""
        from leporid.management.nodes import ListenerCertificate

        if self._ports.certificates is None or not port.tls:
            return []
        return [
            ListenerCertificate(
                str(each.certificate),
                each.certificate_ends,
                "" if each.authority is None else str(each.authority),
                each.authority_ends,
            )
            for each in self._ports.certificates.ends(http=port.name != "amqps")
        ]

    def _troubles(self) -> list[str]:
        found = [f"{alarm} alarm" for alarm in sorted(self._broker.alarms)]
        if self._durability.silent:
            found.append(f"no sync for {self._durability.waits_s:.0f} s")
        return ["draining", *found] if self._draining else found

    def _fail(self, error: BaseException) -> None:
        """Nothing can be written any more: stop before anything is confirmed."""
        logger.critical("storage failed, the broker stops: %s", error, exc_info=error)
        self._failure = error
        self._stop.set()

    # ------------------------------------------------------------- stop

    async def _shut_down(self) -> int:
        """End everything in order; returns the exit code."""
        if self._reload is not None:
            await self._reload.stop()
        await self._judging.stop()
        await self._backups.stop()
        if self._failure is None:
            await self._end_connections()
            try:
                async with asyncio.timeout(LAST_SYNC_S):
                    await self._durability.drain()
                    self._broker.save_reader_offsets()  # those that waited for that
                    self._engine.mark_clean()
                    await self._durability.drain()
            except TimeoutError as error:
                logger.error("the last sync did not finish; nothing that was confirmed is lost")
                self._failure = error
        self._turns.stop()
        self._alarms.stop()
        self._readers.stop()
        self._lag.stop()
        if self._sampler is not None:
            self._sampler.stop()
        self._left_out_lines.stop()
        if self._watchdog is not None:
            self._watchdog.stop()
        self._log_lines.report()
        if self._http is not None:
            await self._http.stop()
        self._hashers.shutdown(wait=False, cancel_futures=True)
        self._password_hashing.stop()
        self._login_backends.stop()
        if self._failure is not None:
            # The disk is in a state that nobody knows: a thread may hang in it.
            logging.shutdown()
            os._exit(EXIT_FAILED)
        self._durability.stop()
        self._files.close()
        self._streams.close()
        self._definitions.close()
        logger.info("stopped")
        return EXIT_OK

    async def _end_connections(self) -> None:
        """Say connection.close to everybody (320), and give them a moment to answer."""
        for session in list(self._broker.sessions):
            session.close_for(
                ConnectionForced("broker forced connection closure with reason 'shutdown'")
            )
        self._turns.wake()
        try:
            async with asyncio.timeout(DRAIN_S):
                await self._turns.without_links()
        except TimeoutError:
            pass
        for link in list(self._turns.links.values()):
            link.close()
        while self._engine.jobs.waiting:
            self._turns.wake()
            await asyncio.sleep(0)
