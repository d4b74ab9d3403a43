"""The registry; `tests/management` has it over HTTP."""

import pytest
from tests.broker.peer import World
from tests.broker.recording import Recording

from leporid.amqp.errors import NotFound
from leporid.broker.filter.filter_classes import FilterClassConflict, FilterClasses
from leporid.broker.stored import StoredFilterClass
from leporid.durable import Change, Drop, Put
from leporid.filterserver.filter_class import FilterClass

FIRST = FilterClass("big", 1, "Filter", b"first")
SECOND = FilterClass("big", 2, "Filter", b"second")
OTHER = FilterClass("other", 5, "Filter", b"other")


class Registry(FilterClasses):
    """With what was recorded, and who was told of changes."""

    def __init__(self, *configured: FilterClass) -> None:
        self.records: list[Change] = []
        self.told: list[str] = []
        self.used: dict[str, list[str]] = {}
        super().__init__(configured, self.records.append, lambda name: self.used.get(name, []))
        self.changed = self.told.append


def test_a_new_class_is_recorded_and_told():
    registry = Registry()
    assert registry.put(FIRST)
    assert registry.require("big") is FIRST
    assert registry.records == [Put(StoredFilterClass("big", 1, "Filter", b"first"))]
    assert registry.told == ["big"]


def test_a_newer_version_replaces_the_old_one():
    registry = Registry()
    registry.put(FIRST)
    assert not registry.put(SECOND)
    assert registry.find("big") is SECOND
    assert registry.told == ["big", "big"]
    assert registry.next_version("big") == 3
    assert registry.next_version("new") == 1


def test_the_same_again_changes_nothing():
    registry = Registry()
    registry.put(FIRST)
    assert not registry.put(FilterClass("big", 1, "Filter", b"first"))
    assert len(registry.records) == len(registry.told) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (FIRST, "has version 2 already, which is newer than 1"),
        (FilterClass("big", 2, "Filter", b"another"), "needs a newer version"),
        (FilterClass("big", 2, "Another", b"second"), "needs a newer version"),
    ],
)
def test_a_version_is_never_another(given, said):
    registry = Registry()
    registry.put(SECOND)
    with pytest.raises(FilterClassConflict, match=said):
        registry.put(given)
    assert registry.find("big") is SECOND


def test_an_unknown_class_is_not_found():
    registry = Registry()
    assert registry.find("big") is None
    with pytest.raises(NotFound, match="no filter class 'big' is registered"):
        registry.require("big")
    with pytest.raises(NotFound):
        registry.drop("big")


def test_what_is_dropped_is_gone():
    registry = Registry()
    registry.put(FIRST)
    registry.drop("big")
    assert registry.find("big") is None
    assert registry.records[-1] == Drop(StoredFilterClass, ("big",))
    assert registry.told == ["big", "big"]


def test_what_is_used_stays():
    registry = Registry()
    registry.put(FIRST)
    registry.used["big"] = ["a", "b", "c", "d", "e"]
    with pytest.raises(FilterClassConflict, match="used by a, b, c, and more"):
        registry.drop("big")
    assert registry.find("big") is FIRST


def test_the_configuration_file_has_the_last_word():
    registry = Registry(SECOND)
    registry.restore(FIRST)
    registry.put(OTHER)
    assert registry.find("big") is SECOND
    assert list(registry) == [SECOND, OTHER]
    assert registry.is_configured("big")
    assert not registry.is_configured("other")
    for change in (lambda: registry.put(SECOND), lambda: registry.drop("big")):
        with pytest.raises(FilterClassConflict, match="set in the configuration file"):
            change()


def test_what_is_registered_is_there_after_a_restart():
    again = World()
    recording = Recording(["/"])
    recording.apply(Put(StoredFilterClass("big", 1, "Filter", b"first")))
    again.broker.restore(recording.snapshot())
    assert again.broker.filter_classes.find("big") == FIRST
