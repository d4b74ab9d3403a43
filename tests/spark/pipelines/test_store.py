import pytest
from tests.spark.pipelines.stores import ends

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.places import place_of
from leporid.spark.pipelines.store import (
    ConflictError,
    StoreError,
    bad_place,
    check_position,
    existing,
    keep_settings,
    locked,
    open_store,
    settings_of,
)

SETTINGS = {"stream": "s", "kind": "delta", "schema": ""}


def test_settings_are_kept(tmp_path):
    assert settings_of(tmp_path / "a") == {}
    keep_settings(tmp_path / "a", SETTINGS)
    assert settings_of(tmp_path / "a") == SETTINGS
    assert existing(tmp_path / "a")[0].root == place_of(tmp_path / "a")


def test_a_folder_with_something_else_is_no_place(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="is not empty"):
        settings_of(tmp_path)


def test_a_run_that_was_stopped_at_its_beginning_is_no_hindrance(tmp_path):
    with locked(tmp_path / "a"):
        pass
    assert settings_of(tmp_path / "a") == {}


def test_what_is_not_there_cannot_be_read(tmp_path):
    with pytest.raises(StoreError, match="there is no archive"):
        existing(tmp_path / "a")


def test_two_writers_do_not_meet(tmp_path):
    with locked(tmp_path), pytest.raises(ConflictError, match="another process"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_an_unknown_format_is_named_with_the_nearest(tmp_path):
    with pytest.raises(OptionError, match=r'"delta"'):
        open_store(tmp_path, "detla")


def test_plain_parquet_is_refused_with_what_to_do_instead(tmp_path):
    with pytest.raises(OptionError, match=r"choose from delta, iceberg; to export one.*parquet"):
        open_store(tmp_path / "a", "parquet")


def test_an_archive_of_the_former_format_is_refused(tmp_path):
    keep_settings(tmp_path, SETTINGS | {"kind": "parquet"})
    for read in (existing, settings_of):
        with pytest.raises(StoreError, match=r"earlier version.*spark.read.parquet.*another fold"):
            read(tmp_path)


def test_a_commit_knows_what_it_is_on(tmp_path):
    check_position(place_of(tmp_path), ends(3), ends(3))
    check_position(place_of(tmp_path), {}, {})
    for before in (ends(2), {}):
        with pytest.raises(ConflictError):
            check_position(place_of(tmp_path), ends(3), before)


def test_bad_records_are_beside(tmp_path):
    assert bad_place(tmp_path / "orders") == place_of(tmp_path / "orders~dlq")
