"""The workloads: what is asked of a broker, and what is reported about it.

Each is a function that takes a broker and a plan and returns figures; a figure's name ends in its
unit. It does not know how often it is repeated, nor what becomes of the figures. Invariant: a
workload leaves the broker as it found it, without queues or exchanges of ours.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.brokers import Broker
from bench.latency import measure

from leporid.load.amqp import FRAME_BODY, Client, ack
from leporid.load.processes import Counts, Load, LoadFailed, Running

Figures = dict[str, float]

BINDINGS = 10_000
MANY_BINDINGS = 1_000
KEYS = 2_000
# More keys than any broker remembers routes for.
COLD_KEYS = 100_000
FANOUT_QUEUES = 10
# So many that the megabytes by which a broker's memory changes anyhow are little for each: with
# 400, runs lay between 5 and 21 KB. Twice as many fit under a limit of 4096 descriptors.
CONNECTIONS = 2000
BACKLOG_SECONDS = 600.0
SLOW_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much of everything.

    Attributes:
        seconds: how long a rate is measured.
        warm_seconds: how long a load runs before that.
        messages: of a backlog.
        body_bytes: of a message, unless the workload says otherwise.
    """

    seconds: float = 5.0
    warm_seconds: float = 1.0
    messages: int = 1_000_000
    body_bytes: int = 100


