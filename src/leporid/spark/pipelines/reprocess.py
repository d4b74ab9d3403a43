"""Records that could not be decoded, decoded again: after a schema was added or mended.

A step reads some files of the table of bad records, without Spark. What can be decoded now goes
into the archive; the rest stays, in new files if it was beside such records. Two tables change, and
a commit changes one: the archive's commit has the records, and a note that says which files of the
other table have to be replaced by which. The note is carried out next, by this step or, if it was
killed, by whoever opens the archive for writing (`settle`); readers take it for carried out.

In an object store nothing keeps `archive`, `compact` and a second run out. Each commit of the
archive keeps the note, so a step is refused whose note is not the newest any more. The commit that
carries a note out leaves it, shortened, with the table of bad records: a note is settled once both
tables have the same. If the files of a note were merged before it was carried out, their records
are found by their offsets.

Invariant: a record is in the archive or among the bad ones, and never in both, as a reader sees
them; a step that finds nothing to decode changes nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from leporid.spark.offsets import Offsets
from leporid.spark.pipelines.bodies.decoder import (
    Body,
    Decoder,
    body_of,
    check_libraries,
    with_reader,
)
from leporid.spark.pipelines.decoding import REASON
from leporid.spark.pipelines.evolution import extended
from leporid.spark.pipelines.files import DataFile, Partitions, in_utc
from leporid.spark.pipelines.places import Place, place_of
from leporid.spark.pipelines.runner import Step
from leporid.spark.pipelines.store import (
    ATTEMPTS_MAX,
    ConflictError,
    Store,
    StoreError,
    bad_place,
    existing,
    fence,
    keep_settings,
    locked,
    settings_of,
    shortened,
)

log = logging.getLogger(__name__)

# Files are taken together in a step up to so many records: some seconds of work.
STEP_ROWS = 200_000
# So many at most: a commit's note has their names.
STEP_FILES = 1_000
# Records that are in memory at once.
BATCH_ROWS = 10_000

# For a place that was archived to without a schema.
NO_SCHEMA = "was made without a schema: nothing was decoded, and nothing put aside"


@dataclass(frozen=True)
class PendingReplacement:
    """What has to become of the table of bad records.

    Attributes:
        gone: names of files to be taken out.
        files: files to be added instead.
        good: names of the archive's files with what could be decoded.
    """

    gone: list[str]
    files: list[DataFile]
    good: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, text: str) -> PendingReplacement | None:
        """Read a commit's note; None if it has none."""
        if not text:
            return None
        content = json.loads(text)
        files = [DataFile(**each) for each in content["files"]]
        return cls(content["gone"], files, content.get("good", []))

    def text(self) -> str:
        """Return it as a commit has it."""
        return json.dumps(asdict(self))


def settle(store: Store, bad: Store) -> str:
    """Carry out the note of a step that was killed between its two commits.

    Return the note, which is settled now; empty if no step of this module has committed yet.
    """
    text = store.note()
    pending = PendingReplacement.of(text)
    # A note that was shortened is settled, as is one without files.
    if pending is not None and pending.gone and carry_out(pending, text, store, bad):
        log.info("%s: finished what an earlier run had begun", bad.root)
    return text


def carry_out(pending: PendingReplacement, text: str, store: Store, bad: Store) -> bool:
    """Replace what a note says in the table of bad records; return whether that was to be done.

    Raises:
        ConflictError: others have changed the table again and again.
    """
    for left in reversed(range(ATTEMPTS_MAX)):
        if fence(bad.note()) == fence(text):
            return False
        names = set(map(name_of, bad.state()[0]))
        try:
            if names.issuperset(pending.gone):
                bad.replace(pending.gone, pending.files, shortened(text))
            elif pending.good:
                # Somebody has merged the files: what is decoded is found by its offsets.
                bad.replace(*_without(moved(store, pending), bad), shortened(text))
            else:
                # Carried out by a version that left no note with the table.
                return False
        except ConflictError:
            if not left:
                raise
        else:
            return True
    return False


def moved(store: Store, pending: PendingReplacement) -> dict[int, list[int]]:
    """Return the offsets that a note's step has decoded, by partition."""
    return offsets_in(str(store.folder / name) for name in pending.good)


