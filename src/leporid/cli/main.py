"""The command line: `leporid serve`, `check DIR`, `pipeline run NAME`, `delays ladder`.

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

from leporid.cli import delays, pipeline
from leporid.cli import filter_command as filters

EXIT_WRONG_USE = 2

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class OneLineFormatter(logging.Formatter):
    """Keeps what peers say within the line that quotes them.

    Names and texts in the log come from peers. With line feeds in them a peer could write lines of
    its own, with escape sequences it could move the cursor of whoever reads them: so everything
    that cannot be printed is shown as Python would write it, and only the lines of a traceback,
    which are indented, follow the first one.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the first line."""
        return _printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """Return the first line and, if there is one, the traceback."""
        first, *rest = super().format(record).split("\n")
        return "\n".join([first, *(f"    {_printable(line)}" for line in rest)])


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code; `arguments` defaults to the process's own."""
    options = _parser().parse_args(arguments)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter(LOG_FORMAT))
    logging.basicConfig(handlers=[handler], level=options.log_level.upper())
    if options.command == "serve":
        return _serve(options)
    if options.command == "pipeline":
        return pipeline.run(options)
    if options.command == "filter":
        return filters.run(options)
    if options.command == "delays":
        return delays.run(options)
    return _check(options)


def _serve(options: argparse.Namespace) -> int:
    from leporid.server.config import ConfigError, load

    overrides: dict[str, Any] = {
        "data_dir": options.data_dir and str(options.data_dir.expanduser().absolute()),
        "bind": options.bind,
        "amqp_port": options.amqp_port,
        "http_port": options.http_port,
    }
    given = {key: value for key, value in overrides.items() if value is not None}
    try:
        config = load(options.config, given, os.environ)
    except ConfigError as error:
        print(f"leporid: {error}", file=sys.stderr)
        return EXIT_WRONG_USE

    from leporid.server.node import run

    return run(config)


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
        default="info",
        help="how much to write to standard error (default: %(default)s)",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    serve = commands.add_parser(
        "serve",
        help="run a broker in the foreground",
        description="Run a broker. When clients may connect, one line is written to standard "
        "output: ready amqp=HOST:PORT http=HOST:PORT pid=PID. Options win over the file.",
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
        "--http-port", type=int, metavar="N", help="port for HTTP; 0: any free one (15672)"
    )
    serve.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="TOML file with settings; docs/configuration.md lists them",
    )

    check = commands.add_parser(
        "check",
        help="verify a data directory",
        description="Verify every record of a data directory that no broker is using.",
    )
    check.add_argument("directory", type=Path, metavar="DIR")

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
