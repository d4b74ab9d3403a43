"""Changes, as whoever records them sees them."""

from __future__ import annotations

import dataclasses
import typing

import pytest

from leporid.broker import changes


def test_every_change_is_a_frozen_value_without_objects_of_the_broker():
    for change in typing.get_args(changes.Change):
        assert dataclasses.is_dataclass(change)
        hints = typing.get_type_hints(change)
        for field in dataclasses.fields(change):
            assert hints[field.name] in (str, int, bool, bytes, changes.DestinationKind)


def test_changes_are_compared_by_value_and_stay_as_they_are():
    change = changes.PutVhost("/")
    assert change == changes.PutVhost("/")
    assert len({change, changes.PutVhost("/"), changes.DropVhost("/")}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        change.name = "other"  # type: ignore[misc]
