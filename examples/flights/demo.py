"""Publish every flight that left New York in 2013, kill the broker half-way, and count.

    python examples/flights/demo.py

1. Starts a broker of its own on a fresh data directory.
2. Publishes each flight as a persistent message to a topic exchange and waits for confirms. When
   half of them are on the way the broker is killed (SIGKILL) and started again on the same data
   directory; what was published and not confirmed by then is published again.
3. Consumes every queue with a stock client (pika), two of them bound with filters: by tag, and by
   an expression. Compares what came with what the data set says must come. Messages that came twice
   (stored before the crash, and their confirm lost) are counted and shown.

Exit code 0 if every count agrees, 1 if not.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import traffic
from audit import PLANS, audit, table
from dataset import DataError, Flight, load

from leporid.testing import BrokerError, BrokerProcess, reserve_port

EXCHANGE = "flights"
QUEUES = [plan.name for plan in PLANS]


def say(text: str) -> None:
    """Tell the user what is going on."""
    print(text, flush=True)


def publish_with_a_crash(broker: BrokerProcess, flights: list[Flight]) -> None:
    """Publish everything, confirmed, with a SIGKILL half-way."""
    numbers = range(len(flights))
    half = len(flights) // 2
    started = time.monotonic()
    first = traffic.Publisher(
        flights, EXCHANGE, traffic.numbers_until(numbers, half, act=broker.kill)
    )
    first.run(broker.url)
    say(
        f"killed the broker (SIGKILL) with {first.confirmed:,} confirmed "
        f"and {len(first.unconfirmed):,} on the way"
    )
    working = time.monotonic() - started

    started = time.monotonic()
    broker.start()
    say(f"started it again: ready after {time.monotonic() - started:.2f} s")

    started = time.monotonic()
    second = traffic.Publisher(flights, EXCHANGE, [*first.unconfirmed, *numbers[half:]])
    second.run(broker.url)
    if not second.finished:
        message = "the broker went away a second time, and nobody killed it"
        raise traffic.TrafficError(message)
    working += time.monotonic() - started
    confirmed = first.confirmed + second.confirmed
    say(f"published {confirmed:,} flights, confirmed: {confirmed / working:,.0f} messages/s")


def run(flights: list[Flight]) -> bool:
    """Run the demo on these flights; return whether all counts agree."""
    with tempfile.TemporaryDirectory(prefix="leporid-demo-") as scratch:
        broker = BrokerProcess(Path(scratch) / "data", amqp_port=reserve_port())
        with broker:
            say(f"broker: {broker.url}, data in {broker.data_dir}")
            traffic.declare(broker.url, EXCHANGE, {plan.name: plan.bindings for plan in PLANS})
            publish_with_a_crash(broker, flights)

            started = time.monotonic()
            consumer = traffic.Consumer(flights, QUEUES)
            consumer.run(broker.url)
            seconds = time.monotonic() - started
            total = sum(len(numbers) for numbers in consumer.received.values())
            say(f"consumed {total:,} messages, acked: {total / seconds:,.0f} messages/s\n")

            findings = [audit(plan, flights, consumer.received[plan.name]) for plan in PLANS]
            say(table(findings))
            left = sum(traffic.ready_counts(broker.url, QUEUES).values())
            exit_code = broker.stop()
    again = sum(finding.duplicates for finding in findings)
    say(f"\n{again:,} messages came twice; {left} are left; the broker's exit code is {exit_code}")
    return all(finding.agrees for finding in findings) and left == exit_code == 0


def main() -> int:
    """Parse the arguments, run the demo, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--csv", type=Path, help="flights to use instead of the data set")
    options = parser.parse_args()
    started = time.monotonic()
    try:
        flights = load(options.csv)
        say(f"{len(flights):,} flights read in {time.monotonic() - started:.1f} s")
        agrees = run(flights)
    except (BrokerError, DataError, traffic.TrafficError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    say(f"{'ALL COUNTS AGREE' if agrees else 'COUNTS DIFFER'} ({time.monotonic() - started:.0f} s)")
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
