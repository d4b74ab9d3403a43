"""`leporid bench`: a load with the letters of RabbitMQ's PerfTest, and what came of it as JSON.

Responsible for the options, the line that is shown meanwhile, and the figures at the end. The load
itself is `leporid.load.processes`, which the project's own benchmarks use as well.
"""

from __future__ import annotations

import argparse
import json
import os
import ssl
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from leporid.cli.amqp import URL_VARIABLE, tls_of, unreachable
from leporid.cli.command import Parser, Plain
from leporid.cli.outcomes import DONE, INTERRUPTED, Failure, WrongUse, tell

if TYPE_CHECKING:
    from leporid.load.amqp import Client
    from leporid.load.processes import Counts, Load, Running

URL_DEFAULT: Final = "amqp://guest:guest@localhost:5672/%2F"
STAMP_BYTES: Final = 8
LOOK_SECONDS: Final = 0.01
KINDS: Final = ("classic", "quorum", "stream")
EXCHANGE_KINDS: Final = ("direct", "fanout", "topic")
PERCENTILES: Final = {"p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99, "p999": 0.999}


def fill(parser: Parser) -> None:
    """Add PerfTest's letters; -h is the address, as there."""
    # -h takes the place of that for the help, which is --help alone here.
    add = parser.add_argument_group("load", conflict_handler="resolve").add_argument
    default = URL_DEFAULT.replace("%", "%%")
    add("--uri", "-h", metavar="URI", help=f"the broker ({URL_VARIABLE}, {default})")
    add("--producers", "-x", type=int, default=1, metavar="N", help="connections that publish (1)")
    add("--consumers", "-y", type=int, default=1, metavar="N", help="connections that consume (1)")
    add("--size", "-s", type=int, default=12, metavar="BYTES", help="of a body, 8 at least (12)")
    add("--queue", "-u", metavar="Q", help="(one of its own, which is deleted at the end)")
    add("--exchange", "-e", metavar="X", help="(the default one)")
    add("--type", "-t", choices=EXCHANGE_KINDS, default="direct", help="of --exchange (direct)")
    add("--routing-key", "-k", metavar="KEY", help="(the queue's name)")
    add("--predeclared", "-p", action="store_true", help="queue and exchange are there: use them")
    add("--queue-type", choices=KINDS, default="classic", help="of the queue (classic)")
    add(
        "--confirm",
        "-c",
        type=int,
        default=0,
        metavar="N",
        help="wait for confirms, N unconfirmed at most (no confirms)",
    )
    add("--autoack", "-a", action="store_true", help="automatic acknowledgement")
    add(
        "--multi-ack-every",
        "-A",
        type=int,
        default=1,
        metavar="N",
        help="acknowledge each Nth delivery, with those before it (1)",
    )
    add("--qos", "-q", type=int, default=0, metavar="N", help="prefetch (no limit)")
    add(
        "--flag",
        "-f",
        action="append",
        default=[],
        choices=("persistent",),
        help="messages are persistent, and the queue durable",
    )
    add(
        "--rate",
        "-r",
        type=float,
        default=0.0,
        metavar="N",
        help="messages a second of each producer, at most (as many as it can)",
    )
    add(
        "--publishing-interval",
        "-P",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="the same as --rate 1/SECONDS",
    )
    add("--time", "-z", type=float, default=10.0, metavar="SECONDS", help="how long (10)")
    add(
        "--pmessages",
        "-C",
        type=int,
        default=0,
        metavar="N",
        help="end when each producer has sent so many and all have come",
    )
    add("--interval", "-i", type=float, default=1.0, metavar="SECONDS", help="of the line (1)")
    add("--output-file", "-o", metavar="FILE", help="write the JSON there as well")  # fmt: skip
    add("--quiet", action="store_true", help="show no line meanwhile")
    add("--json", action="store_true", help="as without it: what stands at the end is JSON")


@dataclass(slots=True)
class Plan:
    """What is declared, and what is done then."""

    url: str
    load: Load
    queue: str
    exchange: str
    key: str
    declares: bool
    deletes: bool
    queue_type: str
    exchange_type: str
    tls: ssl.SSLContext | None
    tls_name: str


def plan_of(options: argparse.Namespace) -> Plan:
    """Read the options.

    Raises:
        WrongUse: they contradict each other, or a number cannot be.
    """
    from leporid.load.processes import Load

    for name, least in (
        ("producers", 0),
        ("consumers", 0),
        ("size", 0),
        ("confirm", 0),
        ("multi_ack_every", 1),
        ("qos", 0),
        ("pmessages", 0),
    ):
        if getattr(options, name) < least:
            raise WrongUse(f"--{name.replace('_', '-')} is {least} at least")
    for name in ("time", "interval"):
        if getattr(options, name) <= 0:
            raise WrongUse(f"--{name} is more than 0 seconds")
    if not options.producers and not options.consumers:
        raise WrongUse("-x 0 -y 0 does nothing")
    if options.rate and options.publishing_interval:
        raise WrongUse("-r and -P say the same: give one of them")
    if options.predeclared and not options.queue:
        raise WrongUse("-p needs the queue that is there: -u QUEUE")
    queue = options.queue or f"leporid-bench-{os.getpid()}-{time.time_ns() % 1_000_000}"
    key = options.routing_key if options.routing_key is not None else queue
    load = Load(
        queues=(queue,),
        keys=(key,),
        exchange=options.exchange or "",
        body_bytes=max(STAMP_BYTES, options.size),
        persistent="persistent" in options.flag,
        confirm_window=options.confirm,
        producers=options.producers,
        consumers=options.consumers,
        ack_every=0 if options.autoack else options.multi_ack_every,
        prefetch=options.qos,
        messages_max=options.pmessages,
        offset="next" if options.queue_type == "stream" else None,
        rate=1 / options.publishing_interval if options.publishing_interval else options.rate,
        stamped=True,
    )  # fmt: skip
    if options.queue_type == "stream" and options.autoack:
        raise WrongUse("consumers of a stream acknowledge: leave out -a")
    url = options.uri or os.environ.get(URL_VARIABLE) or URL_DEFAULT
    return Plan(
        url, load, queue, load.exchange, key, not options.predeclared, not options.queue,
        options.queue_type, options.type, *tls_of(url),
    )  # fmt: skip


def _connect(plan: Plan) -> Client:
    from leporid.load.amqp import Client

    return Client(plan.url, tls=plan.tls, tls_name=plan.tls_name)


def declare(plan: Plan) -> None:
    """Declare what is to be there."""
    durable = plan.load.persistent or plan.queue_type != "classic"
    with _connect(plan) as client:
        client.declare_queue(plan.queue, durable=durable, kind=plan.queue_type)
        if plan.exchange:
            client.declare_exchange(plan.exchange, plan.exchange_type)
            client.bind(plan.queue, plan.exchange, [plan.key])


def _delete(plan: Plan) -> None:
    with _connect(plan) as client:
        client.delete_queue(plan.queue)
        if plan.exchange:
            client.delete_exchange(plan.exchange)


def figures(begun: Counts, ended: Counts, counts: Sequence[int]) -> dict[str, Any]:
    """Return what came of a load, between two moments."""
    from leporid.load.latencies import percentile_us

    seconds = ended.at_seconds - begun.at_seconds
    made = {
        "sent": ended.published - begun.published,
        "confirmed": ended.confirmed - begun.confirmed,
        "received": ended.delivered - begun.delivered,
    }
    shown = {name: percentile_us(counts, share) / 1000 for name, share in PERCENTILES.items()}
    return {
        "seconds": round(seconds, 3),
        **made,
        "rates": {name: round(count / seconds, 1) for name, count in made.items()},
        "latency_ms": {
            "min": percentile_us(counts, 0.0) / 1000,
            **shown,
            "max": percentile_us(counts, 1.0) / 1000,
            "samples": sum(counts),
        },
    }


def _line(begun: Counts, found: dict[str, Any], at_seconds: float) -> str:
    rates, latency = found["rates"], found["latency_ms"]
    return (
        f"time {at_seconds - begun.at_seconds:.1f} s, sent {rates['sent']:.0f}/s, "
        f"confirmed {rates['confirmed']:.0f}/s, received {rates['received']:.0f}/s, latency "
        f"p50/p95/p99 {latency['p50']:.2f}/{latency['p95']:.2f}/{latency['p99']:.2f} ms"
    )


def _watch(running: Running, plan: Plan, options: argparse.Namespace) -> dict[str, Any]:
    """Show a line now and then until the time is over; return the figures of all of it."""
    from leporid.load.latencies import BUCKETS
    from leporid.load.processes import Counts

    live = sys.stderr.isatty() and not options.quiet
    # The processes began together with our return from starting them, and may be done already.
    begun = last = Counts(time.monotonic(), 0, 0, 0)
    counted: Sequence[int] = [0] * BUCKETS
    until = begun.at_seconds + options.time
    wanted = plan.load.messages_max * plan.load.producers
    try:
        while (now := running.counts()).at_seconds < until:
            if wanted and _came(now, wanted, plan.load):
                break
            if not options.quiet and now.at_seconds - last.at_seconds >= options.interval:
                fresh = running.latencies()
                found = figures(last, now, [a - b for a, b in zip(fresh, counted, strict=True)])
                line = _line(begun, found, now.at_seconds)
                print(f"\r{line}\x1b[K" if live else line, end="" if live else "\n",
                      file=sys.stderr, flush=True)  # fmt: skip
                last, counted = now, fresh
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        now = running.counts()
    if live:
        print(file=sys.stderr)
    return figures(begun, now, running.latencies())


def _came(now: Counts, wanted: int, load: Load) -> bool:
    """Whether so many were sent, confirmed and received."""
    received = not load.consumers or now.delivered >= wanted
    return now.published >= wanted and now.confirmed >= wanted and received


def run(options: argparse.Namespace) -> int:
    """Run the load; return the exit code. Ctrl-C ends it early, with its figures."""
    from leporid.load.amqp import Refused
    from leporid.load.processes import LoadFailed, Running

    try:
        plan = plan_of(options)
        if plan.declares:
            declare(plan)
        try:
            with Running(plan.url, plan.load, tls=plan.tls, tls_name=plan.tls_name) as running:
                found = _watch(running, plan, options)
        finally:
            if plan.deletes and plan.declares:
                _delete(plan)
        text = json.dumps({**found, "load": _shown(plan)})
        print(text)
        if options.output_file:
            _write(options.output_file, text)
    except Failure as failure:
        return tell(failure)
    except (LoadFailed, Refused) as error:
        return tell(Failure(str(error)))
    except OSError as error:
        place = urlsplit(plan.url).netloc.rpartition("@")[2]
        return tell(unreachable(place, error))
    except ValueError as error:  # after those: that of a certificate is both
        return tell(WrongUse(str(error)))
    except KeyboardInterrupt:
        return INTERRUPTED
    return DONE


def _shown(plan: Plan) -> dict[str, Any]:
    load = plan.load
    return {
        "producers": load.producers,
        "consumers": load.consumers,
        "body_bytes": load.body_bytes,
        "persistent": load.persistent,
        "confirm_window": load.confirm_window,
        "ack_every": load.ack_every,
        "prefetch": load.prefetch,
        "rate": load.rate,
        "queue": plan.queue,
        "queue_type": plan.queue_type,
    }


def _write(file: str, text: str) -> None:
    from pathlib import Path

    try:
        Path(file).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise Failure(f"{file}: cannot be written: {error.strerror}") from None


COMMAND: Final = Plain(
    fill,
    run,
    "Send and take messages as fast as it goes, or at a rate, and say how many and how late they "
    "came: a line each second, JSON at the end. The letters are those of RabbitMQ's PerfTest; -h "
    "is the address. Latency is that of the first message of each block that is sent at once.",
)
