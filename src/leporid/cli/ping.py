"""`leporid ping`: whether the broker of this configuration answers; for health checks.

Composition only. Exit codes: 0 it answers, also if it says that something is wrong with it; 1 it
does not; 2 asked for wrongly. Who has a broker restarted because of this should not do so while an
alarm is on: it would come back with the same memory and the same disk.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from leporid.cli.config import config_path, tell

EXIT_OK: Final = 0
EXIT_SILENT: Final = 1
EXIT_WRONG_USE: Final = 2
ANSWER_BYTES_MAX: Final = 64 * 1024

# Who listens on all addresses listens on that of this machine.
LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def add_parser(commands: Any) -> None:
    """Add the command `ping` to the others."""
    command = commands.add_parser(
        "ping",
        help="say whether a broker answers",
        description="Ask the broker of this configuration, on this machine, for /health. Exit code "
        "0: it answers, alarms or not; 1: it does not.",
    )
    command.add_argument(
        "--config", type=Path, metavar="PATH", help="as for `leporid serve` (LEPORID_CONFIG)"
    )
    command.add_argument("--http-port", type=int, metavar="N", help="the port that was given")
    command.add_argument(
        "--seconds", type=float, default=5.0, metavar="N", help="to wait (%(default)s)"
    )


def run(options: argparse.Namespace) -> int:
    """Ask, and return the exit code."""
    from leporid.server.config import ConfigError, build, values_of

    given = {} if options.http_port is None else {"http_port": options.http_port}
    try:
        config = build(values_of(config_path(options.config, os.environ), given, os.environ))
    except ConfigError as error:
        tell(error)
        return EXIT_WRONG_USE
    host = LOOPBACK.get(config.bind[0], config.bind[0])
    connection = http.client.HTTPConnection(host, config.http_port, timeout=options.seconds)
    try:
        connection.request("GET", "/health")
        answer = json.loads(connection.getresponse().read(ANSWER_BYTES_MAX))
        said = ", ".join([str(answer["status"]), *map(str, answer.get("reasons", ()))])
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
        print(f"leporid: no answer from {host}, port {config.http_port}: {error}", file=sys.stderr)
        return EXIT_SILENT
    finally:
        connection.close()
    print(said)
    return EXIT_OK
