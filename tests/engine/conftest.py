"""What most tests of the engine begin with."""

import pytest
from tests.engine.disk_fake import Disk
from tests.engine.session_fake import Peer, make_plane


@pytest.fixture
def plane():
    return make_plane(durable_segment_bytes=4096, transient_segment_bytes=65536)


@pytest.fixture
def disk(plane):
    disk = Disk()
    disk.attach(plane)
    return disk


@pytest.fixture
def queue(plane):
    """Not durable, named q."""
    return plane.queue(0, "q", False)


@pytest.fixture
def peer(plane, queue):
    """With channels 1 and 2, whose default exchange finds q."""
    return Peer(plane, {"q": queue}, channels=(1, 2))
