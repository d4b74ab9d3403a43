"""What an archive is written to, whatever its format: files, and how far they reach.

Responsible for what all formats have in common, and for choosing one. Must not know Spark.

Invariant of every store: files and the position they reach are committed as one. A commit is made
only on top of the position that the writer knew; if somebody else has committed meanwhile it is a
`ConflictError`, and nothing has changed.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from leporid.spark.errors import OptionError, SparkSourceError
from leporid.spark.offsets import Offsets
from leporid.spark.pipelines.files import DataFile, sync
from leporid.spark.schema import nearest

FORMATS = ("delta", "iceberg")

# The format of archives that earlier versions wrote: Parquet files and a log of their own.
FORMER = "parquet"

# Appended to an archive's place: where records go that could not be decoded.
BAD_SUFFIX = "~dlq"

# Under this name a commit says how far it reaches.
ENDS = "leporid.ends"

# What every archive has in its folder, whatever its format.
SETTINGS = "_leporid/settings.json"


class ConflictError(SparkSourceError):
    """Somebody else has written to the archive since it was looked at."""


class StoreError(SparkSourceError):
    """An archive cannot be read, or not written to."""


class Store(ABC):
    """A table of files in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def folder(self) -> Path:
        """Where new files are written before they are committed."""
        return self.root / "files"

    @abstractmethod
    def ends(self) -> Offsets:
        """Return the position up to which records are in the table; empty if there is no table."""

    @abstractmethod
    def commit(self, files: Sequence[DataFile], before: Offsets, ends: Offsets) -> None:
        """Add files, and move the position from `before` to `ends`.

        A file without rows is not added: it only tells a new table its columns.

        Raises:
            ConflictError: the position is not `before` any more.
        """

    @abstractmethod
    def extend(self, columns: pa.Schema) -> None:
        """Add the columns, and fields of structs, that a table does not have; all are nullable.

        Nothing happens if there is no table yet, or it has them all.
        """

    @abstractmethod
    def state(
        self, first_us: int | None = None, last_us: int | None = None
    ) -> tuple[list[str], Offsets]:
        """Return the files to read, and the position they reach: both of one commit.

        Files that have nothing between the two times may be left out.
        """

    @abstractmethod
    def compact(self, files_min: int, bytes_max: int) -> int:
        """Replace small files by larger ones; return how many went."""

    @abstractmethod
    def vacuum(self, keep_seconds: float) -> int:
        """Remove files that nothing names and that are older; return how many."""


def open_store(place: str | Path, kind: str = FORMATS[0]) -> Store:
    """Return an archive of one of the formats; it need not exist yet.

    Raises:
        OptionError: there is no such format, or its library is missing.
    """
    root = Path(place).expanduser().absolute()
    try:
        if kind == "delta":
            from leporid.spark.pipelines.delta_store import DeltaStore

            return DeltaStore(root)
        if kind == "iceberg":
            from leporid.spark.pipelines.iceberg_store import IcebergStore

            return IcebergStore(root)
    except ImportError as error:
        raise OptionError(
            f"an archive in {kind} needs `pip install 'leporid[lake]'`: {error}"
        ) from None
    known = ", ".join(FORMATS)
    if kind == FORMER:
        raise OptionError(
            f"archives are not written as plain Parquet any more: choose from {known}; "
            f"to export one, `archived(spark, PLACE)[0].write.parquet(FOLDER)`"
        )
    raise OptionError(f"there is no format {kind!r}{nearest(kind, FORMATS)}; choose from {known}")


def settings_of(place: str | Path) -> dict[str, str]:
    """Return what was said when an archive was made: stream, kind, schema.

    Raises:
        StoreError: there is something else in the folder, or an archive of an earlier version.
    """
    root = Path(place).expanduser().absolute()
    path = root / SETTINGS
    if path.exists():
        settings = dict(json.loads(path.read_text(encoding="utf-8")))
        if settings["kind"] == FORMER:
            raise StoreError(
                f"{root} is an archive in the Parquet format of an earlier version, which is not "
                f"supported any more: `spark.read.parquet({str(root)!r})` has its rows; archive "
                f"the stream into another folder"
            )
        return settings
    # A run that was stopped right at its beginning leaves our own folder without settings.
    if root.is_dir() and any(each.name != path.parent.name for each in root.iterdir()):
        raise StoreError(f"{root} is not empty, and no archive: give a folder of its own")
    return {}


def keep_settings(place: str | Path, settings: dict[str, str]) -> None:
    """Write an archive's settings, before anything else is in its folder."""
    path = Path(place).expanduser().absolute() / SETTINGS
    path.parent.mkdir(parents=True, exist_ok=True)
    written(path.parent, json.dumps(settings, indent=1)).replace(path)
    sync(path.parent)


def existing(place: str | Path) -> tuple[Store, dict[str, str]]:
    """Open an archive that exists; return it and its settings.

    Raises:
        StoreError: there is none.
    """
    settings = settings_of(place)
    if not settings:
        raise StoreError(f"{place}: there is no archive; `leporid pipeline run archive` makes one")
    return open_store(place, settings["kind"]), settings


@contextmanager
def locked(place: str | Path) -> Iterator[None]:
    """Keep other writers of the archive out, as long as this process lives.

    Raises:
        ConflictError: somebody else writes to it.
    """
    path = Path(place).expanduser().absolute() / "_leporid" / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConflictError(f"{place}: another process is archiving here") from None
        yield


def check_position(root: Path, now: Offsets, before: Offsets) -> None:
    """Refuse to commit on top of another position than the writer knew.

    Raises:
        ConflictError: somebody else has committed.
    """
    if {key: at.offset for key, at in now.items()} != {
        key: at.offset for key, at in before.items()
    }:
        raise ConflictError(f"{root}: another process has archived here meanwhile")


def written(folder: Path, content: str | bytes) -> Path:
    """Write a draft, on disk when this returns."""
    path = folder / f".draft-{uuid.uuid4().hex}"
    with path.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    return path


def bad_place(place: str | Path) -> Path:
    """Return where an archive's bad records are."""
    root = Path(place).expanduser().absolute()
    return root.with_name(root.name + BAD_SUFFIX)