def _without(offsets: Mapping[int, list[int]], bad: Store) -> tuple[list[str], list[DataFile]]:
    """Write the files anew that have records at such offsets; return the old and the new ones."""
    gone: list[str] = []
    rest = Partitions(bad.folder, bad.layout.partition_by)
    for path in bad.state()[0]:
        batches = list(batches_of(path))
        found = [at_any(batch, offsets) for batch in batches]
        if any(pc.any(each).as_py() for each in found):
            gone.append(name_of(path))
            for batch, mine in zip(batches, found, strict=True):
                rest.add(batch.filter(pc.invert(mine)))
    return gone, rest.close()


def paths_of(store: Store, bad: Store, paths: Sequence[str]) -> list[str]:
    """Return a bad table's files as they are when the archive's note is carried out."""
    pending = PendingReplacement.of(store.note())
    names = set(map(name_of, paths))
    if pending is None or not names.intersection(pending.gone):
        return list(paths)
    kept = [path for path in paths if name_of(path) not in pending.gone]
    return [*kept, *(str(bad.folder / file.name) for file in pending.files if file.rows)]


def name_of(path: str) -> str:
    """Return a file's name, of its path or URL."""
    return path.rpartition("/")[2]


@dataclass
class Reprocess:
    """The pipeline `reprocess`.

    Attributes:
        place: of the archive.
        body: where schemas are now, and whose they are; None is what the archive has.
    """

    place: str | Path | Place
    body: Body | None = None
    interval_seconds: float = 600.0
    name: str = "reprocess"
    # Never needed.
    spark: Any = None
    # Files that this run has looked at, and has left as they are.
    _seen: set[str] = field(default_factory=set, repr=False)

    @property
    def labels(self) -> Mapping[str, str]:
        """Say which archive it is, for metrics."""
        return {"stream": "", "vhost": "", "target": str(self.place)}

    def check(self) -> None:
        """Refuse a place without an archive, and schemas that are not there."""
        self._body(existing(self.place)[1])

    def describe(self) -> list[str]:
        """Say what a run would do."""
        _, bad, _ = self._open()
        rows = sum(rows_of(path) for path in bad.state()[0])
        return [f"{rows:,} records of {bad.root} are decoded again, into {self.place}"]

    def wait(self, seconds: float) -> None:
        """Return at once: what a fix is, nobody says."""

    def _open(self) -> tuple[Store, Store, dict[str, str]]:
        store, settings = existing(self.place)
        if not settings["schema"]:
            raise StoreError(f"{self.place} {NO_SCHEMA}")
        return store, existing(bad_place(self.place))[0], settings

    def _body(self, settings: Mapping[str, str]) -> Body:
        """Return how bodies are decoded now, with the columns that the archive has to have."""
        if not settings["schema"]:
            raise StoreError(f"{self.place} {NO_SCHEMA}")
        kept, asked = body_of(settings), self.body
        if asked is not None:
            given = {
                name: getattr(asked, name)
                for name in ("schemas", "subject", "message", "delimiter")
                if getattr(asked, name)
            }
            kept = replace(kept, **given)
        check_libraries(kept.format, bool(kept.schemas))
        found = with_reader(kept)
        return replace(found, columns=self._columns(settings, found))

    @staticmethod
    def _columns(settings: Mapping[str, str], body: Body) -> str:
        """Return the archive's schema with what that of the bodies has."""
        wider = settings["kind"] == "iceberg"
        return extended(settings["schema"], body.columns, wider=wider)

    # ------------------------------------------------------------ one step

    def step(self) -> Step:
        """Decode the records of some files again; return how many, and how many are left."""
        if not settings_of(bad_place(self.place)):
            return Step(0, 0, "nothing was put aside")
        with locked(self.place):
            return self._step()

    def _step(self) -> Step:
        store, bad, settings = self._open()
        # Asked for before the files: where nothing locks, another run may take the same ones.
        before = store.note()
        settle(store, bad)
        body = self._body(settings)
        rows = {path: rows_of(path) for path in bad.state()[0] if name_of(path) not in self._seen}
        chosen: list[str] = []
        done = 0
        for path, count in rows.items():
            if done >= STEP_ROWS or len(chosen) == STEP_FILES:
                break
            chosen.append(path)
            done += count
        left = sum(rows.values()) - done
        good, rest = self._decode(body, chosen, store, bad) if chosen else ([], [])
        decoded, kept = (sum(file.rows for file in each) for each in (good, rest))
        if decoded:
            self._keep(store, body)
            names = [file.name for file in good if file.rows]
            pending = PendingReplacement([name_of(path) for path in chosen], rest, names)
            store.add(good, before, pending.text())
            carry_out(pending, pending.text(), store, bad)
            self._seen.update(file.name for file in rest)
        else:
            self._seen.update(map(name_of, chosen))
        if not left:
            # The next step, if there is one, comes after an interval, and looks at all again.
            self._seen.clear()
        return Step(done, left, f"{decoded:,} decoded, {kept:,} still bad", put_aside=kept)

    def _keep(self, store: Store, body: Body) -> None:
        """Have the table and the settings know new fields, before there are rows with them."""
        # Asked for anew: where nothing locks, `archive` may have added fields meanwhile.
        settings = settings_of(self.place)
        schema = self._columns(settings, body)
        if schema == settings["schema"]:
            return
        columns = pa.schema([pa.field("value", Decoder(body).columns)])
        store.extend(in_utc(columns.empty_table()).schema)
        keep_settings(self.place, settings | {"schema": schema})

    def _decode(
        self, body: Body, paths: Sequence[str], store: Store, bad: Store
    ) -> tuple[list[DataFile], list[DataFile]]:
        """Write the records of files anew: those that are decoded, and the others."""
        for folder in (store.folder, bad.folder):
            folder.make()
        decoder, ends = Decoder(body), store.ends()
        good = Partitions(store.folder, store.layout.partition_by)
        rest = Partitions(bad.folder, bad.layout.partition_by)
        for path in paths:
            for batch in batches_of(path):
                values, reasons = decoder.decode(batch)
                fine = pc.and_(pc.is_null(reasons), before(batch, ends))
                bare = batch.drop_columns([REASON])
                good.add(bare.append_column("value", values).filter(fine))
                # One that is beyond the archive's end is decoded by the archive's next step.
                reasons = pc.coalesce(reasons, batch.column(REASON))
                rest.add(bare.append_column(REASON, reasons).filter(pc.invert(fine)))
        return good.close(), rest.close()


