"""Publish every flight that left New York in 2013, kill the broker half-way, and count.

    python examples/flights/demo.py
    python examples/flights/demo.py --tls

1. Starts a broker of its own on a fresh data directory.
2. Publishes each flight as a persistent message to a topic exchange and waits for confirms. When
   half of them are on the way the broker is killed (SIGKILL) and started again on the same data
   directory; what was published and not confirmed by then is published again.
3. Consumes every queue with a stock client (pika), two of them bound with filters: by tag, and by
   an expression. Compares what came with what the data set says must come. Messages that came twice
   (stored before the crash, and their confirm lost) are counted and shown.

With --tls all of it goes over TLS, with a certificate made for this run, which pika verifies.

Exit code 0 if every count agrees, 1 if not.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

import traffic
import trustme
from audit import PLANS, audit, table
from dataset import DataError, Flight, load

from leporid.testing import BrokerError, BrokerProcess, reserve_port

EXCHANGE = "flights"
QUEUES = [plan.name for plan in PLANS]
HOST = "localhost"


def say(text: str) -> None:
    """Tell the user what is going on."""
    print(text, flush=True)


def encrypted(scratch: Path) -> tuple[str, str]:
    """Make a certificate; return a configuration with it, and the URL where it is shown."""
    authority, port = trustme.CA(), reserve_port()
    issued = authority.issue_cert(HOST)
    authority.cert_pem.write_to_path(scratch / "ca.pem")
    issued.private_key_pem.write_to_path(scratch / "key.pem")
    issued.cert_chain_pems[0].write_to_path(scratch / "cert.pem")
    files = f'certificate = "{scratch}/cert.pem"\nkey = "{scratch}/key.pem"\n'
    trusted = urlencode({"ssl_options": {"cafile": f"{scratch}/ca.pem"}})
    url = f"amqps://guest:guest@{HOST}:{port}/%2F?{trusted}"
    return f"amqps_port = {port}\n[tls]\n{files}", url


def publish_with_a_crash(broker: BrokerProcess, url: str, flights: list[Flight]) -> None:
    """Publish everything, confirmed, with a SIGKILL half-way."""
    numbers = range(len(flights))
    half = len(flights) // 2
    started = time.monotonic()
    first = traffic.Publisher(
        flights, EXCHANGE, traffic.numbers_until(numbers, half, act=broker.kill)
    )
    first.run(url)
    say(
        f"killed the broker (SIGKILL): {first.confirmed:,} flights were confirmed, "
        f"{len(first.unconfirmed):,} were sent and not confirmed; these are published again"
    )
    working = time.monotonic() - started

    started = time.monotonic()
    broker.start()
    say(f"started it again: ready after {time.monotonic() - started:.2f} s")

    started = time.monotonic()
    second = traffic.Publisher(flights, EXCHANGE, [*first.unconfirmed, *numbers[half:]])
    second.run(url)
    if not second.finished:
        message = "the broker went away a second time, and nobody killed it"
        raise traffic.TrafficError(message)
    working += time.monotonic() - started
    confirmed = first.confirmed + second.confirmed
    say(f"published {confirmed:,} flights, all confirmed: {confirmed / working:,.0f} a second")


def run(flights: list[Flight], *, tls: bool = False) -> bool:
    """Run the demo on these flights; return whether all counts agree."""
    with tempfile.TemporaryDirectory(prefix="leporid-demo-") as scratch:
        config, url = encrypted(Path(scratch)) if tls else ("", "")
        broker = BrokerProcess(Path(scratch) / "data", amqp_port=reserve_port(), config=config)
        with broker:
            url = url or broker.url
            over = " (TLS, with a certificate made for this run)" if tls else ""
            say(f"broker: {url.partition('?')[0]}{over}, data in {broker.data_dir}")
            traffic.declare(url, EXCHANGE, {plan.name: plan.bindings for plan in PLANS})
            publish_with_a_crash(broker, url, flights)

            started = time.monotonic()
            consumer = traffic.Consumer(flights, QUEUES)
            consumer.run(url)
            seconds = time.monotonic() - started
            total = sum(len(numbers) for numbers in consumer.received.values())
            say(
                f"consumed {total:,} messages, as a flight goes to each of the {len(QUEUES)} "
                f"queues that has a binding for it: {total / seconds:,.0f} a second, acked\n"
            )

            findings = [audit(plan, flights, consumer.received[plan.name]) for plan in PLANS]
            say(table(findings))
            left = sum(traffic.ready_counts(url, QUEUES).values())
            exit_code = broker.stop()
    again = sum(finding.duplicates for finding in findings)
    say(
        f"\n{again:,} messages came twice: the crash cut off their confirms, so they were "
        f"published again; {left} are left in the queues; the broker's exit code is {exit_code}"
    )
    return all(finding.agrees for finding in findings) and left == exit_code == 0


def main() -> int:
    """Parse the arguments, run the demo, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--csv", type=Path, help="flights to use instead of the data set")
    parser.add_argument("--tls", action="store_true", help="over TLS")
    options = parser.parse_args()
    started = time.monotonic()
    try:
        flights = load(options.csv)
        say(f"{len(flights):,} flights read in {time.monotonic() - started:.1f} s")
        agrees = run(flights, tls=options.tls)
    except (BrokerError, DataError, traffic.TrafficError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    say(f"{'ALL COUNTS AGREE' if agrees else 'COUNTS DIFFER'} ({time.monotonic() - started:.0f} s)")
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
