"""What is answered over HTTP, on two ports or one."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from tests.management.fake_backups import Backups
from tests.server.stack import Stack
from tests.server.test_metrics import HISTOGRAM, IDENTITY

from leporid.filterserver.filter_class import FilterClassStatus
from leporid.management.surroundings import Surroundings
from leporid.server.addresses import bind, is_loopback
from leporid.server.http import HttpServer
from leporid.server.http_services import HttpServices
from leporid.server.ports import Ports, Sockets
from leporid.server.resources import Resources

Make = Callable[[bool, bool], HttpServices]


@pytest.fixture
async def make(stack: Stack, tmp_path: Path) -> AsyncIterator[Make]:
    made: list[HttpServices] = []

    async def nothing(_: object) -> None: ...

    async def at_once(_: int) -> bool:
        return True

    def make(http: bool, metrics: bool) -> HttpServices:
        around = Surroundings(
            broker=stack.broker,
            engine=stack.engine,
            is_loopback=is_loopback,
            set_clock=stack.turns.set_clock,
            wake=stack.turns.wake,
            until_synced=at_once,
            monotonic=time.monotonic,
            try_filter_class=nothing,
            filter_class_status=lambda _: FilterClassStatus(),
            backups=Backups(),
        )
        made.append(
            HttpServices(
                around,
                ports=Ports(
                    Sockets(),
                    Sockets(bind(["127.0.0.1"], 0) if http else ()),
                    Sockets(bind(["127.0.0.1"], 0) if metrics else ()),
                    None,
                ),
                troubles=list,
                identity=IDENTITY,
                resources=Resources(
                    tmp_path, limits=SimpleNamespace(memory_bytes_max=1, disk_free_min=1)
                ),
                filter_classes=dict,
                histograms={"turn_seconds": HISTOGRAM},
            )
        )
        return made[-1]

    yield make
    for each in made:
        await each.stop()


async def ask(server: HttpServer | None, path: str) -> httpx.Response:
    assert server is not None
    host, port = server.address
    async with httpx.AsyncClient(trust_env=False, auth=("guest", "guest")) as client:
        return await client.get(f"http://{host}:{port}{path}")


@pytest.mark.parametrize(("http", "metrics"), [(True, True), (True, False), (False, True)])
async def test_ports(stack: Stack, make: Make, http: bool, metrics: bool):
    services = make(http, metrics)
    assert (services.http is not None, services.metrics is not None) == (http, metrics)
    await services.start()
    peer = await stack.client()
    await peer.declare("q", auto_delete=False)
    for server in filter(None, (services.http, services.metrics)):
        page = (await ask(server, "/metrics")).text
        assert "rabbitmq_queues 1.0\n" in page
        assert "leporid_turn_seconds_count 2.0\n" in page
        assert 'queue="q"' in (await ask(server, "/metrics/per-object")).text
    if http:
        assert (await ask(services.http, "/health")).status_code == 200
        assert (await ask(services.http, "/api/filters")).status_code == 200
    if metrics:
        assert (await ask(services.metrics, "/health")).status_code == 404
        assert (await ask(services.metrics, "/api/filters")).status_code == 404


async def test_nothing_is_answered_afterwards(make: Make):
    services = make(False, True)
    await services.start()
    server = services.metrics
    assert (await ask(server, "/metrics")).status_code == 200
    assert server is not None
    host, port = server.address
    await services.stop()
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://{host}:{port}/metrics")
