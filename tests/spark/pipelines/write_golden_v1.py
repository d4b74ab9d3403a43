"""Writes golden-v1.tar.xz: what pipelines of that version left behind half-way.

An archive with a schema, of 30 messages of which three bodies do not fit; a replay of the first 20
messages; the counts of a report over 30; a ledger with two of three tasks. Run once, with the code
of that version; the file stays as it is, as users' tables and states do:

    python -m tests.spark.pipelines.write_golden_v1
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.spark.fake import EPOCH_MS, FakeBroker, serving

from leporid.spark.pipelines.archive import Archive, Plan
from leporid.spark.pipelines.origin import Origin
from leporid.spark.pipelines.replay import Replay, ReplayPlan
from leporid.spark.pipelines.runner import Pipeline, Run, run
from leporid.spark.pipelines.schedule import Ledger, Schedule
from leporid.spark.pipelines.traffic import Traffic, TrafficPlan
from leporid.spark.session import session

GOLDEN = Path(__file__).with_name("golden-v1.tar.xz")
SCHEMA = "id bigint"
# Every tenth from the fifth on is no JSON.
BAD = {5, 15, 25, 35}
DAY = datetime.fromtimestamp(EPOCH_MS / 1000, UTC)


def streams(broker: FakeBroker, count: int) -> None:
    """Make what the pipelines read, and where to they publish."""
    broker.make("orders")[0].incarnation = "fake-1-0"
    bodies = [b"?" if at in BAD else b'{"id": %d}' % at for at in range(count)]
    broker.append("orders", count, body=bodies)
    for name, exchange in (("copy", "again"), ("work", "tasks")):
        broker.make(name)
        broker.bindings[exchange] = name


def pipelines(spark: Any, broker: FakeBroker, root: Path, tasks: int) -> dict[str, Pipeline]:
    """Make one of each over a folder."""
    origin = Origin("orders", {"url": broker.url})
    rows = [(at, DAY + timedelta(minutes=at), f"task {at}") for at in range(tasks)]

    def frame(spark: Any) -> Any:
        return spark.createDataFrame(rows, "id bigint, execute_at timestamp, body string")

    # The end of a replay is decided at its beginning, in its state.
    until = (DAY + timedelta(milliseconds=20)).isoformat()
    replayed = ReplayPlan(root / "replay.json", until=until, exchange="again")
    return {
        "archive": Archive(spark, origin, Plan(root / "lake", schema=SCHEMA)),
        "replay": Replay(spark, origin, replayed),
        "traffic": Traffic(spark, origin, TrafficPlan(root / "report")),
        "schedule": Schedule(frame, origin.client, Ledger(root / "ledger"), "tasks", spark=spark),
    }


def main() -> None:
    spark = session("golden", master="local[1]")
    with tempfile.TemporaryDirectory() as folder, serving() as broker:
        root = Path(folder, "golden")
        root.mkdir()
        streams(broker, 30)
        for pipeline in pipelines(spark, broker, root, 2).values():
            run(pipeline, Run(once=True, out=io.StringIO()))
        with tarfile.open(GOLDEN, "w:xz") as kept:
            kept.add(root, "golden", filter=_plain)
    spark.stop()


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out who made it, checksums of Hadoop's, and the report itself, which is large."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    name = Path(info.name).name
    return None if name.endswith(".crc") or name == "report.html" else info


if __name__ == "__main__":
    main()
