"""Filter classes in the configuration file: `[[filter_classes]]` and `[filter_server]`.

Responsible for turning these tables into classes and limits, with messages for the author of the
file. Must not run a source. Invariant: a class that is configured was read from its file, whole.
"""

# ruff: noqa: RUF009 - `setting` is dataclasses.field with a check
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leporid.filterserver.filter_class import VERSION_MAX, FilterClass, FilterClassError
from leporid.filterserver.host import ProcessLimits
from leporid.server.settings import (
    Check,
    ConfigError,
    flag,
    many,
    name,
    read,
    refusal,
    section,
    setting,
    size,
    whole,
)

# Below this, Python itself does not start.
MEMORY_LEAST = 64 * 2**20
MEMORY_MOST = 2**50


def _text(path: str, value: Any) -> str:
    if not isinstance(value, str):
        raise refusal(path, value, "must be a text")
    return value


def _file(path: str, value: Any) -> Path:
    file = Path(value).expanduser() if isinstance(value, str) and "\0" not in value else Path()
    if not file.is_absolute():
        raise refusal(path, value, 'must be an absolute path, or one that begins with "~/"')
    return file


@dataclass(frozen=True, slots=True)
class _Settings:
    """One table."""

    name: str = setting(name)
    version: int = setting(whole(1, VERSION_MAX))
    file: Path = setting(_file)
    # `class` is no name for a field.
    class_name: str = setting(_text, "Filter")


@dataclass(frozen=True, slots=True)
class FilterServer:
    """`[filter_server]`: what the process of each filter class may use, and who registers them."""

    memory_max: int = setting(
        size(MEMORY_LEAST, MEMORY_MOST),
        512 * 2**20,
        "memory (address space); above it the filter gets a `MemoryError`. A filter that reads "
        "bodies needs three times the size of the largest",
        unit="bytes",
    )
    # A batch has a few hundred messages.
    batch_seconds: int = setting(
        whole(1, 3600), 5, "time to judge one batch of messages", unit="seconds"
    )
    load_seconds: int = setting(
        whole(1, 3600), 10, "time to import the class and make an object of it", unit="seconds"
    )
    allow_guest: bool = setting(
        flag,
        False,
        "whether the user `guest`, whose password everybody knows, may register classes over HTTP",
    )

    @property
    def limits(self) -> ProcessLimits:
        """As the filter server takes them."""
        return ProcessLimits(self.memory_max, float(self.batch_seconds), float(self.load_seconds))


filter_server: Check[FilterServer] = section(FilterServer)


def filter_classes(path: str, value: Any) -> tuple[FilterClass, ...]:
    """Allow a list of tables, each a class, no two of one name; reads their files."""
    found = many(_class)(path, value)
    for at, one in enumerate(found):
        if one.name in (each.name for each in found[:at]):
            there = f"there is a filter class '{one.name}' already"
            raise ConfigError(f"{path}[{at}]: {there}", f"{path}[{at}]")
    return found


def _class(path: str, value: Any) -> FilterClass:
    if not isinstance(value, dict):
        raise refusal(path, value, "must be a table of settings")
    if "class_name" in value:
        key = f"{path}.class_name"
        raise ConfigError(f'{key}: unknown setting; did you mean "class"?', key)
    values = {"class_name" if key == "class" else key: each for key, each in value.items()}
    given = read(_Settings, values, path)
    try:
        return FilterClass(given.name, given.version, given.class_name, given.file.read_bytes())
    except OSError as error:
        reason = error.strerror or error
        key = f"{path}.file"
        raise ConfigError(f"{key}: {given.file} cannot be read: {reason}", key) from None
    except FilterClassError as error:
        raise ConfigError(f"{path}: {error}", path) from None
