"""What a restart makes of a queue that the log tells of."""

from __future__ import annotations

from tests.engine.disk_fake import Disk, recover
from tests.engine.frames import PERSISTENT, ack, publish
from tests.engine.session_fake import Peer, make_engine

from leporid.engine.engine import Engine


def test_what_was_not_settled_is_ready_in_its_place_and_counted() -> None:
    engine, disk = make_engine(), Disk()
    queue = engine.queue(1, "q", True)
    peer = Peer(engine, {"q": queue})
    for body in (b"a", b"b", b"c"):
        peer.feed(publish(1, "q", body, raw=PERSISTENT))
    for _ in range(3):
        peer.channel.get(queue, False)
    peer.feed(ack(1, 2))
    disk.sync(engine)
    made = []

    def declare(restarted: Engine) -> None:
        made.append(restarted.queue(1, "q", True))

    restarted, _, _ = recover(disk, declare)
    (again,) = made
    assert (again.ready_count, again.unacked_count) == (2, 0)
    assert again.totals.ready == 2
    other = Peer(restarted, {"q": again})
    assert other.drain(again) == [b"a", b"c"]
