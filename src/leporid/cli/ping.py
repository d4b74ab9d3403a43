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
from typing import TYPE_CHECKING, Final

from leporid.cli.command import Parser, Plain, add_form
from leporid.cli.config import config_places, tell
from leporid.cli.output import Output

if TYPE_CHECKING:
    from leporid.server.config import Config

EXIT_OK: Final = 0
EXIT_SILENT: Final = 1
EXIT_WRONG_USE: Final = 2
ANSWER_BYTES_MAX: Final = 64 * 1024

# Who listens on all addresses listens on that of this machine.
LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def fill(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "--config", type=Path, metavar="PATH", help="as for `leporid serve` (LEPORID_CONFIG)"
    )
    parser.add_argument("--http-port", type=int, metavar="N", help="the port that was given")
    parser.add_argument(
        "--seconds", type=float, default=5.0, metavar="N", help="to wait (%(default)s)"
    )
    add_form(parser)


def run(options: argparse.Namespace) -> int:
    """Ask, and return the exit code."""
    from leporid.server.config import ConfigError, build, values_of

    given = {} if options.http_port is None else {"http_port": options.http_port}
    try:
        config = build(values_of(config_places(options.config, os.environ), given, os.environ))
    except ConfigError as error:
        tell(error)
        return EXIT_WRONG_USE
    host = LOOPBACK.get(config.bind[0], config.bind[0])
    found = _connection(config, host, options.seconds)
    if found is None:
        print("leporid: the broker has no port for HTTP (http_port, https_port)", file=sys.stderr)
        return EXIT_WRONG_USE
    connection, port = found
    try:
        connection.request("GET", "/health")
        answer = json.loads(connection.getresponse().read(ANSWER_BYTES_MAX))
        status, reasons = str(answer["status"]), [*map(str, answer.get("reasons", ()))]
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
        print(f"leporid: no answer from {host}, port {port}: {error}", file=sys.stderr)
        return EXIT_SILENT
    finally:
        connection.close()
    out = Output.of(options)
    if out.as_json:
        out.json({"status": status, "reasons": reasons})
    else:
        out.say(", ".join([status, *reasons]))
    return EXIT_OK


def _connection(
    config: Config, host: str, seconds: float
) -> tuple[http.client.HTTPConnection, int] | None:
    """Return how the broker is reached, and at which port; None: it has none for HTTP."""
    if config.http_port >= 0:
        return http.client.HTTPConnection(host, config.http_port, timeout=seconds), config.http_port
    if config.https_port < 0 or config.tls.certificate is None:
        return None
    import ssl

    # Nothing secret is said, and it is of this machine; its certificate has other names than the
    # address here, and may have expired, which is no reason to restart a broker.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    made = http.client.HTTPSConnection(host, config.https_port, timeout=seconds, context=context)
    return made, config.https_port


COMMAND: Final = Plain(
    fill,
    run,
    "Ask the broker of this configuration, on this machine, for /health; over TLS if it has no "
    "plain port for HTTP. Exit code 0: it answers, alarms or not; 1: it does not.",
)
