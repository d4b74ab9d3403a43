"""A node: one broker process, from its data directory to its last line of log.

Responsible for the order of start-up and of shutdown; the parts are made here and joined here,
and nowhere else. Invariant: `ready` is printed only when every durable message is back and clients
may connect; the process exits 0 only when all that it confirmed is on disk.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import signal
import sys
from dataclasses import asdict
from typing import Final

import uvloop

from leporid import __version__
from leporid.amqp.errors import ConnectionForced
from leporid.broker.access import Access
from leporid.broker.broker import Broker, Limits
from leporid.broker.changes import Change
from leporid.engine.plane import Plane
from leporid.server import addresses
from leporid.server.alarms import Alarms, memory_there_is
from leporid.server.config import Config, access_users
from leporid.server.counts import Counts
from leporid.server.durability import Durability
from leporid.server.http import HttpServer, application
from leporid.server.listener import Listener, on_thread
from leporid.server.recovery import replay
from leporid.server.turns import Turns
from leporid.storage.definitions import Definitions, DefinitionsError
from leporid.storage.lock import DirectoryInUse, DirectoryLock
from leporid.storage.segments import SegmentFiles

logger = logging.getLogger(__name__)

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
# What peers get to answer connection.close before their sockets are closed.
DRAIN_S: Final = 2.0
# The sync thread needs the interpreter for moments only, but needs it soon.
SWITCH_INTERVAL_S: Final = 0.0005


def run(config: Config) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        with DirectoryLock(config.data_dir):
            return uvloop.run(Node(config).serve())
    except DirectoryInUse as error:
        logger.error("%s", error)
    except (DefinitionsError, OSError) as error:
        logger.error("cannot start: %s", error)
    return EXIT_FAILED


def as_stored(change: Change) -> tuple[str, dict[str, object]]:
    """A change as the definitions' store takes it: ("put_queue", {fields})."""
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(change).__name__).lower()
    return kind, asdict(change)


class Node:
    """One broker process.

    Args:
        config: whole and checked.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._stop = asyncio.Event()
        self._draining = False
        self._failure: BaseException | None = None

    async def serve(self) -> int:
        """Start, serve until told to stop, stop in order."""
        config = self._config
        loop = asyncio.get_running_loop()
        sockets = addresses.bind(config.bind, config.amqp_port)
        http_sockets = addresses.bind(config.bind, config.http_port)
        definitions = Definitions(config.data_dir / "definitions.db")
        for line in definitions.report:
            logger.warning("damaged: %s", line)
        files = SegmentFiles(config.data_dir / "log")

        plane = Plane(secrets.randbits(32))
        plane.message_bytes_max = config.limits.message_bytes_max
        turns = Turns(plane)
        durability = Durability(
            plane,
            files,
            definitions,
            synced=turns.wake,
            no_room=lambda full: alarms.disk_full(full),
            failed=self._fail,
            sync=config.durability == "synced",
        )
        broker = self._broker(plane, durability, turns)
        broker.restore(definitions.load())
        recovered = replay(plane, files)
        logger.info(
            "log: %d segments with %d records read%s", recovered.segments, recovered.records,
            "" if recovered.clean else "; the last run did not end in order",
        )  # fmt: skip
        for name in config.vhosts:
            broker.add_vhost(name)
        turns.after = durability.poll
        await durability.drain()

        def set_alarm(reason: str, on: bool) -> None:
            broker.set_alarm(reason, on)
            plane.publishers_blocked = bool(broker.alarms)
            turns.resume_reading()
            turns.wake()

        alarms = Alarms(
            config.data_dir,
            memory_bytes_max=config.memory_bytes_max(memory_there_is()),
            disk_free_min=config.disk_free_min,
            tell=set_alarm,
        )
        listener = Listener(
            sockets,
            broker,
            turns,
            handshake_ms=config.limits.handshake_seconds * 1000,
            connections_max=config.limits.connections_max,
        )
        counts = Counts(broker, plane)
        http = HttpServer(
            application(counts.now, lambda: self._troubles(broker)), http_sockets
        )
        await http.start()
        listener.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        print(
            f"ready amqp={addresses.host_and_port(sockets[0].getsockname())} "
            f"http={addresses.host_and_port(http.address)} pid={os.getpid()}",
            flush=True,
        )

        await self._stop.wait()
        self._draining = True
        logger.info("stopping")
        listener.stop()
        if self._failure is None:
            await self._end_connections(broker, turns)
            plane.mark_clean()
            await durability.drain()
        alarms.stop()
        await http.stop()
        if self._failure is not None:
            # The disk is in a state that nobody knows: a thread may hang in it.
            logging.shutdown()
            os._exit(EXIT_FAILED)
        durability.stop()
        files.close()
        definitions.close()
        logger.info("stopped")
        return EXIT_OK

    def _broker(self, plane: Plane, durability: Durability, turns: Turns) -> Broker:
        config = self._config
        return Broker(
            plane,
            Access(access_users(config, secrets.token_bytes(32)), secrets.token_bytes(32)),
            record=lambda change: durability.record(as_stored(change)),
            random_bytes=secrets.token_bytes,
            offload=on_thread(turns),
            limits=Limits(config.channel_max, config.frame_max, config.heartbeat),
            identity={
                "product": "Leporid",
                "version": __version__,
                "platform": f"Python {sys.version.split()[0]}",
                "copyright": "Copyright the authors of Leporid",
                "information": "Licensed under the Apache License 2.0",
                "cluster_name": f"leporid@{os.uname().nodename}",
            },
        )

    async def _end_connections(self, broker: Broker, turns: Turns) -> None:
        """Say connection.close to everybody (320), and give them a moment to answer."""
        for session in list(broker.sessions):
            session.close_for(
                ConnectionForced("broker forced connection closure with reason 'shutdown'")
            )
        turns.wake()
        deadline = asyncio.get_running_loop().time() + DRAIN_S
        while turns.links and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        for link in list(turns.links.values()):
            link.close()

    def _troubles(self, broker: Broker) -> list[str]:
        found = [f"{alarm} alarm" for alarm in sorted(broker.alarms)]
        return ["draining", *found] if self._draining else found

    def _fail(self, error: BaseException) -> None:
        """Nothing can be written any more: stop before anything is confirmed."""
        logger.critical("storage failed, the broker stops: %s", error, exc_info=error)
        self._failure = error
        self._stop.set()
