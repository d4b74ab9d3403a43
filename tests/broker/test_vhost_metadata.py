"""What is said of a virtual host, recorded when it changes."""

from __future__ import annotations

from leporid.broker.stored import (
    Recorder,
    StoredVhostLimit,
    StoredVhostMetadata,
    StoredVhostProtection,
)
from leporid.broker.vhost_metadata import VhostMetadata
from leporid.durable import Change, Drop, Put


def test_what_the_default_virtual_host_is_said_to_be_may_be_taken_away():
    changes: list[Change] = []
    found = VhostMetadata("/", Recorder("/", changes.append), lambda: None, lambda: None)
    assert found.description == "Default virtual host"
    found.describe("", (), "")
    assert changes == [Put(StoredVhostMetadata("/", "", "", ""))]


def test_each_change_is_recorded_once_and_told():
    changes: list[Change] = []
    told: list[str] = []
    found = VhostMetadata(
        "v",
        Recorder("v", changes.append),
        lambda: told.append("described"),
        lambda: told.append("limited"),
    )
    for _ in range(2):
        found.describe("d", ["t"], "quorum")
        found.limit("max-queues", 5)
        found.protect(True)
    assert changes == [
        Put(StoredVhostMetadata("v", "d", "t", "quorum")),
        Put(StoredVhostLimit("v", "max-queues", 5)),
        Put(StoredVhostProtection("v")),
    ]
    assert told == ["described", "limited"]
    changes.clear()
    for _ in range(2):
        found.unlimit("max-queues")
        found.protect(False)
    assert changes == [
        Drop(StoredVhostLimit, ("v", "max-queues")),
        Drop(StoredVhostProtection, ("v",)),
    ]
