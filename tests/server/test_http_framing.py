"""Requests whose end is not where somebody in front of the broker may see it, before a real one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from leporid.testing import BrokerProcess

pytestmark = pytest.mark.slow

PATIENCE_S = 20
NEXT = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
REFUSED = {
    "both": (b"1.1", b"Content-Length: 4\r\n" + CHUNKED),
    "both the other way round": (b"1.1", CHUNKED + b"Content-Length: 4\r\n"),
    "in another case": (b"1.1", b"CONTENT-LENGTH: 4\r\ntransfer-ENCODING: Chunked\r\n"),
    "chunks before HTTP/1.1": (b"1.0", CHUNKED),
    "two lengths": (b"1.1", b"Content-Length: 4\r\nContent-Length: 5\r\n"),
    "two lengths in one": (b"1.1", b"Content-Length: 4, 5\r\n"),
    "a negative length": (b"1.1", b"Content-Length: -4\r\n"),
    "a length with a sign": (b"1.1", b"Content-Length: +4\r\n"),
    "an empty length": (b"1.1", b"Content-Length:\r\n"),
    "another coding": (b"1.1", b"Transfer-Encoding: gzip, chunked\r\n"),
    "two codings": (b"1.1", CHUNKED + CHUNKED),
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as broker:
        yield broker


async def answers(broker: BrokerProcess, sent: bytes) -> list[int]:
    """The status of each answer, until the broker closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.http_port)
    writer.write(sent)
    async with asyncio.timeout(PATIENCE_S):
        got = await reader.read()
    writer.close()
    return [int(part[:3]) for part in got.split(b"HTTP/1.1 ")[1:]]


async def test_a_request_whose_end_is_in_doubt_is_the_last_of_its_connection(broker: BrokerProcess):
    for why, (version, headers) in REFUSED.items():
        head = b"POST /health HTTP/" + version + b"\r\nHost: localhost\r\n" + headers
        found = await answers(broker, head + b"\r\n0\r\n\r\n" + NEXT)
        assert len(found) == 1, why
        assert found[0] in (400, 501), why


async def test_the_end_of_others_is_not_in_doubt(broker: BrokerProcess):
    head = b"POST /health HTTP/1.1\r\nHost: localhost\r\n"
    for headers in (CHUNKED, b"Content-Length: 5\r\nContent-Length: 5\r\n"):
        assert await answers(broker, head + headers + b"\r\n0\r\n\r\n" + NEXT) == [405, 200]
