"""Confirms of one channel; the model is in tests/model/test_confirms_model.py."""

from __future__ import annotations

import pytest
from tests.engine.disk_fake import Disk
from tests.engine.frames import PERSISTENT, Confirm, publish
from tests.engine.slices import ended


@pytest.fixture
def durable(engine, peer):
    peer.queues["d"] = queue = engine.queue(1, "d", True)
    peer.channel.select_confirm()
    assert peer.channel.confirming
    return queue


LASTING = publish(1, "d", b"x", raw=PERSISTENT)
PASSING = publish(1, "q", b"x")


def test_what_does_not_last_is_confirmed_in_the_same_turn(durable, peer):
    peer.feed(PASSING)
    assert peer.events() == [Confirm(1, 1, False)]
    peer.feed(PASSING * 3 + publish(1, "d", b"x") + publish(1, "gone", b"", raw=PERSISTENT))
    assert peer.events() == [Confirm(1, 6, True)]


def test_what_lasts_is_confirmed_when_it_is_on_disk(engine, disk, durable, peer):
    peer.feed(LASTING * 3)
    assert engine.logs.awaited is True
    disk.begin(engine)
    assert peer.events() == []
    peer.feed(LASTING)
    disk.complete(engine)
    assert peer.events() == [Confirm(1, 3, True)]
    disk.sync(engine)
    assert peer.events() == [Confirm(1, 4, False)]
    assert engine.queues.confirmed == 4


def test_confirms_do_not_overtake_each_other(engine, disk, durable, peer):
    peer.feed(LASTING + PASSING * 2)
    assert peer.events() == []
    disk.sync(engine)
    assert peer.events() == [Confirm(1, 3, True)]


def test_confirming_begins_with_select(engine, durable, peer):
    peer.feed(publish(2, "q") * 5)
    peer.channels[2].select_confirm()
    peer.feed(publish(2, "q"))
    assert peer.events() == [Confirm(2, 1, False)]


def test_a_message_that_was_taken_meanwhile_is_confirmed_all_the_same(engine, disk, durable, peer):
    peer.feed(LASTING)
    assert ended(durable.purging()) == 1
    disk.sync(engine)
    assert peer.events() == [Confirm(1, 1, False)]


def test_nobody_is_confirmed_on_a_closed_channel(engine, disk, durable, peer):
    peer.feed(LASTING)
    peer.connection.refuse_channel(1)
    disk.sync(engine)
    assert peer.events() == []
    peer.connection.close_channel(1)
    peer.channels[1] = peer.connection.open_channel(1)
    peer.channel.select_confirm()
    peer.feed(PASSING)
    assert peer.events() == [Confirm(1, 1, False)]


def test_a_failing_disk_confirms_nothing(engine, durable, peer):
    disk = Disk()
    peer.feed(LASTING)
    disk.begin(engine)
    for _ in range(5):
        engine.clock.now_ms += 1000
        assert peer.events() == []
        peer.feed(LASTING)


def test_a_publish_that_is_refused_has_no_number(engine, durable, peer):
    peer.channels[2].select_confirm()
    peer.feed(publish(2, "q", exchange="none"))
    assert peer.events() == []
    peer.connection.close_channel(2)
    channel = peer.connection.open_channel(2)
    channel.select_confirm()
    peer.feed(publish(2, "q"))
    assert peer.events() == [Confirm(2, 1, False)]
