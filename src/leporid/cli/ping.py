"""`leporid ping`: whether the broker of this configuration answers; for health checks.

Composition only. Exit codes: 0 it answers, also if it says that something is wrong with it; 1 it,
or a port that was named, does not; 2 asked for wrongly. Who has a broker restarted because of this
should not do so while an alarm is on: it would come back with the same memory and the same disk.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import sys
import time
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
HEALTHY: Final = "ok"
PAUSE_SECONDS: Final = 0.2
ERRORS: Final = (OSError, http.client.HTTPException, ValueError, LookupError, TypeError)

# Who listens on all addresses listens on that of this machine.
LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def fill(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "--config", type=Path, metavar="PATH", help="as for `leporid serve` (LEPORID_CONFIG)"
    )
    parser.add_argument("--http-port", type=int, metavar="N", help="the port that was given")
    parser.add_argument(
        "--wait",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="go on asking until it answers, at most so long (infinity: for ever)",
    )
    parser.add_argument(
        "--healthy", action="store_true", help="nothing is wrong with it, such as an alarm, either"
    )
    parser.add_argument(
        "--port",
        type=int,
        action="append",
        default=[],
        metavar="N",
        help="it listens on this port, too; may be repeated",
    )
    parser.add_argument(
        "--all-ports", action="store_true", help="it listens on all ports of clients and of HTTP"
    )
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
    deadline = time.monotonic() + options.wait
    while True:
        try:
            status, reasons = _asked(connection)
            break
        except ERRORS as error:
            if time.monotonic() >= deadline:
                print(f"leporid: no answer from {host}, port {port}: {error}", file=sys.stderr)
                return EXIT_SILENT
        finally:
            connection.close()
        time.sleep(PAUSE_SECONDS)
    for number in _checked_ports(config, options):
        if (why := _silent(config, number, options.seconds)) is not None:
            print(f"leporid: no listener at {host}, port {number}: {why}", file=sys.stderr)
            return EXIT_SILENT
    out = Output.of(options)
    if out.as_json:
        out.json({"status": status, "reasons": reasons})
    else:
        out.say(", ".join([status, *reasons]))
    return EXIT_SILENT if options.healthy and status != HEALTHY else EXIT_OK


def _asked(connection: http.client.HTTPConnection) -> tuple[str, list[str]]:
    """Return what the broker says of itself, and why; raises one of ERRORS."""
    connection.request("GET", "/health")
    answer = json.loads(connection.getresponse().read(ANSWER_BYTES_MAX))
    return str(answer["status"]), [*map(str, answer.get("reasons", ()))]


def _checked_ports(config: Config, options: argparse.Namespace) -> list[int]:
    """Return the ports of which somebody wants to know whether they take connections."""
    ports: list[int] = list(options.port)
    if options.all_ports:
        tls = (config.amqps_port, config.https_port) if config.tls.certificate else ()
        ports += [each for each in (config.amqp_port, config.http_port, *tls) if each > 0]
    return ports


def _silent(config: Config, port: int, seconds: float) -> str | None:
    """Return why the broker takes no connection at a port; None: it does."""
    ports = [config.amqp_port, config.amqps_port, config.http_port, config.https_port]
    ports += [config.metrics_port, config.metrics_https_port]
    # Where it may have any free port, nobody knows which.
    if port not in ports and 0 not in ports:
        return "it is none of the configuration"
    host = LOOPBACK.get(config.bind[0], config.bind[0])
    try:
        with socket.create_connection((host, port), timeout=seconds):
            return None
    except (OSError, OverflowError) as error:
        return str(error)


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
    "plain port for HTTP. Exit code 0: it answers, alarms or not; 1: it, or a port that was named, "
    "does not, or, with --healthy, something is wrong with it.",
)
