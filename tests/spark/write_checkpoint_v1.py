"""Writes golden/checkpoint-v1: what a query left behind that read by offsets of version 1.

The query read [0, 400) of stream `orders` and had planned [400, 700) when its driver died. Run
once, with the code of that version; the files stay as they are, as users' checkpoints do:

    python -m tests.spark.write_checkpoint_v1

With an older PySpark, checkpoint-v1-4.0 by its data source, and checkpoint-v1-3.5 by
`leporid.spark.legacy`:

    PYTHONPATH=.venv/pyspark/4.0 python -m tests.spark.write_checkpoint_v1 checkpoint-v1-4.0
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.spark.fake import serving

from leporid.spark import features
from leporid.spark.legacy import foreach_batch_source
from leporid.spark.session import session

GOLDEN = Path(__file__).parent / "golden"
QUERY = "11111111-2222-4333-8444-555555555555"


def run(spark: Any, checkpoint: Path, url: str) -> None:
    """Read from `orders` what there is."""
    given = {"url": url, "stream": "orders", "startingOffsets": "earliest"}
    if not features.HAS_SOURCES:
        foreach_batch_source(
            lambda frame, _: frame.count(), checkpoint=checkpoint, **given
        ).read_available(spark)
        return
    frame = spark.readStream.format("leporid").options(**given).load().select("body")
    sink = frame.writeStream.format("leporid").options(
        url=url, stream="out", checkpointLocation=str(checkpoint)
    )
    sink.trigger(availableNow=True).start().awaitTermination()


def main(name: str = "checkpoint-v1") -> None:
    spark = session("golden", master="local[1]")
    with tempfile.TemporaryDirectory() as folder, serving() as broker:
        checkpoint = Path(folder, "checkpoint")
        checkpoint.mkdir()
        (checkpoint / "metadata").write_text(f'{{"id":"{QUERY}"}}')
        broker.make("orders")
        broker.make("out")
        for rows in (400, 300):
            broker.append("orders", rows)
            run(spark, checkpoint, broker.url)
        (checkpoint / "commits" / "1").unlink()
        # Checksums are optional, and would have to be binary files in the repository.
        ignored = shutil.ignore_patterns("*.crc", "state")
        shutil.copytree(checkpoint, GOLDEN / name, ignore=ignored)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
