"""What most tests of the engine begin with."""

import pytest
from tests.engine.disk_fake import Disk
from tests.engine.session_fake import Peer, make_engine


class DeadLetters:
    """Notes dead letters."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str, str, bytes, bytes]] = []

    def __call__(self, reason: str, exchange: str, key: str, raw: bytes, body: bytes) -> None:
        self.found.append((reason, exchange, key, raw, bytes(body)))  # a large one is no bytes

    @property
    def bodies(self) -> list[bytes]:
        return [each[-1] for each in self.found]


@pytest.fixture
def engine():
    return make_engine(durable_segment_bytes=4096, transient_segment_bytes=65536)


@pytest.fixture
def disk(engine):
    disk = Disk()
    disk.attach(engine)
    return disk


@pytest.fixture
def queue(engine):
    """Not durable, named q."""
    return engine.queue(0, "q", False)


@pytest.fixture
def peer(engine, queue):
    """With channels 1 and 2, whose default exchange finds q."""
    return Peer(engine, {"q": queue}, channels=(1, 2))


@pytest.fixture
def dead_letters(queue):
    queue.dead_letters = DeadLetters()
    return queue.dead_letters
