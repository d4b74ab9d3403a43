"""The one node there is: what RabbitMQ's routes say of nodes.

Responsible for /api/nodes and for the facts of the process that other routes show, too. Must not
know where the facts come from: the server gives them. Invariant: what is not measured (Erlang's
processes, its garbage collections) is left out and never made up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leporid.broker.access.sasl import MECHANISMS
from leporid.broker.exchange.types import descriptions
from leporid.management.authorization import monitor, not_found
from leporid.management.paging import Lists, Table, columns_in
from leporid.management.paths import name_of
from leporid.management.rates import CHURN

if TYPE_CHECKING:
    from leporid.management.surroundings import Surroundings

NODE: Final = "leporid@localhost"


@dataclass(frozen=True, slots=True)
class ListenerCertificate:
    """A certificate that peers are shown, and whom they have to be signed by.

    Attributes:
        certificate: the file of it and of its chain.
        certificate_ends: until when each of these is valid, in seconds since 1970.
        authority: the file of those who may have signed certificates of peers; "": there is none.
        authority_ends: until when each of these is valid.
    """

    certificate: str
    certificate_ends: Sequence[int]
    authority: str = ""
    authority_ends: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Listening:
    """A socket that peers connect to.

    Attributes:
        certificates: what peers may be shown there.
    """

    protocol: str
    host: str
    port: int
    tls: bool = False
    certificates: Sequence[ListenerCertificate] = ()


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What there is to know about the process, as of now.

    Attributes:
        started_ms: when it was started, by the wall's clock.
        memory_used: anonymous memory in bytes.
        memory_limit: above which the memory alarm is on.
        disk_free: bytes where the data lies.
        disk_free_limit: below which the disk alarm is on.
        descriptors: file descriptors that it has.
        descriptors_max: file descriptors that it may have.
        connections_max: connections that there may be.
        draining: whether it is being stopped.
    """

    name: str = NODE
    version: str = ""
    started_ms: int = 0
    os_pid: int = 0
    memory_used: int = 0
    memory_limit: int = 0
    disk_free: int = 0
    disk_free_limit: int = 0
    descriptors: int = 0
    descriptors_max: int = 0
    connections_max: int = 0
    processors: int = 1
    data_dir: str = ""
    config_files: Sequence[str] = ()
    listening: Sequence[Listening] = ()
    draining: bool = False


def exchange_types() -> list[dict[str, Any]]:
    """Return the types of exchanges that there are."""
    return [
        {"name": name, "description": description, "enabled": True}
        for name, description in sorted(descriptions().items())
    ]


class NodeRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._table: Table[NodeFacts] = Table({"name": lambda node: node.name})
        self._lists = Lists(around, self._table, lambda node: node.name)

    async def listing(self, request: Request) -> Response:
        """GET /api/nodes."""
        user = await monitor(self._around, request)
        columns = columns_in(request)
        shown = self._shown(self._around.node())
        kept = shown if columns is None else columns.of_shown(shown)
        return self._around.listing(user, iter([kept]))

    async def show(self, request: Request) -> Response:
        """GET /api/nodes/{name}."""
        user = await monitor(self._around, request)
        if not self._around.is_node(name_of(request, "name")):
            raise not_found()
        columns = columns_in(request)
        shown = self._shown(self._around.node())
        return self._around.listing(user, shown if columns is None else columns.of_shown(shown))

    async def memory(self, request: Request) -> Response:
        """GET /api/nodes/{name}/memory: bytes by what they are for, as far as that is counted."""
        await self._known(request)
        used, total = self._memory()
        shown = {**used, "strategy": "rss", "total": {"rss": total}}
        return JSONResponse({"memory": shown})

    async def relative_memory(self, request: Request) -> Response:
        """GET /api/nodes/{name}/memory/relative: the same in per cent, rounded up as RabbitMQ."""
        await self._known(request)
        used, total = self._memory()
        shares = {name: math.ceil(100 * count / total) for name, count in used.items() if total}
        return JSONResponse({"memory": {"total": 100, **shares}})

    async def _known(self, request: Request) -> None:
        await monitor(self._around, request)
        if not self._around.is_node(name_of(request, "name")):
            raise not_found()

    def _memory(self) -> tuple[dict[str, int], int]:
        """Return what the accounts and the logs keep, the rest, and all of it; in bytes."""
        memory, logs = self._around.broker.memory, self._around.engine.logs
        definitions = memory.definitions.bytes
        used = {
            "connection_other": max(0, memory.total.bytes - definitions),
            "metadata_store": definitions,
            "binary": logs.durable.bytes + logs.transient.bytes,
        }
        total = max(self._around.node().memory_used, sum(used.values()))
        return {**used, "other_proc": total - sum(used.values())}, total

    def _shown(self, node: NodeFacts) -> dict[str, Any]:
        broker, engine = self._around.broker, self._around.engine
        uptime = max(0, engine.clock.wall_ms - node.started_ms) if node.started_ms else 0
        return {
            "name": node.name,
            "type": "disc",
            "running": True,
            "being_drained": node.draining,
            "os_pid": str(node.os_pid),
            "uptime": uptime,
            "processors": node.processors,
            "mem_used": node.memory_used,
            "mem_limit": node.memory_limit,
            "mem_alarm": "memory" in broker.alarms,
            "disk_free": node.disk_free,
            "disk_free_limit": node.disk_free_limit,
            "disk_free_alarm": "disk" in broker.alarms,
            "fd_total": node.descriptors_max,
            "fd_used": node.descriptors,
            "sockets_total": node.connections_max,
            "sockets_used": len(broker.sessions),
            "rates_mode": "basic",
            "exchange_types": exchange_types(),
            "auth_mechanisms": [
                {"name": name, "description": "", "enabled": True} for name in MECHANISMS
            ],
            "applications": [
                {"name": "leporid", "description": "Leporid", "version": node.version}
            ],
            "contexts": contexts(node, with_node=False),
            "config_files": list(node.config_files),
            "db_dir": node.data_dir,
            "log_files": [],
            "enabled_plugins": [],
            "partitions": [],
            "cluster_links": [],
            **self._around.samples.stats(CHURN),
        }


def listeners(node: NodeFacts) -> list[dict[str, Any]]:
    """Return what peers connect to, as overview shows it."""
    return [
        {
            "node": node.name,
            "protocol": each.protocol,
            "ip_address": each.host,
            "port": each.port,
            "socket_opts": {},
        }
        for each in node.listening
    ]


def contexts(node: NodeFacts, *, with_node: bool = True) -> list[dict[str, Any]]:
    """Return what answers HTTP."""
    return [
        ({"node": node.name} if with_node else {})
        | {
            "description": "Leporid HTTP",
            "path": "/",
            "ip": each.host,
            "port": str(each.port),
            "protocol": each.protocol,
        }
        for each in node.listening
        if each.protocol.startswith("http")
    ]
