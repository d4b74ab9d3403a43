"""What an archive is written to, whatever its format: files, and how far they reach.

Responsible for what all formats have in common, and for choosing one. Must not know Spark.

Invariant of every store: files and the position they reach are committed as one. A commit is made
only on top of the position that the writer knew; if somebody else has moved it meanwhile it is a
`ConflictError`, and nothing has changed. A commit that another one overtakes, and whose position or
note is still the one that the writer knew, is made again on top of that one.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ParamSpec, TypeVar

import pyarrow as pa

from leporid.spark.errors import OptionError, SparkSourceError
from leporid.spark.offsets import Offsets
from leporid.spark.pipelines.files import DATE, PARTITIONS, DataFile, column_of
from leporid.spark.pipelines.places import Place, place_of
from leporid.spark.schema import COLUMNS, nearest

FORMATS = ("delta", "iceberg")

# The format of archives that earlier versions wrote: Parquet files and a log of their own.
FORMER = "parquet"

# Appended to an archive's place, and to its name in a catalog: where records go that could not be
# decoded.
BAD_SUFFIX = "~dlq"
BAD_TABLE_SUFFIX = "_dlq"

# What compaction replaced stays for readers that have begun with it, or whose checkpoint is before
# it. Each of Iceberg's snapshots is in the metadata that each commit writes anew, so there are few.
KEEP_SECONDS = {"delta": 7 * 86400.0, "iceberg": 3600.0}

# Under this name a commit says how far it reaches.
ENDS = "leporid.ends"

# Under this name a commit says which records came from the table of bad ones; see `reprocess`.
NOTE = "leporid.reprocessed"

# So often a commit is tried that others overtake.
ATTEMPTS_MAX = 10

P = ParamSpec("P")
R = TypeVar("R")

# What every archive has in its folder, whatever its format.
OWN = "_leporid"
SETTINGS = f"{OWN}/settings.json"
# Written before Spark starts, to know that a place can be written to.
PROBE = f"{OWN}/probe"

# Options of catalogs that are nobody else's business, and so neither kept nor on a command line.
SECRET = re.compile(
    r"secret|passw|token|credential|session|api-?key|account-key|private-key|connection-string"
    r"|authorization",
    re.IGNORECASE,
)
SECRET_IN_URI = re.compile(r"://[^/@]*:[^/@]+@")


class ConflictError(SparkSourceError):
    """Somebody else has written to the archive since it was looked at."""


class OvertakenError(ConflictError):
    """Another commit came between the reading of a table and this commit."""


class StoreError(SparkSourceError):
    """An archive cannot be read, or not written to."""


class MissingArchiveError(StoreError):
    """There is no archive in a place."""


@dataclass(frozen=True)
class Layout:
    """How a table is divided, and where it has a name.

    Attributes:
        partition_by: date, hour, partition, exchange, routing_key, value.FIELD.
        catalog: the name that PyIceberg's configuration has for it; None if the table has a
            catalog of its own, in its folder.
        table: NAMESPACE.NAME in that catalog.
        options: of the catalog, besides what PyIceberg's configuration says of it.
    """

    partition_by: tuple[str, ...] = (DATE,)
    catalog: str | None = None
    table: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def check(self, place: Place, kind: str) -> None:
        """Refuse what does not go together.

        Raises:
            OptionError: what, and what to do.
        """
        self._check_partitions(kind)
        self._check_catalog(place, kind)

    def _check_partitions(self, kind: str) -> None:
        for name in self.partition_by:
            if name not in PARTITIONS and not re.fullmatch(r"value\.\w+", name):
                raise OptionError(
                    f"a table cannot be partitioned by {name!r}{nearest(name, PARTITIONS)}; choose "
                    f"from {', '.join(PARTITIONS)}, value.FIELD"
                )
            # PyIceberg takes a file's partition from its statistics, and has none of inner fields.
            if name not in PARTITIONS and kind == "iceberg":
                raise OptionError(
                    f"Iceberg tables are partitioned by {', '.join(PARTITIONS)}, not by {name!r}: "
                    f"take one of these, or Delta"
                )
            if name not in PARTITIONS and column_of(name) in {*COLUMNS.names, "value"}:
                raise OptionError(f"partitions by {name!r} would hide the column of that name")
        columns = set(map(column_of, self.partition_by))
        if not columns or len(columns) < len(self.partition_by):
            raise OptionError(f"partitions by {', '.join(self.partition_by)!r}: name each once")

    def _check_catalog(self, place: Place, kind: str) -> None:
        if self.catalog is None and (self.table or self.options):
            raise OptionError("a table's name and a catalog's options need the catalog's name")
        if self.catalog is None:
            if kind == "iceberg" and place.path is None:
                raise OptionError(
                    f"{place}: an Iceberg table in an object store needs a catalog: name one that "
                    f"is in ~/.pyiceberg.yaml, and the table; or take Delta, which needs none"
                )
            return
        if kind != "iceberg":
            raise OptionError(f"catalogs are for Iceberg tables: an archive in {kind} has none")
        if self.table is None or not re.fullmatch(r"[\w-]+(\.[\w-]+)+", self.table):
            raise OptionError(
                f"in the catalog {self.catalog!r} a table needs a name NAMESPACE.NAME, not "
                f"{self.table or ''!r}"
            )
        for name, value in self.options.items():
            query = value.partition("?")[2]
            if SECRET.search(name) or SECRET_IN_URI.search(value) or SECRET.search(query):
                raise OptionError(
                    f"the catalog's option {name!r} is a secret: keep it in ~/.pyiceberg.yaml or "
                    f"in a variable PYICEBERG_CATALOG__{self.catalog.upper()}__…"
                )

    def of_bad(self) -> Layout:
        """Return the layout of the table with the records that could not be decoded."""
        table = None if self.table is None else self.table + BAD_TABLE_SUFFIX
        return replace(self, partition_by=(DATE,), table=table)

    def settings(self) -> dict[str, str]:
        """Return what of it is kept with the table; nothing of the usual one."""
        found = (
            {"partition_by": ",".join(self.partition_by)} if self.partition_by != (DATE,) else {}
        )
        if self.catalog is not None:
            found |= {"catalog": self.catalog, "table": self.table or ""}
        return found | ({"catalog_options": json.dumps(self.options)} if self.options else {})


def layout_of(settings: Mapping[str, str]) -> Layout:
    """Return the layout of an archive that exists."""
    return Layout(
        tuple(settings.get("partition_by", DATE).split(",")),
        settings.get("catalog"),
        settings.get("table"),
        json.loads(settings.get("catalog_options", "{}")),
    )


def select_of(settings: Mapping[str, str]) -> dict[str, str]:
    """Return which records of its stream an archive has: options of the data source."""
    found: dict[str, str] = json.loads(settings.get("select", "{}"))
    return found


class Store(ABC):
    """A table of files in a folder."""

    def __init__(self, root: Path | Place, layout: Layout | None = None) -> None:
        self.root = place_of(root)
        self.layout = layout or Layout()

    @property
    def folder(self) -> Place:
        """Where new files are written before they are committed."""
        return self.root / "files"

    def check(self) -> None:
        """Refuse a place that cannot be written to, as far as that can be known.

        Raises:
            PlaceError: its file system or object store refuses.
        """
        self.root.check(PROBE)

    @abstractmethod
    def ends(self) -> Offsets:
        """Return the position up to which records are in the table; empty if there is no table."""

    @abstractmethod
    def commit(
        self, files: Sequence[DataFile], before: Offsets, ends: Offsets, settled: str = ""
    ) -> None:
        """Add files, and move the position from `before` to `ends`; the note stays.

        A file without rows is not added: it only tells a new table its columns.

        Args:
            files: to be added.
            before: the position that the writer knows.
            ends: the position that the files reach.
            settled: the note that was carried out; it need not be kept in full.

        Raises:
            ConflictError: the position is not `before` any more.
        """

    @abstractmethod
    def note(self) -> str:
        """Return the note of the newest commit that says how far the table reaches."""

    @abstractmethod
    def add(self, files: Sequence[DataFile], before: str, note: str) -> None:
        """Add files with a note, and leave the position as it is.

        Raises:
            ConflictError: the newest note is not `before` any more.
        """

    @abstractmethod
    def replace(self, gone: Sequence[str], files: Sequence[DataFile], note: str) -> None:
        """Take files out of the table, by their names, and add others with a note.

        The position stays.

        Raises:
            ConflictError: one of them is not in the table any more.
        """

    @abstractmethod
    def extend(self, columns: pa.Schema) -> None:
        """Add the columns, and fields of structs, that a table does not have; all are nullable.

        A table in Iceberg gives fields wider types, too. Nothing happens if there is no table yet,
        or it has them all.
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


