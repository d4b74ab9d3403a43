"""The flights through a stream into an archive: a mean delay from both, equal to the data set's.

    python examples/flights/lake.py

1. Starts a broker of its own, with a stream bound to the topic exchange of the flights.
2. Publishes the first half, has Spark archive it in a Delta table, publishes the rest, which
   stays in the stream.
3. Computes the mean arrival delay per origin and carrier: from archive and live stream as one
   table, from the archive alone after it has caught up, and from the data set without Spark.
4. Leaves a report on the traffic.

Exit code 0 if all three agree, 1 if not. Needs `pip install 'leporid[lake]'`.
"""

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pika
import traffic
from dataset import MISSING, DataError, Flight, load

from leporid.spark.errors import SparkSourceError
from leporid.spark.java import find_java
from leporid.spark.pipelines.archive import archive
from leporid.spark.pipelines.origin import Origin
from leporid.spark.pipelines.table import archived, table
from leporid.spark.pipelines.traffic import Traffic, TrafficPlan
from leporid.spark.session import session
from leporid.testing import BrokerError, BrokerProcess, reserve_port

EXCHANGE = "flights"
STREAM = "flights.all"
# The fields of a line: year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,
# sched_arr_time,arr_delay,carrier,flight,tailnum,origin,…
DELAY, CARRIER, ORIGIN = 8, 9, 12

Means = dict[tuple[str, str], tuple[int, float]]


def say(text: str) -> None:
    """Tell the user what is going on."""
    print(text, flush=True)


def declare(url: str) -> None:
    """Declare the exchange, and a stream that gets every flight."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.exchange_declare(EXCHANGE, "topic", durable=True)
        channel.queue_declare(STREAM, durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_bind(STREAM, EXCHANGE, "flight.#")


def publish(url: str, flights: Sequence[Flight], numbers: range) -> None:
    """Publish some flights, confirmed, with a stock client."""
    started = time.monotonic()
    publisher = traffic.Publisher(flights, EXCHANGE, numbers)
    publisher.run(url)
    if not publisher.finished:
        message = "the broker went away, and nobody killed it"
        raise traffic.TrafficError(message)
    rate = len(numbers) / (time.monotonic() - started)
    say(f"published {len(numbers):,} flights, confirmed: {rate:,.0f} messages/s")


def expected(flights: Sequence[Flight]) -> Means:
    """Compute the flights that arrived and their mean delay from the data set, in plain Python."""
    delays: dict[tuple[str, str], list[int]] = defaultdict(list)
    for flight in flights:
        fields = flight.line.decode().split(",")
        if fields[DELAY] not in MISSING:
            delays[flight.origin, flight.carrier].append(int(float(fields[DELAY])))
    return {key: (len(found), sum(found) / len(found)) for key, found in delays.items()}


def mean_delays(df: Any) -> Any:
    """Compute the same from a stream's columns: a function from DataFrame to DataFrame."""
    from pyspark.sql import functions as f

    fields = f.split(f.col("body").cast("string"), ",")
    rows = df.select(
        f.get(fields, f.lit(ORIGIN)).alias("origin"),
        f.get(fields, f.lit(CARRIER)).alias("carrier"),
        f.expr("try_cast(get(split(cast(body as string), ','), 8) as int)").alias("delay"),
    )
    arrived = rows.where("delay is not null").groupBy("origin", "carrier")
    return arrived.agg(f.count("*").alias("flights"), f.avg("delay").alias("mean_delay"))


def measured(df: Any) -> Means:
    """Return what Spark computes."""
    return {
        (row.origin, row.carrier): (row.flights, row.mean_delay)
        for row in mean_delays(df).collect()
    }


def agrees(one: Means, other: Means) -> bool:
    """Whether counts are equal, and means but for the last bits of a sum."""
    return one.keys() == other.keys() and all(
        one[key][0] == other[key][0] and abs(one[key][1] - other[key][1]) < 1e-9 for key in one
    )


def show(wanted: Means, both: Means, alone: Means) -> None:
    """Print the three side by side."""
    head = (
        f"{'origin':7} {'carrier':7} {'flights':>8} {'data set':>9} {'live too':>9} {'archive':>9}"
    )
    say(f"\nmean arrival delay in minutes\n{head}\n{'-' * len(head)}")
    for key in sorted(wanted):
        count, mean = wanted[key]
        others = " ".join(
            f"{found[key][1]:9.3f}" if key in found else f"{'missing':>9}"
            for found in (both, alone)
        )
        say(f"{key[0]:7} {key[1]:7} {count:8,} {mean:9.3f} {others}")


def run(flights: Sequence[Flight], place: Path) -> bool:
    """Run the demo on these flights; return whether all agree."""
    say(f"Spark runs on {find_java()}")
    broker = BrokerProcess(place / "data", amqp_port=reserve_port())
    with broker:
        options = {"url": f"http://127.0.0.1:{broker.http_port}"}
        say(f"broker: {broker.url} and {options['url']}")
        declare(broker.url)
        half = len(flights) // 2
        publish(broker.url, flights, range(half))

        spark = session("flights", master=f"local[{min(4, os.cpu_count() or 1)}]")
        spark.sparkContext.setLogLevel("ERROR")
        started = time.monotonic()
        rows = archive(spark, STREAM, place / "archive", options=options)
        say(f"archived {rows:,} flights to Delta in {time.monotonic() - started:.1f} s")

        publish(broker.url, flights, range(half, len(flights)))
        started = time.monotonic()
        both = measured(table(spark, STREAM, place / "archive", options=options))
        say(f"archive and live stream as one table: {time.monotonic() - started:.1f} s")
        rows = archive(spark, STREAM, place / "archive", options=options)
        found, _, _ = archived(spark, place / "archive", STREAM)
        alone = measured(found)
        say(f"archived the other {rows:,}; all from the archive")

        plan = TrafficPlan(place / "traffic", place / "archive", every="1 second")
        Traffic(spark, Origin(STREAM, options), plan).step()
        spark.stop()
        exit_code = broker.stop()
    wanted = expected(flights)
    show(wanted, both, alone)
    say(f"\nreport: {place / 'traffic' / 'report.html'}; the broker's exit code is {exit_code}")
    return agrees(wanted, both) and agrees(wanted, alone) and exit_code == 0


def main() -> int:
    """Parse the arguments, run the demo, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--csv", type=Path, help="flights to use instead of the data set")
    parser.add_argument(
        "--place", type=Path, default=Path("flights-lake"), help="a new folder (flights-lake)"
    )
    options = parser.parse_args()
    place = options.place.absolute()
    if place.exists() and any(place.iterdir()):
        print(f"lake: {place} is not empty: give another --place", file=sys.stderr)
        return 1
    started = time.monotonic()
    try:
        flights = load(options.csv)
        same = run(flights, place)
    except (BrokerError, DataError, SparkSourceError, traffic.TrafficError, RuntimeError) as error:
        print(f"lake: {error}", file=sys.stderr)
        return 1
    say(f"{'ALL MEANS AGREE' if same else 'MEANS DIFFER'} ({time.monotonic() - started:.0f} s)")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
