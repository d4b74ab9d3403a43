"""The command line: `leporid serve`, `check DIR`, `config show`, `pipeline run NAME` and others.

Composition only: reads the arguments, hands them on, turns the outcome into an exit code: 0 done,
1 failed, 2 asked for wrongly. What does the work is imported by the command that needs it, so
that `--help` and `--version` answer at once.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leporid.cli import config as config_command
from leporid.cli import delays, ping, pipeline
from leporid.cli import filter_command as filters
from leporid.cli.config import config_path, tell
from leporid.server.logs import set_up

logger = logging.getLogger(__name__)

EXIT_WRONG_USE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code; `arguments` defaults to the process's own."""
    options = _parser().parse_args(arguments)
    if options.command == "serve":
        return _serve(options)
    if options.command == "config":
        return config_command.run(options)
    if options.command == "ping":
        return ping.run(options)
    set_up(options.log_level or "info")
    if options.command == "pipeline":
        return pipeline.run(options)
    if options.command == "filter":
        return filters.run(options)
    if options.command == "delays":
        return delays.run(options)
    return _check(options)


def _serve(options: argparse.Namespace) -> int:
    from leporid.server.config import Config, ConfigError, build, values_of
    from leporid.server.rabbitmq_environment import ignored

    overrides: dict[str, Any] = {
        "data_dir": options.data_dir and str(options.data_dir.expanduser().absolute()),
        "bind": options.bind,
        "amqp_port": options.amqp_port,
        "http_port": options.http_port,
        "log_level": options.log_level,
        "metrics_port": options.metrics_port,
    }
    given = {name: value for name, value in overrides.items() if value is not None}

    def read() -> Config:
        return build(values_of(config_path(options.config, os.environ), given, os.environ))

    try:
        config = read()
    except ConfigError as error:
        tell(error)
        return EXIT_WRONG_USE
    set_up(config.log_level, config.log_format)
    for name in ignored(os.environ):
        logger.info("the variable %s means nothing here and is ignored", name)

    from leporid.server.node import run

    return run(config, read)


def _check(options: argparse.Namespace) -> int:
    from leporid.server.check import check

    return check(options.directory, sys.stdout)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="leporid", description="A message broker that speaks AMQP 0-9-1."
    )
    parser.add_argument("--version", action="version", version=f"leporid {_version()}")
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="how much to write to standard error (info)",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    serve = commands.add_parser(
        "serve",
        help="run a broker in the foreground",
        description="Run a broker. When clients may connect, one line is written to standard "
        "output: ready amqp=HOST:PORT http=HOST:PORT metrics=HOST:PORT pid=PID. Options win over "
        "the environment, and that over the file. SIGHUP has the configuration read again.",
    )
    serve.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="where state lives (XDG_STATE_HOME/leporid, or ~/.local/state/leporid)",
    )
    serve.add_argument("--bind", metavar="ADDR", help="IP address to listen on (127.0.0.1)")
    serve.add_argument(
        "--amqp-port", type=int, metavar="N", help="port for AMQP clients; 0: any free one (5672)"
    )
    serve.add_argument(
        "--http-port",
        type=int,
        metavar="N",
        help="port for HTTP; 0: any free one, -1: none (15672)",
    )
    serve.add_argument(
        "--metrics-port",
        type=int,
        metavar="N",
        help="port for Prometheus; 0: any free one, -1: none (15692)",
    )
    serve.add_argument(
        "--config",
        type=Path,
        metavar="PATH",
        help="TOML file with settings, or the directory of a leporid.toml (LEPORID_CONFIG); "
        "docs/configuration.md lists them",
    )

    check = commands.add_parser(
        "check",
        help="verify a data directory",
        description="Verify every record of a data directory that no broker is using.",
    )
    check.add_argument("directory", type=Path, metavar="DIR")

    config_command.add_parser(commands)
    ping.add_parser(commands)
    filters.add_parser(commands)
    pipeline.add_parser(commands)
    delays.add_parser(commands)
    return parser


def _version() -> str:
    try:
        return importlib.metadata.version("leporid")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
