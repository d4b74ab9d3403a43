"""`leporid filter test EXPR`: arguments into a message, and why an expression is true of it.

Composition only. Exit codes: 0 match, 1 no match, 2 no expression, or asked for wrongly. Grammars
and engine are imported by what is run, not by what lists the arguments.
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value
from leporid.cli.command import Parser, Plain, add_form
from leporid.cli.output import Output
from leporid.filters.dialects import DEFAULT, Dialect
from leporid.filters.errors import FilterError
from leporid.filters.names import PROPERTIES

EXIT_MATCH = 0
EXIT_NO_MATCH = 1
EXIT_WRONG_USE = 2

NUMBERS = ("priority", "timestamp", "delivery_mode")


def fill(parser: Parser) -> None:
    """Add the verb."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="test")
    test = verbs.add_parser(
        "test",
        help="say whether a message passes, and why",
        description="Evaluate an expression over one message and show the value of each part. "
        "Exit code 0: it matches; 1: it does not; 2: it is no expression.",
    )
    test.add_argument("expression", metavar="EXPR", help="dep_delay > 60 AND origin = 'JFK'")
    test.add_argument(
        "--dialect", type=_dialect, default=DEFAULT, metavar="NAME",
        help=f"{', '.join(Dialect)} (%(default)s)",
    )  # fmt: skip
    test.add_argument(
        "--header", action="append", default=[], type=_header, metavar="NAME=VALUE",
        help="a header: a number, true, false, null, or a text; in single quotes always a text",
    )  # fmt: skip
    test.add_argument(
        "--property", action="append", default=[], type=_property, metavar="NAME=VALUE",
        help=f"a property: {', '.join(PROPERTIES)}",
    )  # fmt: skip
    test.add_argument("--routing-key", default="", metavar="KEY", help="empty by default")
    test.add_argument("--exchange", default="", metavar="NAME", help="empty by default")
    add_form(test)


def run(options: argparse.Namespace) -> int:
    """Explain, and return the exit code."""
    from leporid.engine.selectors.selector import Selector
    from leporid.filters.compiler import program
    from leporid.filters.explanation import Explanation
    from leporid.filters.messages import FilteredMessage
    from leporid.filters.parser import parse

    dialect: Dialect = options.dialect
    try:
        tree = parse(options.expression, dialect)
    except FilterError as error:
        print(f"leporid: {error}\n\n{error.pointer()}", file=sys.stderr)
        return EXIT_WRONG_USE
    try:
        properties = Properties(headers=dict(options.header), **dict(options.property))
        encoded = encode_properties(properties)
        message = FilteredMessage(properties, options.exchange, options.routing_key)
        # What a broker would do …
        selector = Selector(program(options.expression, dialect).code)
        outcome = selector.outcome(message.exchange, message.routing_key, encoded)
    except ValueError as error:
        print(f"leporid: no message can be like this: {error}", file=sys.stderr)
        return EXIT_WRONG_USE
    # … and why.
    explanation = Explanation(options.expression, tree, dialect, message)
    assert explanation.outcome.value == outcome, (explanation.outcome, outcome)
    out = Output.of(options)
    if out.as_json:
        parts = [
            {"part": line.text, "value": line.value, "depth": line.depth}
            for line in explanation.lines
        ]
        out.json({"matches": outcome == 1, "verdict": explanation.verdict(), "parts": parts})
    elif not out.quiet:
        out.line(str(explanation))
    return EXIT_MATCH if outcome == 1 else EXIT_NO_MATCH


def _dialect(argument: str) -> Dialect:
    if argument not in list(Dialect):
        raise argparse.ArgumentTypeError(
            f"unknown dialect {argument}: expected {' or '.join(Dialect)}"
        )
    return Dialect(argument)


def _header(argument: str) -> tuple[str, Value]:
    name, separator, value = argument.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{argument}: write NAME=VALUE")
    return name, _value(value)


def _value(text: str) -> Value:
    known = {"true": True, "false": False, "null": None}
    if text in known:
        return known[text]
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _property(argument: str) -> tuple[str, str | int]:
    name, separator, value = argument.partition("=")
    if not separator or name not in PROPERTIES:
        raise argparse.ArgumentTypeError(
            f"{argument}: write NAME=VALUE, where NAME is one of {', '.join(PROPERTIES)}"
        )
    if name not in NUMBERS:
        return name, value
    try:
        return name, int(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{name} is a number, not {value}") from None


COMMAND: Final = Plain(
    fill,
    run,
    "Filters choose messages by an expression; docs/filters.md has the language.",
    logs=True,
)
