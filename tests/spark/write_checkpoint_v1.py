"""Writes golden/checkpoint-v1: what a query left behind that read by offsets of version 1.

The query read [0, 400) of stream `orders` and had planned [400, 700) when its driver died. Run
once, with the code of that version; the files stay as they are, as users' checkpoints do:

    python -m tests.spark.write_checkpoint_v1
"""

import shutil
import tempfile
from pathlib import Path

from tests.spark.fake import serving

from leporid.spark.session import session

GOLDEN = Path(__file__).parent / "golden" / "checkpoint-v1"
QUERY = "11111111-2222-4333-8444-555555555555"


def main() -> None:
    spark = session("golden", master="local[1]")
    with tempfile.TemporaryDirectory() as folder, serving() as broker:
        checkpoint = Path(folder, "checkpoint")
        checkpoint.mkdir()
        (checkpoint / "metadata").write_text(f'{{"id":"{QUERY}"}}')
        broker.make("orders")
        broker.make("out")
        for rows in (400, 300):
            broker.append("orders", rows)
            given = {"url": broker.url, "stream": "orders", "startingOffsets": "earliest"}
            frame = spark.readStream.format("leporid").options(**given).load().select("body")
            sink = frame.writeStream.format("leporid").options(
                url=broker.url, stream="out", checkpointLocation=str(checkpoint)
            )
            sink.trigger(availableNow=True).start().awaitTermination()
        (checkpoint / "commits" / "1").unlink()
        # Checksums are optional, and would have to be binary files in the repository.
        shutil.copytree(checkpoint, GOLDEN, ignore=shutil.ignore_patterns("*.crc", "state"))
    spark.stop()


if __name__ == "__main__":
    main()