Run = Callable[[Broker, Plan], Figures]


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload; its name is what the command line takes."""

    name: str
    about: str
    run: Run


WORKLOADS: dict[str, Workload] = {}


def workload(name: str) -> Callable[[Run], Run]:
    """Put the decorated function into the list, with its docstring as what it is about."""

    def put(run: Run) -> Run:
        WORKLOADS[name] = Workload(name, (run.__doc__ or "").strip(), run)
        return run

    return put


# ------------------------------------------------------------------ what they share


@contextlib.contextmanager
def queues(
    broker: Broker,
    count: int = 1,
    *,
    durable: bool = False,
    kind: str = "classic",
    label: str = "bench",
    arguments: Mapping[str, int] | None = None,
) -> Iterator[tuple[str, ...]]:
    """Queues with names of one length, for the time of a workload; a label has them once."""
    names = tuple(f"{label}.{os.getpid()}.{number:02d}" for number in range(count))
    with Client(broker.url) as admin:
        for name in names:
            admin.declare_queue(name, durable=durable, kind=kind, arguments=arguments)
    try:
        yield names
    finally:
        with Client(broker.url) as admin:
            for name in names:
                admin.delete_queue(name)


@contextlib.contextmanager
def exchange(broker: Broker, kind: str) -> Iterator[str]:
    """An exchange, for the time of a workload."""
    name = f"bench.{os.getpid()}.{kind}"
    with Client(broker.url) as admin:
        admin.declare_exchange(name, kind)
    try:
        yield name
    finally:
        with Client(broker.url) as admin:
            admin.delete_exchange(name)


def rates(broker: Broker, plan: Plan, load: Load) -> Figures:
    """Run a load for a while: messages a second, and what they cost."""
    with Running(broker.url, load) as running:
        time.sleep(plan.warm_seconds)
        before, cpu_before = running.counts(), broker.cpu_seconds()
        time.sleep(plan.seconds)
        after, cpu_after = running.counts(), broker.cpu_seconds()
        memory_mb = broker.memory_mb()
    span = after.at_seconds - before.at_seconds
    published = (after.published - before.published) / span
    delivered = (after.delivered - before.delivered) / span
    if not published or not delivered:
        raise LoadFailed(f"nothing moved: {before}, {after}")
    figures = {"delivered_per_s": delivered, "published_per_s": published}
    if load.confirm_window:
        figures["confirmed_per_s"] = (after.confirmed - before.confirmed) / span
    if cpu_before is not None and cpu_after is not None and memory_mb is not None:
        figures["broker_cpu_cores"] = (cpu_after - cpu_before) / span
        figures["memory_mb"] = memory_mb
    return figures


def fill(broker: Broker, load: Load) -> tuple[float, Counts]:
    """Publish all of a load that has an end, confirmed; returns seconds and counts."""
    began = time.monotonic()
    with Running(broker.url, replace(load, consumers=0)) as running:
        done = running.wait(lambda counts: counts.confirmed >= load.messages_max, BACKLOG_SECONDS)
    return done.at_seconds - began, done


def backlog_load(plan: Plan, names: tuple[str, ...], *, persistent: bool, factor: int = 1) -> Load:
    """A load that ends: so many messages, each confirmed."""
    return Load(
        queues=names,
        body_bytes=plan.body_bytes,
        persistent=persistent,
        confirm_window=4000,
        messages_max=plan.messages * factor,
    )


# ------------------------------------------------------------------ throughput


@workload("transient")
def transient(broker: Broker, plan: Plan) -> Figures:
    """1 publisher, 1 consumer, acknowledged automatically."""
    with queues(broker) as names:
        return rates(broker, plan, Load(queues=names, body_bytes=plan.body_bytes))


@workload("ack")
def manual_ack(broker: Broker, plan: Plan) -> Figures:
    """1 publisher, 1 consumer that acknowledges every 100 or more, prefetch 1000."""
    with queues(broker) as names:
        load = Load(queues=names, body_bytes=plan.body_bytes, ack_every=100, prefetch=1000)
        return rates(broker, plan, load)


@workload("persistent")
def persistent(broker: Broker, plan: Plan) -> Figures:
    """Confirm window 2000; acknowledged every 100 or more, prefetch 2000."""
    with queues(broker, durable=True) as names:
        load = Load(
            queues=names,
            body_bytes=plan.body_bytes,
            persistent=True,
            confirm_window=2000,
            ack_every=100,
            prefetch=2000,
        )
        return rates(broker, plan, load)


@workload("topic")
def topic(broker: Broker, plan: Plan) -> Figures:
    """10,000 bindings, one of them matches; 2000 keys."""
    return route_by_topic(broker, plan, KEYS)


@workload("topic-cold")
def topic_cold(broker: Broker, plan: Plan) -> Figures:
    """The same with 100,000 keys, so that routes have to be looked up again."""
    return route_by_topic(broker, plan, COLD_KEYS)


def route_by_topic(broker: Broker, plan: Plan, key_count: int) -> Figures:
    """Publish with that many keys to a topic exchange with many bindings."""
    choice = random.Random(7)
    words = [f"w{number:03d}" for number in range(320)]
    pairs = choice.sample([f"load.{one}.{two}" for one in words for two in words], key_count)
    patterns = [
        (
            f"r{number:05d}.*.{choice.choice(words)}",
            f"*.r{number:05d}.#",
            f"load.r{number:05d}.{choice.choice(words)}",
        )[number % 3]
        for number in range(BINDINGS - 1)
    ]
    with queues(broker) as names, exchange(broker, "topic") as name:
        with Client(broker.url) as admin:
            admin.bind(names[0], name, [*patterns, "load.*.#"])
        load = Load(queues=names, exchange=name, keys=tuple(pairs), body_bytes=plan.body_bytes)
        return rates(broker, plan, load)


@workload("filters-bindings")
def filters_bindings(broker: Broker, plan: Plan) -> Figures:
    """1,000 bindings of 10 queues, each looked up by a header's value; one of them matches."""
    asked = [{"x-filter-sql": f"number = {n} AND origin = 'JFK'"} for n in range(MANY_BINDINGS)]
    return route_by_headers(broker, plan, "fanout", asked)


@workload("filters-ranges")
def filters_ranges(broker: Broker, plan: Plan) -> Figures:
    """The same with ranges, so that every filter has to be evaluated."""
    asked = [{"x-filter-sql": f"number BETWEEN {n} AND {n}"} for n in range(MANY_BINDINGS)]
    return route_by_headers(broker, plan, "fanout", asked)


@workload("headers")
def headers(broker: Broker, plan: Plan) -> Figures:
    """A headers exchange with 10 bindings, to a queue each; one of them matches."""
    return route_by_headers(broker, plan, "headers", flights(FANOUT_QUEUES))


