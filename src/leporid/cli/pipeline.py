"""`leporid pipeline run NAME` and `--config FILE`: arguments into pipelines. Composition only.

Spark is imported by what is run, not by what lists the arguments.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leporid.cli.command import Parser, Plain
from leporid.cli.pipeline_arguments import (
    file,
    master,
    number,
    number_or_0,
    remote,
    routing_key,
    seconds,
)

if TYPE_CHECKING:
    from leporid.spark.pipelines.origin import Origin

EXIT_FAILED = 1
EXIT_WRONG_USE = 2


def fill(parser: Parser) -> None:
    """Add the pipelines."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="run")
    run = verbs.add_parser("run", help="run one of the pipelines, or several from a file")
    run.add_argument("--config", type=Path, metavar="FILE", help="run what a file says")
    run.add_argument(
        "--only", action="append", metavar="TABLE", help="of the file, only this run; repeatable"
    )
    run.add_argument("--once", action="store_true", help="end each when nothing is left to do")
    run.add_argument("--dry-run", action="store_true", help="say what would be done, and end")
    names = run.add_subparsers(dest="pipeline", metavar="NAME")
    for name, (text, _) in PIPELINES.items():
        made = names.add_parser(name, help=text, description=text + ".")
        fill_one(name, made)


def fill_one(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of one pipeline."""
    _add_common(parser)
    PIPELINES[name][1](parser)


def _add_common(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("where")
    spark = where.add_mutually_exclusive_group()
    spark.add_argument("--master", type=master, help="local[*] (the default), spark://HOST:PORT, …")
    spark.add_argument(
        "--remote", type=remote, help="a Spark Connect server instead: sc://HOST:PORT"
    )
    where.add_argument("--url", help="the broker's HTTP side (LEPORID_URL, http://127.0.0.1:15672)")
    where.add_argument("--vhost", help="virtual host (/)")
    where.add_argument("--user", help="user (LEPORID_USER, guest)")
    where.add_argument("--password-env", metavar="NAME", help="variable with the password")
    where.add_argument("--password-file", metavar="FILE", help="file with the password")
    where.add_argument(
        "--ca-file",
        type=file,
        metavar="FILE",
        help="certificates that https:// is checked against",
    )
    how = parser.add_argument_group("how")
    how.add_argument("--once", action="store_true", help="end when nothing is left to do")
    how.add_argument("--dry-run", action="store_true", help="say what would be done, and end")
    how.add_argument(
        "--metrics", type=Path, metavar="FILE", help="keep metrics for Prometheus here"
    )
    how.add_argument(
        "--status", type=Path, metavar="FILE", help="keep the state of the run here, in JSON"
    )
    how.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark's"
    )


def _add_stream(parser: argparse.ArgumentParser, *, archive: bool = True) -> None:
    parser.add_argument("--stream", required=True, help="the stream")
    if archive:
        parser.add_argument("--archive", metavar="PLACE", help="the stream's archive")


def _add_interval(parser: argparse.ArgumentParser, default: float) -> None:
    parser.add_argument(
        "--interval",
        type=seconds,
        default=default,
        metavar="SECONDS",
        help="without --once, again after so long (%(default)g)",
    )


def _add_archive(parser: argparse.ArgumentParser) -> None:
    streams = parser.add_mutually_exclusive_group(required=True)
    streams.add_argument("--stream", help="the stream; needed is this or one of the next two")
    streams.add_argument("--streams", metavar="A,B", help="several, each with a table of its own")
    streams.add_argument("--stream-pattern", metavar="REGEX", help="all whose whole name matches")
    parser.add_argument(
        "--to",
        required=True,
        metavar="PLACE",
        help="the archive's folder, or s3://BUCKET/PREFIX; with several, {stream} is the name",
    )
    parser.add_argument("--format", default="delta", help="delta, iceberg (%(default)s)")
    parser.add_argument(
        "--start", default="earliest", help="earliest, latest, a time (%(default)s)"
    )
    parser.add_argument(
        "--schema", metavar="FIELDS", help='bodies\' fields: "id bigint, name string", or "infer"'
    )
    _add_body(parser)
    parser.add_argument(
        "--freshness",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="how late at most (%(default)g)",
    )
    parser.add_argument("--filter", metavar="EXPRESSION", help="only the records it lets through")
    parser.add_argument("--filter-dialect", metavar="NAME", help="jms (default), rocketmq")
    parser.add_argument("--filter-tags", metavar="A,B", help="only records with one of these tags")
    parser.add_argument("--routing-key-pattern", metavar="PATTERN", help="only such keys: a.*.#")
    parser.add_argument(
        "--partition-by",
        metavar="A,B",
        help="date (default), hour, partition, exchange, routing_key, value.FIELD",
    )
    parser.add_argument("--catalog", metavar="NAME", help="of PyIceberg's configuration")
    parser.add_argument("--table", metavar="NAMESPACE.NAME", help="the table in that catalog")
    parser.add_argument(
        "--catalog-option", action="append", default=[], metavar="KEY=VALUE", help="of PyIceberg's"
    )
    parser.add_argument(
        "--commit-rows",
        type=int,
        default=2_000_000,
        metavar="N",
        help="rows of a commit, at most (%(default)s)",
    )
    parser.add_argument(
        "--compact-every",
        type=number_or_0,
        default=32,
        metavar="N",
        help="merge after so many new files (%(default)s); 0: never",
    )
    _add_keep(parser)
    parser.add_argument("--tasks", type=number, metavar="N", help="tasks of a commit, at least")
    parser.add_argument(
        "--reader-name",
        metavar="NAME",
        help="show the position at the broker under this name, '' for none (USER.archive:PLACE, or "
        "USER.TABLE of the file)",
    )
    parser.add_argument(
        "--allow-loss", action="store_true", help="go on when records are gone before they are read"
    )


def _add_keep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep",
        type=seconds,
        metavar="HOURS",
        help="merged files and old versions stay so long (Delta 168, Iceberg 1)",
    )


def _add_body(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("bodies")
    group.add_argument(
        "--body",
        metavar="FORMAT",
        help="json (default), json-schema, avro, protobuf, csv, text; auto: as each message says",
    )
    group.add_argument(
        "--schemas", metavar="PLACE", help="a file, a folder, or http(s)://[USER:PASSWORD@]REGISTRY"
    )
    group.add_argument("--subject", help="whose newest schema makes the columns (STREAM-value)")
    group.add_argument("--message", help="of Protobuf, the message: shop.Order")
    group.add_argument("--delimiter", help="of CSV (a comma)")


def _body(options: argparse.Namespace) -> Any:
    """Return how bodies are decoded; None if nothing was said."""
    from leporid.spark.pipelines.bodies.decoder import Body

    body = Body(
        options.body or "",
        schemas=options.schemas or "",
        subject=options.subject or "",
        message=options.message or "",
        delimiter=options.delimiter or "",
    )
    return None if body == Body("") else body


def _archive(options: argparse.Namespace) -> Any:
    from leporid.spark.pipelines.archive import Archive, Plan
    from leporid.spark.pipelines.archives import Archives, reading_of
    from leporid.spark.pipelines.origin import Origin
    from leporid.spark.pipelines.run_reports import reader_name

    select = {
        "filter": options.filter,
        "filterDialect": options.filter_dialect,
        "filterTags": options.filter_tags,
        "routingKeyPattern": options.routing_key_pattern,
    }
    origin = Origin(
        options.stream or "",
        broker(options),
        not options.allow_loss,
        {name: value for name, value in select.items() if value is not None},
    )
    reader = options.reader_name
    if reader is None and options.run_name:
        reader = reader_name(origin.client.to.user, options.run_name)
    plan = Plan(
        options.to,
        options.format,
        start=options.start,
        schema=options.schema,
        body=_body(options),
        freshness_seconds=options.freshness,
        commit_rows=options.commit_rows,
        tasks=options.tasks,
        reader_name=reader,
        compact_files=options.compact_every,
        keep_seconds=None if options.keep is None else options.keep * 3600,
        layout=_layout(options),
    )
    if options.stream is not None:
        return Archive(None, origin, plan)
    return Archives(None, origin, plan, reading_of(options.streams, options.stream_pattern))


def _layout(options: argparse.Namespace) -> Any:
    """Return how a table is to be laid out; None if nothing was said."""
    from leporid.spark.pipelines.store import Layout

    given = (options.partition_by, options.catalog, options.table, options.catalog_option)
    if not any(given):
        return None
    names = (options.partition_by or "date").split(",")
    return Layout(
        tuple(name.strip() for name in names),
        options.catalog,
        options.table,
        pairs(options.catalog_option),
    )


def _add_compact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--archive", required=True, metavar="PLACE", help="the archive")
    parser.add_argument(
        "--files",
        type=number,
        default=2,
        metavar="N",
        help="of Iceberg, if a partition has so many (%(default)s)",
    )
    _add_keep(parser)
    _add_interval(parser, 3600.0)


def _compact(options: argparse.Namespace) -> Any:
    from leporid.spark.pipelines.archive import Plan
    from leporid.spark.pipelines.archives import Compact

    keep = None if options.keep is None else options.keep * 3600
    plan = Plan(options.archive, compact_files=options.files, keep_seconds=keep)
    return Compact(plan, options.interval)


def _add_reprocess(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--archive", required=True, metavar="DIR", help="the archive whose bad records they are"
    )
    group = parser.add_argument_group("bodies", "what the archive has, unless said otherwise")
    group.add_argument(
        "--schemas", metavar="PLACE", help="a file, a folder, or http(s)://[USER:PASSWORD@]REGISTRY"
    )
    group.add_argument("--subject", help="whose newest schema makes the columns")
    group.add_argument("--message", help="of Protobuf, the message")
    group.add_argument("--delimiter", help="of CSV")
    _add_interval(parser, 600.0)


def _reprocess(options: argparse.Namespace) -> Any:
    from leporid.spark.pipelines.reprocess import Reprocess

    options.body = None
    return Reprocess(options.archive, _body(options), options.interval)


def _add_traffic(parser: argparse.ArgumentParser) -> None:
    _add_stream(parser)
    parser.add_argument("--to", required=True, type=Path, metavar="DIR", help="report and tables")
    parser.add_argument("--since", type=seconds, metavar="SECONDS", help="look back so far only")
    parser.add_argument("--every", metavar="TIME", help="length of an interval: `10 seconds`")
    parser.add_argument(
        "--gap", default="5 minutes", metavar="TIME", help="what ends a session (%(default)s)"
    )
    parser.add_argument("--sent-at", metavar="SQL", help="when a message was sent")
    _add_interval(parser, 60.0)


def _traffic(options: argparse.Namespace) -> Any:
    from leporid.spark.pipelines.origin import Origin
    from leporid.spark.pipelines.traffic import Traffic, TrafficPlan

    plan = TrafficPlan(
        options.to,
        options.archive,
        options.since,
        options.every,
        options.gap,
        options.sent_at,
        options.interval,
    )
    return Traffic(None, Origin(options.stream, broker(options)), plan)


def _add_replay(parser: argparse.ArgumentParser) -> None:
    _add_stream(parser)
    parser.add_argument(
        "--state", required=True, type=Path, metavar="FILE", help="how far this replay came"
    )
    parser.add_argument("--where", metavar="SQL", help="which records: routing_key like 'a.%%'")
    parser.add_argument("--since", metavar="TIME", help="nothing older")
    parser.add_argument("--until", metavar="TIME", help="nothing from this time on")
    parser.add_argument("--exchange", help="where to; without it, where each was published before")
    parser.add_argument(
        "--routing-key", type=routing_key, help="with which key; without it, each record's own"
    )
    parser.add_argument("--rate", type=float, metavar="N", help="messages in a second, at most")
    parser.add_argument(
        "--unroutable",
        choices=("fail", "ignore"),
        default="fail",
        help="what is done if no queue takes a message (%(default)s)",
    )
    parser.add_argument(
        "--include-bad", action="store_true", help="also what does not fit the archive's schema"
    )


def _replay_plan(options: argparse.Namespace) -> Any:
    from leporid.spark.pipelines.replay import ReplayPlan

    return ReplayPlan(
        options.state,
        options.archive,
        options.where,
        options.since,
        options.until,
        options.exchange,
        options.routing_key,
        options.rate,
        unroutable_fails=options.unroutable == "fail",
        include_bad=options.include_bad,
    )


def _replay(options: argparse.Namespace) -> Any:
    from leporid.spark.pipelines.origin import Origin
    from leporid.spark.pipelines.replay import Replay

    origin = Origin(options.stream, broker(options))
    _check_exchange(origin, options.exchange)
    return Replay(None, origin, _replay_plan(options))


def _redrive(options: argparse.Namespace) -> Any:
    from leporid.spark.pipelines.deadletters import Redrive
    from leporid.spark.pipelines.origin import Origin

    origin = Origin(options.stream, broker(options))
    _check_exchange(origin, options.exchange)
    return Redrive(None, origin, _replay_plan(options))


def _check_exchange(origin: Origin, exchange: str | None) -> None:
    """Ask the broker, before Spark starts, whether one may publish there.

    Raises:
        BrokerError: it says no.
    """
    if exchange:
        import pyarrow as pa

        from leporid.spark.writer import nothing

        origin.client.check_exchange(exchange, nothing(pa.schema({"body": pa.binary()})))


def _add_deadletters(parser: argparse.ArgumentParser) -> None:
    _add_stream(parser)
    parser.add_argument(
        "--samples", type=number, default=3, metavar="N", help="of each reason (%(default)s)"
    )
    _add_interval(parser, 60.0)


def _deadletters(options: argparse.Namespace) -> Any:
    from leporid.spark.pipelines.deadletters import DeadLetters
    from leporid.spark.pipelines.origin import Origin

    origin = Origin(options.stream, broker(options))
    return DeadLetters(None, origin, options.archive, options.interval, options.samples)


def _add_schedule(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tasks", required=True, metavar="PLACE", help="file, folder, or JDBC URL")
    parser.add_argument(
        "--format", default="parquet", help="parquet, csv, json, jdbc (%(default)s)"
    )
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="of Spark's reader"
    )
    parser.add_argument(
        "--select",
        metavar="SQL",
        help='columns, if they are named otherwise: "nr as id, at as execute_at, text as body"',
    )
    parser.add_argument("--ledger", required=True, type=Path, metavar="DIR", help="what was sent")
    parser.add_argument("--exchange", default="", help="where to, if a task does not say")
    parser.add_argument(
        "--horizon", type=seconds, metavar="SECONDS", help="hand over so early only"
    )
    _add_interval(parser, 10.0)


def _schedule(options: argparse.Namespace) -> Any:
    from leporid.spark.pipelines.origin import Origin
    from leporid.spark.pipelines.schedule import Ledger, Schedule, check_tasks

    check_tasks(options.tasks, options.format)
    given = pairs(options.option)

    def tasks(spark: Any) -> Any:
        reader = spark.read.format(options.format).options(**given)
        if options.format == "csv":
            reader = reader.option("header", given.get("header", "true"))
        jdbc = options.format == "jdbc"
        found = reader.option("url", options.tasks).load() if jdbc else reader.load(options.tasks)
        return found.selectExpr(*split_columns(options.select)) if options.select else found

    origin = Origin("", broker(options))
    _check_exchange(origin, options.exchange)
    return Schedule(
        tasks,
        origin.client,
        Ledger(options.ledger),
        options.exchange,
        options.horizon,
        interval_seconds=options.interval,
    )


Add = Callable[[argparse.ArgumentParser], None]

PIPELINES: dict[str, tuple[str, Add]] = {
    "archive": ("write a stream into a table of files, each record exactly once", _add_archive),
    "compact": ("merge an archive's small files, and remove old ones", _add_compact),
    "reprocess": ("decode again what an archive has put aside", _add_reprocess),
    "traffic": ("measure rates, sizes, delays, keys and sessions; make a report", _add_traffic),
    "replay": ("publish records of an archive or a stream again", _add_replay),
    "deadletters": ("say why messages died, with samples", _add_deadletters),
    "redrive": ("send dead letters back to where they died", _add_replay),
    "schedule": ("publish a table of tasks, each to arrive at its time", _add_schedule),
}

MAKE: dict[str, Callable[[argparse.Namespace], Any]] = {
    "archive": _archive,
    "compact": _compact,
    "reprocess": _reprocess,
    "traffic": _traffic,
    "replay": _replay,
    "deadletters": _deadletters,
    "redrive": _redrive,
    "schedule": _schedule,
}

# Wanting no Spark to say what they would do, they say it at once.
DRY_WITHOUT_SPARK = {"archive", "traffic", "deadletters"}
# Needs none at all.
WITHOUT_SPARK = {"compact", "reprocess"}
# With `--once`, these do it without Spark if there is little to do.
SMALL_WITHOUT_SPARK = {"deadletters", "redrive"}


def broker(options: argparse.Namespace) -> dict[str, str]:
    """Return how to reach the broker, as the data source takes it."""
    given = {
        "url": options.url,
        "vhost": options.vhost,
        "user": options.user,
        "passwordEnv": options.password_env,
        "passwordFile": options.password_file,
        "caFile": options.ca_file,
    }
    return {name: value for name, value in given.items() if value is not None}


def pairs(given: list[str]) -> dict[str, str]:
    """Read KEY=VALUE.

    Raises:
        ValueError: there is no equals sign.
    """
    for text in given:
        if "=" not in text:
            raise ValueError(f"{text!r} is not KEY=VALUE")
    return {key: value for key, _, value in (text.partition("=") for text in given)}


def split_columns(text: str) -> list[str]:
    """Split SQL columns at the commas that are not within parentheses or quotes."""
    found, depth, quote = [""], 0, ""
    for one in text:
        if quote:
            quote = "" if one == quote else quote
        elif one in "'\"`":
            quote = one
        elif one in "()":
            depth += 1 if one == "(" else -1
        elif one == "," and not depth:
            found.append("")
            continue
        found[-1] += one
    return [part.strip() for part in found]


def run(options: argparse.Namespace) -> int:
    """Run a pipeline, or those of a file; return the exit code."""
    if (options.config is None) == (options.pipeline is None):
        print(
            "leporid: give the name of a pipeline, or --config FILE: "
            f"{', '.join(PIPELINES)}; `leporid pipeline run --help` says more",
            file=sys.stderr,
        )
        return EXIT_WRONG_USE
    if options.only and options.config is None:
        print("leporid: --only needs --config", file=sys.stderr)
        return EXIT_WRONG_USE
    try:
        from leporid.spark.errors import SparkSourceError
        from leporid.spark.pipelines.runner import exit_code_of, first
    except ImportError as error:
        print(f"leporid: pipelines need `pip install leporid[spark]`: {error}", file=sys.stderr)
        return EXIT_FAILED
    # Py4J logs each command it sends at this level.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # A registry that is away is told once, and not at each of three attempts.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    try:
        return _run_one(options) if options.config is None else _run_file(options)
    except Exception as error:
        # PySpark's exceptions have no root but their modules that works in classic and Connect.
        ours = isinstance(error, (SparkSourceError, ValueError, RuntimeError, OSError))
        if not ours and not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        print(f"leporid: {first(error)}", file=sys.stderr)
        return exit_code_of(error)


def _run_one(options: argparse.Namespace) -> int:
    """Run a pipeline."""
    from leporid.spark.pipelines.runner import check
    from leporid.spark.pipelines.runner import run as run_pipeline

    settings = pairs(options.conf)
    # Spark takes seconds to start: what is wrong without it is said before.
    options.run_name = ""
    pipeline = MAKE[options.pipeline](options)
    how = _how(options, pipeline)
    check(pipeline, how)
    with _session(options, [options], [pipeline], settings) as spark:
        pipeline.spark = spark
        run_pipeline(pipeline, how)
    return 0


def _run_file(options: argparse.Namespace) -> int:
    """Run what a file says; the exit code is the greatest of all runs."""
    from leporid.cli.pipeline_config import ConfigError, read
    from leporid.spark.errors import SparkSourceError
    from leporid.spark.pipelines.places import place_of
    from leporid.spark.pipelines.runner import check
    from leporid.spark.pipelines.several import Job, Lines, run_all
    from leporid.spark.pipelines.store import MissingArchiveError

    fills = {name: functools.partial(fill_one, name) for name in PIPELINES}
    file = read(options.config, fills, options.only)
    jobs = []
    made = {
        name: place_of(given.to)
        for name, given in file.runs.items()
        if given.pipeline == "archive" and given.stream is not None
    }
    out = Lines(sys.stdout)
    for name, given in file.runs.items():
        given.once, given.dry_run = options.once or given.once, options.dry_run or given.dry_run
        given.run_name = name
        try:
            pipeline = MAKE[given.pipeline](given)
            how = dataclasses.replace(_how(given, pipeline), name=name, out=out)
            archive = getattr(given, "archive", None)
            reads = None if archive is None else place_of(archive)
            check(pipeline, how, (MissingArchiveError,) if reads in made.values() else ())
        except ValueError as error:
            raise ConfigError(f"{options.config}: [pipelines.{name}]: {error}") from error
        except SparkSourceError as error:
            where = f"{options.config}: [pipelines.{name}]"
            raise SparkSourceError(f"{where}: {error}") from error
        jobs.append(Job(pipeline, how, made.get(name), reads))
    options.master, options.remote = file.master, file.remote
    # Spark's default gives all cores to whoever came first.
    settings = {"spark.scheduler.mode": "FAIR", **file.conf}
    pipelines = [job.pipeline for job in jobs]
    with _session(options, list(file.runs.values()), pipelines, settings) as spark:
        for job in jobs:
            job.pipeline.spark = spark
        codes = run_all(jobs)
    for name, code in codes.items():
        logging.getLogger(__name__).info("%s ended with exit code %d", name, code)
    return max(codes.values())


def _how(options: argparse.Namespace, pipeline: Any) -> Any:
    from leporid.spark.pipelines.origin import Origin
    from leporid.spark.pipelines.run_reports import Reports, run_name
    from leporid.spark.pipelines.runner import Run

    reader = pipeline.reader if options.pipeline == "archive" else ""
    name = options.run_name or run_name(pipeline.name, pipeline.labels)
    return Run(
        once=options.once,
        dry_run=options.dry_run,
        metrics=options.metrics,
        status=options.status,
        reports=Reports(Origin("", broker(options)).client, name, reader),
    )


def _needs_spark(options: argparse.Namespace, pipeline: Any) -> bool:
    if options.pipeline in WITHOUT_SPARK:
        return False
    if options.pipeline in SMALL_WITHOUT_SPARK and (options.once or options.dry_run):
        return bool(options.master or options.remote or pipeline.needs_spark())
    return not (options.dry_run and options.pipeline in DRY_WITHOUT_SPARK)


@contextmanager
def _session(
    options: argparse.Namespace,
    runs: list[argparse.Namespace],
    pipelines: list[Any],
    settings: dict[str, str],
) -> Iterator[Any]:
    """Start Spark, unless no run needs it; stop it at the end."""
    if not any(map(_needs_spark, runs, pipelines)):
        yield None
        return
    from leporid.spark.session import session

    name = runs[0].pipeline if len(runs) == 1 else "pipelines"
    spark = session(
        f"leporid {name}", master=options.master, remote=options.remote, settings=settings
    )
    try:
        yield spark
    finally:
        spark.stop()


COMMAND: Final = Plain(
    fill,
    run,
    "Data pipelines over streams, on Spark: pip install leporid[spark]. docs/pipelines.md has an "
    "example of each.",
    logs=True,
)
