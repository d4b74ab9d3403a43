"""A sync of very many streams is no long piece of work, before the disk or after it."""

from __future__ import annotations

import pytest
from tests.engine.disk_fake import Disk
from tests.engine.frames import PERSISTENT, publish
from tests.engine.session_fake import Peer, make_engine
from tests.engine.slices import SOME, cut_often, steps_of

from leporid.engine.engine import Engine
from leporid.engine.stream.stream import Stream

COUNT = 2000


def written_to() -> tuple[Engine, Disk, dict[str, Stream], Peer]:
    """Return an engine with streams that each have a message, which no disk has."""
    engine, disk = make_engine(), Disk()
    disk.attach(engine)
    streams = {f"s{at}": engine.stream(at + 1, f"s{at}") for at in range(COUNT)}
    peer = Peer(engine, dict(streams))
    peer.feed(*(publish(1, name, b"m", raw=PERSISTENT) for name in streams))
    cut_often(engine)
    return engine, disk, streams, peer


def test_streams_of_a_sync_are_collected_and_noted_in_steps():
    engine, disk, streams, _ = written_to()
    assert disk.close(engine)
    steps = 1
    while not disk.collect(engine):
        assert engine.busy
        steps += 1
    assert steps >= COUNT // SOME
    assert sum(stream.end for stream in streams.values()) == 0
    disk.complete(engine, whole=False)
    readable = [0]
    while engine.noting_streams:
        engine.run()
        readable.append(sum(stream.end for stream in streams.values()))
    assert readable[-1] == COUNT
    assert len(readable) > COUNT // SOME
    assert not disk.begin(engine)


def test_the_next_generation_is_closed_when_the_last_one_is_noted():
    engine, disk, streams, peer = written_to()
    disk.begin(engine)
    disk.complete(engine, whole=False)
    peer.feed(publish(1, "s0", b"n", raw=PERSISTENT))
    disk.sync(engine)
    assert [stream.end for stream in streams.values()] == [2] + [1] * (COUNT - 1)


def test_a_stream_that_is_deleted_meanwhile_is_written():
    """Its messages are confirmed with this generation, its deletion is of the next one."""
    engine, disk, streams, _ = written_to()
    disk.close(engine)
    assert not disk.collect(engine)
    last = streams.popitem()[1]
    last.retire()
    while not disk.collect(engine):
        pass
    disk.complete(engine)
    assert b"m" in disk.streams[COUNT][1]
    disk.sync(engine)
    assert set(disk.streams) == set(range(1, COUNT))


@pytest.mark.parametrize("log", ["queues", "stream"])
def test_segments_of_a_sync_are_read_from_their_files_one_after_the_other(log: str):
    """To free the memory of one takes milliseconds, and a second of publishing fills a dozen."""
    engine, disk = make_engine(durable_segment_bytes=4096), Disk()
    disk.attach(engine)
    stream = engine.stream(1, "q") if log == "stream" else None
    if stream is not None:
        stream.set_retention(segment_bytes=4096)
    target = stream or engine.queue(1, "q", True)
    Peer(engine, {"q": target}).feed(publish(1, "q", bytes(3000), raw=PERSISTENT) * 40)
    segments = (engine.logs.durable if stream is None else stream.log).segments

    def mapped() -> int:
        return sum(bool(each and each.mapped) for each in segments)

    cut_often(engine, units=1)
    disk.begin(engine)
    disk.complete(engine, whole=False)
    steps = [mapped(), *steps_of(engine, mapped)]
    assert max(steps) <= 2
    assert mapped() >= 39