@workload("headers-many")
def headers_many(broker: Broker, plan: Plan) -> Figures:
    """The same with 1,000 bindings."""
    return route_by_headers(broker, plan, "headers", flights(MANY_BINDINGS))


def flights(count: int) -> list[dict[str, int | str]]:
    """Headers that so many bindings ask for."""
    return [{"number": number, "origin": "JFK"} for number in range(count)]


def route_by_headers(
    broker: Broker, plan: Plan, kind: str, asked: Sequence[Mapping[str, int | str]]
) -> Figures:
    """Publish to an exchange with bindings of these arguments, by turns to each of 10 queues."""
    with queues(broker, FANOUT_QUEUES) as names, exchange(broker, kind) as name:
        with Client(broker.url) as admin:
            for at, queue in enumerate(names):
                admin.bind(queue, name, [""], asked[at :: len(names)])
        load = Load(
            queues=names,
            exchange=name,
            keys=("k",) * len(asked),
            body_bytes=plan.body_bytes,
            numbered=True,
        )
        return rates(broker, plan, load)


@workload("fanout")
def fanout(broker: Broker, plan: Plan) -> Figures:
    """1 publisher, 10 queues, 10 consumers."""
    with queues(broker, FANOUT_QUEUES) as names, exchange(broker, "fanout") as name:
        with Client(broker.url) as admin:
            for queue in names:
                admin.bind(queue, name, [""])
        load = Load(queues=names, exchange=name, keys=("k",), body_bytes=plan.body_bytes)
        return rates(broker, plan, load)


@workload("shared")
def shared(broker: Broker, plan: Plan) -> Figures:
    """4 publishers, 4 consumers on one queue, 4 KiB bodies, prefetch 1000."""
    with queues(broker) as names:
        load = Load(
            queues=names,
            body_bytes=4096,
            producers=4,
            consumers=4,
            ack_every=100,
            prefetch=1000,
        )
        return rates(broker, plan, load)


@workload("slow")
def slow_consumer(broker: Broker, plan: Plan) -> Figures:
    """A publisher at full speed, without a consumer and with one that takes 10 ms a message."""
    figures: Figures = {}
    for title, slow in (("alone_per_s", False), ("beside_slow_consumer_per_s", True)):
        with queues(broker) as names:
            load = replace(backlog_load(plan, names, persistent=False), confirm_window=0)
            context = multiprocessing.get_context("fork")
            consumer = context.Process(target=_consume_slowly, args=(broker.url, names[0]))
            if slow:
                consumer.start()
            with Running(broker.url, replace(load, consumers=0)) as running:
                begun = running.counts()
                done = running.wait(lambda counts: counts.published >= plan.messages, 60)
            figures[title] = plan.messages / (done.at_seconds - begun.at_seconds)
            if slow:
                consumer.kill()
                consumer.join()
    return figures


def _consume_slowly(url: str, queue: str) -> None:
    client = Client(url)
    client.consume(queue, no_ack=False, prefetch=1)
    client.sock.settimeout(None)
    tag = 0
    while True:
        kind, _ = client.read_frame()
        if kind == FRAME_BODY:
            tag += 1
            time.sleep(SLOW_SECONDS)
            client.sock.sendall(ack(tag, multiple=False))


# ------------------------------------------------------------------ backlog and recovery


@workload("backlog")
def backlog(broker: Broker, plan: Plan) -> Figures:
    """Fill a queue without consumers, then drain it."""
    with queues(broker) as names:
        idle_mb = broker.memory_mb()
        load = backlog_load(plan, names, persistent=False)
        seconds, filled = fill(broker, load)
        figures = {"filled_per_s": filled.published / seconds}
        full_mb = broker.memory_mb()
        if idle_mb is not None and full_mb is not None:
            figures["memory_above_idle_mb"] = full_mb - idle_mb
        figures["drained_per_s"] = filled.published / drain(broker, load)
    return figures


def drain(broker: Broker, load: Load) -> float:
    """Take everything that a load has published; returns seconds."""
    began = time.monotonic()
    taking = replace(load, producers=0, ack_every=500, prefetch=5000)
    with Running(broker.url, taking) as running:
        running.wait(lambda counts: counts.delivered >= load.messages_max, BACKLOG_SECONDS)
    return time.monotonic() - began