def open_store(
    place: str | Path | Place, kind: str = FORMATS[0], layout: Layout | None = None
) -> Store:
    """Return an archive of one of the formats; it need not exist yet.

    Raises:
        OptionError: there is no such format, its library is missing, or it has no such layout.
    """
    root = place_of(place)
    known = ", ".join(FORMATS)
    if kind == FORMER:
        raise OptionError(
            f"archives are not written as plain Parquet any more: choose from {known}; "
            f"to export one, `archived(spark, PLACE)[0].write.parquet(FOLDER)`"
        )
    if kind not in FORMATS:
        near = nearest(kind, FORMATS)
        raise OptionError(f"there is no format {kind!r}{near}; choose from {known}")
    layout = layout or Layout()
    layout.check(root, kind)
    try:
        if kind == "delta":
            from leporid.spark.pipelines.delta_store import DeltaStore

            return DeltaStore(root, layout)
        from leporid.spark.pipelines.iceberg_store import IcebergStore

        return IcebergStore(root, layout)
    except ImportError as error:
        raise OptionError(
            f"an archive in {kind} needs `pip install 'leporid[lake]'`: {error}"
        ) from None


def settings_of(place: str | Path | Place) -> dict[str, str]:
    """Return what was said when an archive was made: stream, kind, schema.

    Raises:
        StoreError: there is something else in the folder, or an archive of an earlier version.
        PlaceError: the object store refuses, or cannot be reached.
    """
    root = place_of(place)
    content = (root / SETTINGS).read()
    if content is not None:
        settings = dict(json.loads(content))
        if settings["kind"] == FORMER:
            raise StoreError(
                f"{root} is an archive in the Parquet format of an earlier version, which is not "
                f"supported any more: `spark.read.parquet({str(root)!r})` has its rows; archive "
                f"the stream into another folder"
            )
        return settings
    # A run that was stopped right at its beginning leaves our own folder without settings.
    if any(name != OWN for name in root.names()):
        raise StoreError(f"{root} is not empty, and no archive: give a folder of its own")
    return {}


