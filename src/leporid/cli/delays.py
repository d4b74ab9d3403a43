"""`leporid delays ladder` and `leporid delays key`: the ladder of delays on any broker.

Composition only. The client that speaks to the broker, pika, comes with an extra: the broker
itself needs none, and keys are computed without it.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from leporid.client.ladder import LEVELS_MAX, QUEUE_TYPES, Ladder

EXIT_FAILED = 1
EXIT_WRONG_USE = 2

URL_VARIABLE = "LEPORID_AMQP_URL"
URL_DEFAULT = "amqp://guest:guest@127.0.0.1:5672/%2F"
URL_FORM = "amqp://USER:PASSWORD@HOST:PORT/VHOST"

# A broker that takes longer for one answer is given up.
ANSWER_SECONDS = 30.0

EXAMPLE_SECONDS = 10

REPLY_NOT_FOUND = 404

Parsers = Any


class DelaysError(Exception):
    """The broker could not be reached, or refused."""


def add_parser(commands: Parsers) -> None:
    """Add the command `delays` to the others."""
    delays = commands.add_parser(
        "delays",
        help="hold messages back with a ladder of delays, on any broker",
        description="A ladder of topic exchanges and queues holds each message for as many seconds "
        "as its routing key says; docs/delay-ladder.md explains it.",
    )
    verbs = delays.add_subparsers(dest="verb", required=True, metavar="VERB")

    ladder = verbs.add_parser(
        "ladder",
        help="declare a ladder",
        description="Declare a ladder on a broker, this or another; one that is there stays.",
    )
    _add_levels(ladder)
    ladder.add_argument(
        "--exchange",
        metavar="E",
        help="the exchange that is given the messages when their time has come; a durable topic "
        "exchange is made if there is none of that name",
    )
    ladder.add_argument(
        "--destination",
        action="append",
        default=[],
        metavar="D",
        help="what stands behind the digits in keys of messages for E, may be repeated; E itself "
        "if not given",
    )
    default = URL_DEFAULT.replace("%", "%%")  # argparse formats help texts with %
    ladder.add_argument("--url", help=f"the broker ({URL_VARIABLE}, {default})")
    ladder.add_argument(
        "--prefix",
        default="delay-",
        help="how names of its exchanges and queues begin (%(default)s); Celery's are "
        "celery_delayed_",
    )
    ladder.add_argument("--queue-type", choices=QUEUE_TYPES, default="quorum", help="(%(default)s)")

    key = verbs.add_parser("key", help="print the routing key for a delay")
    _add_levels(key)
    key.add_argument("seconds", type=int, metavar="SECONDS")
    key.add_argument("destination", metavar="DESTINATION")


def _add_levels(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--levels",
        type=int,
        default=LEVELS_MAX,
        metavar="N",
        help=f"binary digits of the longest delay, 1 to {LEVELS_MAX} (%(default)s: 8.5 years)",
    )


def run(options: argparse.Namespace) -> int:
    """Do what was asked for; return the exit code."""
    try:
        return _key(options) if options.verb == "key" else _ladder(options)
    except ValueError as error:
        print(f"leporid: {error}", file=sys.stderr)
        return EXIT_WRONG_USE
    except DelaysError as error:
        print(f"leporid: {error}", file=sys.stderr)
        return EXIT_FAILED


def _key(options: argparse.Namespace) -> int:
    print(Ladder(options.levels).key(options.seconds, options.destination))
    return 0


def _ladder(options: argparse.Namespace) -> int:
    ladder = Ladder(options.levels, prefix=options.prefix, queue_type=options.queue_type)
    exchange = options.exchange
    if options.destination and not exchange:
        raise ValueError("--destination says what leads to an exchange: give --exchange too")
    destinations = options.destination or ([exchange] if exchange else [])
    for destination in destinations:
        ladder.check_destination(destination)

    def declare(connection: Any) -> None:
        if conflict := ladder.conflict(lambda name: _has_exchange(connection, name)):
            raise DelaysError(conflict)
        channel = connection.channel()
        ladder.declare(channel)
        if exchange:
            channel = _with_exchange(connection, exchange)
        for destination in destinations:
            ladder.bind(channel, exchange, destination)

    on_broker(url_of(options), declare)
    longest = ladder.delay_seconds_max
    print(f"{ladder.levels} levels, for delays of 0 to {longest} seconds")
    for destination in destinations:
        seconds = min(EXAMPLE_SECONDS, longest)
        print(
            f"publish to {ladder.entry} with key {ladder.key(seconds, destination)}: "
            f"{exchange} gets it after {seconds} seconds"
        )
    return 0


def url_of(options: argparse.Namespace) -> str:
    """Return where the broker is."""
    return str(options.url or os.environ.get(URL_VARIABLE) or URL_DEFAULT)


def on_broker(url: str, work: Callable[[Any], None]) -> None:
    """Have something done with a connection of pika's to a broker.

    Raises:
        ValueError: the address is none.
        DelaysError: the broker is not there or refuses; or there is no pika.
    """
    try:
        import pika
        from pika.exceptions import AMQPError, ChannelClosedByBroker, ConnectionClosedByBroker
    except ImportError:
        raise DelaysError("`delays ladder` needs a client: pip install 'leporid[delays]'") from None
    # It logs each error as well as raising it.
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    parameters = _parameters(url)
    where = f"{parameters.host}:{parameters.port}"
    try:
        connection = pika.BlockingConnection(parameters)
    except (AMQPError, OSError) as error:
        raise DelaysError(f"no broker at {where} lets us in: {_text(error)}") from error
    try:
        work(connection)
    except (ChannelClosedByBroker, ConnectionClosedByBroker) as error:
        raise DelaysError(f"the broker at {where} refused: {error.reply_text}") from error
    except (AMQPError, OSError) as error:
        raise DelaysError(f"lost the broker at {where}: {_text(error)}") from error
    finally:
        if connection.is_open:
            connection.close()


def _parameters(url: str) -> Any:
    from pika import URLParameters

    try:
        parts = urlsplit(url)
        if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
            raise ValueError
        parameters = URLParameters(url)
    except (ValueError, TypeError) as error:
        # The address itself is not repeated, as there may be a password in it.
        raise ValueError(f"the broker's address is not of the form {URL_FORM}") from error
    parameters.socket_timeout = parameters.blocked_connection_timeout = ANSWER_SECONDS
    return parameters


def _with_exchange(connection: Any, name: str) -> Any:
    """Make an exchange if there is none of that name; returns an open channel."""
    there = _has_exchange(connection, name)
    channel = connection.channel()
    if not there:
        channel.exchange_declare(name, "topic", durable=True)
    return channel


def _has_exchange(connection: Any, name: str) -> bool:
    from pika.exceptions import ChannelClosedByBroker

    channel = connection.channel()
    try:
        channel.exchange_declare(name, passive=True)
    except ChannelClosedByBroker as error:
        if error.reply_code != REPLY_NOT_FOUND:
            raise
        return False
    channel.close()
    return True


def _text(error: BaseException) -> str:
    """Say what is wrong; pika keeps the cause in what it raises."""
    cause = error.args[0] if error.args else None
    cause = getattr(cause, "exception", cause)
    if isinstance(cause, BaseException):
        return _text(cause) if cause is not error else type(error).__name__
    return str(error) or type(error).__name__
