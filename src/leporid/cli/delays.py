"""`leporid delays ladder` and `leporid delays key`: the ladder of delays on any broker.

Composition only. The client that speaks to the broker, pika, comes with an extra: the broker
itself needs none, and keys are computed without it.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from leporid.cli.command import Kind, Verb, argument
from leporid.cli.outcomes import Failure, WrongUse
from leporid.client.ladder import LEVELS_MAX, QUEUE_TYPES, Ladder

if TYPE_CHECKING:
    from leporid.cli.output import Output
    from leporid.cli.session import Session

URL_VARIABLE = "LEPORID_AMQP_URL"
URL_DEFAULT = "amqp://guest:guest@127.0.0.1:5672/%2F"
URL_FORM = "amqp://USER:PASSWORD@HOST:PORT/VHOST"

# A broker that takes longer for one answer is given up.
ANSWER_SECONDS = 30.0

EXAMPLE_SECONDS = 10

REPLY_NOT_FOUND = 404


class DelaysError(Failure):
    """The broker could not be reached, or refused."""


LEVELS: Final = argument(
    "--levels",
    type=int,
    default=LEVELS_MAX,
    metavar="N",
    help=f"binary digits of the longest delay, 1 to {LEVELS_MAX} (%(default)s: 8.5 years)",
)
# argparse formats help texts with %.
_URL_SHOWN: Final = URL_DEFAULT.replace("%", "%%")


def _key(session: Session, options: argparse.Namespace) -> None:
    try:
        key = Ladder(options.levels).key(options.seconds, options.destination)
    except ValueError as error:
        raise WrongUse(str(error)) from None
    out = session.out
    if out.as_json:
        out.json({"key": key})
    else:
        out.line(key)


def _ladder(session: Session, options: argparse.Namespace) -> None:
    try:
        _make_ladder(session.out, options)
    except ValueError as error:
        raise WrongUse(str(error)) from None


def _make_ladder(out: Output, options: argparse.Namespace) -> None:
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
    seconds = min(EXAMPLE_SECONDS, longest)
    keys = {each: ladder.key(seconds, each) for each in destinations}
    if out.as_json:
        out.json(
            {
                "levels": ladder.levels,
                "delay_seconds_max": longest,
                "entry": ladder.entry,
                "examples": [
                    {"destination": destination, "seconds": seconds, "key": key}
                    for destination, key in keys.items()
                ],
            }
        )
        return
    out.say(f"{ladder.levels} levels, for delays of 0 to {longest} seconds")
    for key in keys.values():
        out.say(
            f"publish to {ladder.entry} with key {key}: {exchange} gets it after {seconds} seconds"
        )


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


VERBS: Final = (
    Verb(
        "ladder",
        "declare a ladder of delays on a broker, this or another",
        _ladder,
        (
            LEVELS,
            argument(
                "--exchange",
                metavar="E",
                help="the exchange that is given the messages when their time has come; a durable "
                "topic exchange is made if there is none of that name",
            ),
            argument(
                "--destination",
                action="append",
                default=[],
                metavar="D",
                help="what stands behind the digits in keys of messages for E, may be repeated; E "
                "itself if not given",
            ),
            argument("--url", help=f"the broker ({URL_VARIABLE}, {_URL_SHOWN})"),
            argument(
                "--prefix",
                default="delay-",
                help="how names of its exchanges and queues begin (%(default)s); Celery's are "
                "celery_delayed_",
            ),
            argument("--queue-type", choices=QUEUE_TYPES, default="quorum", help="(%(default)s)"),
        ),
        Kind.SHOW,
        broker=False,
        about="Declare a ladder on a broker, this or another; one that is there stays.",
    ),
    Verb(
        "key",
        "print the routing key for a delay",
        _key,
        (
            LEVELS,
            argument("seconds", type=int, metavar="SECONDS"),
            argument("destination", metavar="DESTINATION"),
        ),
        Kind.SHOW,
        broker=False,
    ),
)