def before(batch: pa.RecordBatch, ends: Offsets) -> pa.Array:
    """Return which records are before a position."""
    found = pa.array([False] * batch.num_rows, pa.bool_())
    for key, at in ends.items():
        mine = pc.equal(batch.column("partition"), key.partition)
        found = pc.or_(found, pc.and_(mine, pc.less(batch.column("offset"), at.offset)))
    return found


def at_any(batch: pa.RecordBatch, offsets: Mapping[int, list[int]]) -> pa.Array:
    """Return which records are at one of some offsets."""
    found = pa.array([False] * batch.num_rows, pa.bool_())
    for partition, each in offsets.items():
        mine = pc.equal(batch.column("partition"), partition)
        there = pc.is_in(batch.column("offset"), pa.array(each, pa.int64()))
        found = pc.or_(found, pc.and_(mine, there))
    return found


def put_aside(bad: Store, start: Offsets) -> dict[int, list[int]]:
    """Return the offsets of bad records from a position on, by partition."""
    first = {key.partition: at.offset for key, at in start.items()}
    found = offsets_in(bad.state()[0])
    return {
        partition: [at for at in each if at >= first.get(partition, 0)]
        for partition, each in found.items()
    }


def offsets_in(paths: Iterable[str]) -> dict[int, list[int]]:
    """Return the offsets of the records of files, by partition."""
    found: dict[int, list[int]] = {}
    for path in paths:
        for batch in batches_of(path, ["partition", "offset"]):
            for partition, offset in zip(*batch.to_pydict().values(), strict=True):
                found.setdefault(partition, []).append(offset)
    return found


def batches_of(path: str, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Give the records of a file."""
    system, name = place_of(path).filesystem()
    with pq.ParquetFile(name, filesystem=system) as file:
        yield from file.iter_batches(BATCH_ROWS, columns=columns)


def rows_of(path: str) -> int:
    """Return how many records are in a file."""
    system, name = place_of(path).filesystem()
    return int(pq.read_metadata(name, filesystem=system).num_rows)
