"""A driver on a cluster, run by `cluster`: queries over streams, each told by a line of its input.

It prints `batch N` after each batch and `result …` at the end of a query. As it is run as a script,
the functions that its tasks need travel to the executors by value.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tests.spark.progress import Progress

from leporid.spark.session import session

# Small steps, so that a task that waits has handed on most of what came before.
BATCH_ROWS = 1000


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def waiting(gate: tuple[int, int] | None) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A step that changes nothing, but waits at a gate in the middle of each task.

    Args:
        gate: its port, and how many batches a task hands on before it waits; None: there is none.
    """

    def step(batches: Iterator[Any]) -> Iterator[Any]:
        for number, batch in enumerate(batches):
            if gate is not None and number == gate[1]:
                with socket.create_connection(("127.0.0.1", gate[0])) as gate_keeper:
                    gate_keeper.recv(1)
            yield batch

    return step


def read_all(spark: Any, plan: dict[str, Any]) -> None:
    """A batch: how many rows, how many of them differ, and their sum."""
    frame = spark.read.format("leporid").options(**plan["source"]).load()
    numbers = frame.select("stream", "body").mapInArrow(
        waiting(plan["gate"]), "stream string, body binary"
    )
    found = numbers.selectExpr(
        "count(1)", "count(distinct body)", "sum(cast(cast(body as string) as bigint))"
    ).collect()
    say("result", *found[0])


def copy_all(spark: Any, plan: dict[str, Any]) -> None:
    """A streaming query from streams to a stream, its trigger as the plan has it."""
    listener = Progress(lambda done: say("batch", done.batchId))
    spark.streams.addListener(listener)
    frame = spark.readStream.format("leporid").options(**plan["source"]).load()
    changed = frame.selectExpr(
        "'out' as routing_key", "cast(concat('row ', cast(body as string)) as binary) as body"
    ).mapInArrow(waiting(plan["gate"]), "routing_key string, body binary")
    query = (
        changed.writeStream.format("leporid").options(**plan["sink"]).trigger(**plan["trigger"])
    ).start()
    query.awaitTermination()
    spark.streams.removeListener(listener)
    say("result", "copied")


def main(facts: dict[str, Any]) -> None:
    """Start a session on the cluster, and run queries until the input ends, or it is killed."""
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
        "spark.cores.max": "2",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": facts["folder"] + "/warehouse",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    }
    spark = session("cluster test", master=facts["master"], settings=settings)
    for line in sys.stdin:
        plan = json.loads(line)
        {"read": read_all, "copy": copy_all}[plan["query"]](spark, plan)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
