"""What every filter has in common, by the one that lets everything pass."""

from __future__ import annotations

from threading import Thread

import pytest
from tests.engine.disk_fake import Disk
from tests.engine.frames import publish
from tests.engine.session_fake import Peer, make_engine
from tests.engine.stream_world import World

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value
from leporid.engine.selectors.filter import Filter
from leporid.engine.selectors.selector import Selector
from leporid.engine.selectors.tags import Tags
from leporid.engine.stream.stream import Stream
from leporid.filters.compiler import program

EMPTY = encode_properties(Properties())


@pytest.fixture
def stream() -> Stream:
    """A hundred messages whose header n counts them, every tenth with tag A."""
    engine, disk = make_engine(), Disk()
    disk.attach(engine)
    stream: Stream = engine.stream(1, "s")
    stream.set_retention(segment_bytes=4096)
    peer = Peer(engine, {"s": stream})
    for number in range(100):
        headers: dict[str, Value] = {"n": number}
        if number % 10 == 0:
            headers["x-tag"] = "A"
        raw = encode_properties(Properties(headers=headers, delivery_mode=2))
        peer.feed(publish(1, "s", bytes(100), raw=raw))
    disk.sync(engine)
    engine.run()
    return stream


def test_everything_passes_where_nothing_is_asked_for():
    assert Filter().outcome("exchange", "key", EMPTY) == 1
    assert Filter().matches_message("", "", b"what is this")


def test_names_that_no_message_has_are_refused():
    with pytest.raises(ValueError, match="longer than 255 bytes"):
        Filter().outcome("é" * 128, "", EMPTY)
    with pytest.raises(ValueError, match="longer than 255 bytes"):
        Filter().outcome("", "é" * 128, EMPTY)


def test_counts_what_passes_of_a_window(stream):
    with stream.window(0, 100, 100, 1 << 20) as window:
        assert Filter().count_in(window) == 100
        assert Tags([b"A"]).count_in(window) == 10
        assert Selector(program("n >= 90").code).count_in(window) == 10
        assert Selector(program("routing_key = 's'").code).count_in(window) == 100
    with stream.window(5, 16, 100, 1 << 20) as window:
        assert Tags([b"A"]).count_in(window) == 1


def test_counts_messages_and_no_facts_between_them():
    world = World()
    for number in range(3000):
        world.send(b"%d" % number)
        if number % 97 == 0:
            world.sync()
    world.sync()
    with world.stream.window(0, 3000, 3000, 1 << 20) as window:
        assert window.rows == 3000
        assert Filter().count_in(window) == 3000


def test_type_errors_are_counted_on_any_thread(stream):
    selector = Selector(program("n > 'a'").code)
    assert selector.type_errors == 0
    with stream.window(0, 100, 100, 1 << 20) as window:
        threads = [Thread(target=selector.count_in, args=(window,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert selector.type_errors == 400


def test_a_window_of_nothing_has_nothing_that_passes():
    world = World()
    with world.stream.window(0, 0, 1, 1) as window:
        assert Filter().count_in(window) == 0