@workload("stream")
def stream(broker: Broker, plan: Plan) -> Figures:
    """Append to a stream, confirm window 2000, and read it, prefetch 2000."""
    with queues(broker, durable=True, kind="stream") as names:
        load = Load(
            queues=names,
            body_bytes=plan.body_bytes,
            persistent=True,
            confirm_window=2000,
            ack_every=100,
            prefetch=2000,
        )
        return rates(broker, plan, load)


@workload("stream-read")
def stream_read(broker: Broker, plan: Plan) -> Figures:
    """Fill a stream, then read it from its beginning, prefetch 5000."""
    with queues(broker, durable=True, kind="stream") as names:
        load = backlog_load(plan, names, persistent=True)
        seconds, filled = fill(broker, load)
        reading = replace(load, offset="first")
        return {
            "appended_per_s": filled.published / seconds,
            "read_per_s": filled.published / drain(broker, reading),
        }


@workload("recovery")
def recovery(broker: Broker, plan: Plan) -> Figures:
    """Fill a durable queue, kill -9, start."""
    with queues(broker, durable=True) as names:
        load = backlog_load(plan, names, persistent=True)
        seconds, filled = fill(broker, load)
        figures = {"filled_per_s": filled.published / seconds}
        recovery_s = broker.crash()
        if recovery_s is not None:
            figures["recovery_s"] = recovery_s
            with Client(broker.url) as admin:
                there = admin.declare_queue(names[0], durable=True, passive=True)
            if there != filled.published:
                raise LoadFailed(f"{filled.published} confirmed, {there} recovered")
    return figures


# ------------------------------------------------------------------ connections, definitions


@workload("idle")
def idle(broker: Broker, plan: Plan) -> Figures:
    """Resident memory of one more idle connection with one channel."""
    del plan
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4 * CONNECTIONS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * CONNECTIONS), hard))
    clients = [Client(broker.url) for _ in range(CONNECTIONS)]
    try:
        before_mb = broker.memory_mb()
        clients += [Client(broker.url) for _ in range(CONNECTIONS)]
        after_mb = broker.memory_mb()
    finally:
        for client in clients:
            client.close()
    if before_mb is None or after_mb is None:
        return {}
    return {"idle_connection_kb": (after_mb - before_mb) * 1024 / CONNECTIONS}


@workload("churn")
def churn(broker: Broker, plan: Plan) -> Figures:
    """One client: connect and close; declare and delete a queue."""

    def repeat(action: Callable[[], None]) -> float:
        count, began = 0, time.monotonic()
        while time.monotonic() - began < plan.seconds / 2:
            action()
            count += 1
        return count / (time.monotonic() - began)

    def connect() -> None:
        Client(broker.url).close()

    with Client(broker.url) as admin:
        name = f"bench.{os.getpid()}.churn"

        def declare_and_delete() -> None:
            admin.declare_queue(name)
            admin.delete_queue(name)

        return {
            "connections_per_s": repeat(connect),
            "declare_delete_per_s": repeat(declare_and_delete),
        }


# ------------------------------------------------------------------ latency


@workload("latency")
def latency(broker: Broker, plan: Plan) -> Figures:
    """From sent to received, at 5,000 messages a second."""
    return latency_at(broker, plan, 5_000)


@workload("latency-50k")
def latency_50k(broker: Broker, plan: Plan) -> Figures:
    """From sent to received, at 50,000 messages a second."""
    return latency_at(broker, plan, 50_000)


def latency_at(broker: Broker, plan: Plan, rate: int) -> Figures:
    """Latency at one rate."""
    with queues(broker) as names:
        found = measure(
            broker.url,
            names[0],
            rate=rate,
            seconds=plan.seconds,
            warm_seconds=plan.warm_seconds,
            body_bytes=plan.body_bytes,
        )
    if not found.milliseconds:
        raise LoadFailed("nothing arrived while it was measured")
    return {
        "p50_ms": found.at(0.5),
        "p99_ms": found.at(0.99),
        "p999_ms": found.at(0.999),
        "received_per_s": found.per_second,
    }
