from pathlib import Path
from typing import Any

import pytest

from leporid.filterserver.filter_class import FilterClass
from leporid.filterserver.host import ProcessLimits
from leporid.server.config import Config, load
from leporid.server.settings import ConfigError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "big.py"
    path.write_bytes(b"class Filter: ...\n")
    return path


def loaded(*tables: dict[str, Any], **more: Any) -> Config:
    return load(None, {"filter_classes": list(tables), **more})


def test_a_class_is_read_from_its_file(source: Path):
    config = loaded(
        {"name": "big", "version": 3, "file": str(source)},
        {"name": "small", "version": 1, "file": str(source), "class": "Small"},
    )
    assert config.filter_classes == (
        FilterClass("big", 3, "Filter", b"class Filter: ...\n"),
        FilterClass("small", 1, "Small", b"class Filter: ...\n"),
    )


def test_limits_have_names_of_their_own():
    config = load(
        None,
        {"filter_server": {"memory_max": "1 GiB", "batch_seconds": 2, "load_seconds": 30}},
    )
    assert config.filter_server.limits == ProcessLimits(2**30, 2.0, 30.0)
    assert load(None).filter_server.limits == ProcessLimits()


def test_guest_registers_classes_only_if_that_is_said():
    assert not load(None).filter_server.allow_guest
    assert load(None, {"filter_server": {"allow_guest": True}}).filter_server.allow_guest


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"file": "big.py"}, "must be an absolute path"),
        ({"file": 5}, "must be an absolute path"),
        ({"version": 0}, "version = 0: must be a whole number from 1"),
        ({"class": "no name"}, "'no name' is no name of a class in Python"),
        ({"class_name": "Filter"}, 'did you mean "class"?'),
        ({"name": ""}, "1 to 255 bytes"),
        ({"vhost": "/"}, "vhost: unknown setting"),
    ],
)
def test_what_is_no_class_is_refused(source: Path, changed: dict[str, Any], said: str):
    right = {"name": "big", "version": 3, "file": str(source)}
    with pytest.raises(ConfigError) as caught:
        loaded(right | changed)
    assert said in str(caught.value)
    assert str(caught.value).startswith("filter_classes[0]")


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    path = tmp_path / "gone.py"
    with pytest.raises(ConfigError, match=r"gone\.py cannot be read: No such file"):
        loaded({"name": "big", "version": 3, "file": str(path)})


def test_no_two_have_one_name(source: Path):
    one = {"name": "big", "version": 3, "file": str(source)}
    with pytest.raises(ConfigError, match="there is a filter class 'big' already"):
        loaded(one, one)


def test_a_list_of_tables_is_wanted():
    with pytest.raises(ConfigError, match="must be a table of settings"):
        load(None, {"filter_classes": ["big.py"]})