def keep_settings(place: str | Path | Place, settings: dict[str, str]) -> None:
    """Write an archive's settings, before anything else is in its folder."""
    (place_of(place) / SETTINGS).write(json.dumps(settings, indent=1).encode())


def existing(place: str | Path | Place) -> tuple[Store, dict[str, str]]:
    """Open an archive that exists; return it and its settings.

    Raises:
        MissingArchiveError: there is none.
    """
    settings = settings_of(place)
    if not settings:
        raise MissingArchiveError(
            f"{place}: there is no archive; `leporid pipeline run archive` makes one"
        )
    return open_store(place, settings["kind"], layout_of(settings)), settings


@contextmanager
def locked(place: str | Path | Place) -> Iterator[None]:
    """Keep other writers of the archive out, as long as this process lives.

    An object store has no locks. There, of two writers one is refused when it commits, and its
    step was in vain.

    Raises:
        ConflictError: somebody else writes to it.
    """
    own = place_of(place).path
    if own is None:
        yield
        return
    path = own / OWN / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConflictError(f"{place}: another process is archiving here") from None
        yield


def check_position(root: Place, now: Offsets, before: Offsets) -> None:
    """Refuse to commit on top of another position than the writer knew.

    Raises:
        ConflictError: somebody else has committed.
    """
    if {key: at.offset for key, at in now.items()} != {
        key: at.offset for key, at in before.items()
    }:
        raise ConflictError(f"{root}: another process has archived here meanwhile")


def check_note(root: Place, now: str, before: str) -> None:
    """Refuse to commit on top of another note than the writer knew.

    Raises:
        ConflictError: somebody else has committed.
    """
    if fence(now) != fence(before):
        raise ConflictError(f"{root}: another process has reprocessed here meanwhile")


def fence(note: str) -> str:
    """Return what tells a note from all others, also if it is shortened; empty of none."""
    if not note:
        return ""
    settled: str | None = json.loads(note).get("settled")
    return hashlib.sha256(note.encode()).hexdigest() if settled is None else settled


def shortened(note: str) -> str:
    """Return a note that was carried out: only which one it was."""
    return json.dumps({"gone": [], "files": [], "settled": fence(note)}) if note else ""


def kept_note(note: str, settled: str) -> str:
    """Return the note that the next commit has: the same one, short if it was carried out.

    It is never left out. Two runs without a lock that knew no note would both be let through.
    """
    return shortened(note) if fence(note) == fence(settled) else note


def retried(method: Callable[P, R]) -> Callable[P, R]:
    """Have a commit made again that another one has overtaken; it looks at the table anew."""

    @functools.wraps(method)
    def call(*args: P.args, **more: P.kwargs) -> R:
        for _ in range(ATTEMPTS_MAX - 1):
            with suppress(OvertakenError):
                return method(*args, **more)
        return method(*args, **more)

    return call


def check_gone(root: Place, names: Iterable[str], gone: Iterable[str]) -> None:
    """Refuse to take files out that are not in a table.

    Raises:
        ConflictError: somebody else has committed.
    """
    missing = set(gone).difference(names)
    if missing:
        raise ConflictError(f"{root}: {min(missing)} is not in the table any more")


def bad_place(place: str | Path | Place) -> Place:
    """Return where an archive's bad records are."""
    return place_of(place).with_suffix(BAD_SUFFIX)
