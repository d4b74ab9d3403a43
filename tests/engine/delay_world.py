"""A queue behind an x-delayed-message exchange and another one, on a disk, for tests of delays."""

from __future__ import annotations

import struct

from tests.engine.disk_fake import Disk, recover
from tests.engine.frames import properties, publish, table
from tests.engine.session_fake import Peer

from leporid.amqp.properties import decode_properties
from leporid.engine.engine import Engine

YEARS_MS = 10 * 365 * 24 * 3600 * 1000


def header(**fields: bytes) -> dict[str, bytes]:
    return {name.replace("_", "-"): value for name, value in fields.items()}


def with_headers(**fields: bytes) -> bytes:
    return properties(headers=table(**header(**fields)), delivery_mode=2)


def int64(value: int) -> bytes:
    return b"l" + struct.pack(">q", value)


def delayed(delay_ms: int) -> bytes:
    return with_headers(x_delay=int64(delay_ms))


def headers_of(raw: bytes) -> dict:
    return dict(decode_properties(raw).headers or {})


class World:
    """A durable queue q behind an x-delayed-message exchange d and the exchange p, on a disk."""

    def __init__(self, engine: Engine, disk: Disk) -> None:
        self.disk = disk
        self.open(engine)

    def open(self, engine: Engine, *, with_stores: bool = False) -> None:
        self.engine = engine
        self.q = engine.queue(1, "q", True)
        self.routed: list[tuple[list[str], bytes]] = []
        self.peer = Peer(engine, {"q": self.q}, channels=(1, 2))
        self.make_caches(with_stores=with_stores)

    def make_caches(self, *, with_stores: bool = False) -> None:
        """Both exchanges, new."""
        self.caches = {}
        for number, name in ((2, "d"), (3, "p")):
            cache = self.engine.route_cache(name, lambda key, raw: self.resolve(key, raw), True)
            cache.delaying = name == "d"
            cache.make_delays = lambda number=number, cache=cache: self.engine.delays(
                number, cache, self.route
            )
            self.caches[name] = cache
            if with_stores:
                cache.make_delays()
        self.peer.session.caches |= self.caches

    def resolve(self, key, raw):
        return [self.q] if key == "q" else []

    def route(self, published_to, keys, raw):
        self.routed.append((list(keys), raw))
        return [self.q] if "q" in keys else []

    def send(self, body: bytes, raw: bytes, exchange: str = "d", key: str = "q", **more) -> None:
        self.peer.feed(publish(1, key, body, raw=raw, exchange=exchange, **more))

    @property
    def wall_ms(self) -> int:
        return self.engine.clock.wall_ms

    def at(self, moment_ms: int) -> bytes:
        return with_headers(x_deliver_at=int64(moment_ms))

    def store(self, exchange: str = "d"):
        store = self.caches[exchange].delays
        assert store is not None
        return store

    def waiting(self, exchange: str = "d") -> int:
        store = self.caches[exchange].delays
        return store.ready_count if store else 0

    def run(self) -> None:
        self.engine.run()
        while self.engine.busy:
            self.engine.run()

    def sleep(self, ms: int) -> None:
        self.engine.clock.now_ms += ms
        self.engine.clock.wall_ms += ms
        self.run()

    def came(self) -> list[bytes]:
        return self.peer.drain(self.q)

    def restart(self, disk=None, off_ms: int = 0) -> None:
        """What was not synced is gone; the clock that never stops says how long nobody ran."""
        wall_ms = self.engine.clock.wall_ms + off_ms
        disk = disk or self.disk
        self.disk = disk.copy()

        def declare(engine: Engine) -> None:
            engine.clock.wall_ms = wall_ms
            engine.clock.now_ms = 777
            self.open(engine, with_stores=True)

        recover(self.disk, declare, durable_segment_bytes=4096)
