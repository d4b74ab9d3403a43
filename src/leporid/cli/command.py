"""What a command of the command line is: a noun with verbs, and the arguments of each.

Responsible for the shape in which commands declare themselves, for the options that all verbs
share, and for the one parser, argparse, that reads them. A parser is filled with its arguments
when it is used, so that `leporid serve` does not make those of a hundred verbs. Must not know any
noun.

Invariant: an option has one meaning in all verbs; what is shared is declared here once.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from leporid.server.garbage import without_collections

if TYPE_CHECKING:
    from leporid.cli.session import Session

Fill = Callable[["Parser"], None]
Run = Callable[["Session", argparse.Namespace], int | None]


class Kind(Enum):
    """What a verb does, which says what options it has besides its own."""

    LIST = "list"
    """Shows several objects: columns, order."""
    SHOW = "show"
    """Shows one."""
    ACT = "act"
    """Changes something: `--dry-run`."""
    DESTROY = "destroy"
    """Changes what cannot be had back: `--dry-run`, and a question or `--yes`."""
    PLAIN = "plain"
    """Has its own options alone."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument, as argparse takes it."""

    names: tuple[str, ...]
    options: Mapping[str, Any]


def argument(*names: str, **options: Any) -> Argument:
    """Declare an argument; the parameters are those of `ArgumentParser.add_argument`."""
    return Argument(names, options)


IGNORE_NOT_FOUND: Final = argument(
    "--ignore-not-found", action="store_true", help="succeed if there is nothing to delete"
)


@dataclass(frozen=True, slots=True)
class Verb:
    """What can be done with a noun.

    Attributes:
        run: does it; returns an exit code, None for 0.
        vhost: whether it is about something in a virtual host, so that it has `--vhost`.
        completes: the noun whose names its first argument may be, for completion.
        broker: whether it asks a broker, so that it has the options that say which.
        about: its description, if `help` is not enough.
    """

    name: str
    help: str
    run: Run
    arguments: Sequence[Argument] = ()
    kind: Kind = Kind.SHOW
    vhost: bool = False
    completes: str = ""
    broker: bool = True
    about: str = ""


@dataclass(frozen=True, slots=True)
class Noun:
    """A command whose verbs are about one kind of object."""

    name: str
    verbs: Sequence[Verb]
    about: str = ""

    def verb(self, name: str) -> Verb:
        """Return a verb; raises KeyError."""
        return {verb.name: verb for verb in self.verbs}[name]


@dataclass(frozen=True, slots=True)
class Single:
    """A command that is a verb itself."""

    verb: Verb


@dataclass(frozen=True, slots=True)
class Plain:
    """A command that reads its arguments in its own way.

    Attributes:
        fill: adds its arguments.
        run: does it, and returns the exit code.
        about: its description.
        logs: whether it logs, at the level that `--log-level` says.
    """

    fill: Fill
    run: Callable[[argparse.Namespace], int]
    about: str
    logs: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A word behind `leporid`, with the place of what it means, which is imported when it is used.

    Attributes:
        place: `module:attribute` of a `Noun`, `Single` or `Plain`.
    """

    name: str
    help: str
    place: str

    def load(self) -> Noun | Single | Plain:
        """Import what it means."""
        module, _, name = self.place.partition(":")
        with without_collections():
            found: Noun | Single | Plain = getattr(importlib.import_module(module), name)
        return found


class _StoreOnce(argparse._StoreAction):
    """Takes the value of an option, and refuses a second one."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Keep the value; raises ArgumentError."""
        if isinstance(parser, Parser) and option_string is not None:
            parser.note_given(self)
        super().__call__(parser, namespace, values, option_string)


class Parser(argparse.ArgumentParser):
    """A parser that is filled with its arguments when it is used first.

    An option with one value may be given once: of two values one would be lost without a word.

    Args:
        fill: adds the arguments; None: they are there.
    """

    def __init__(self, *args: Any, fill: Fill | None = None, **options: Any) -> None:
        # Abbreviations would change their meaning with each option that is added.
        options.setdefault("allow_abbrev", False)
        super().__init__(*args, **options)
        for action in (None, "store"):
            self.register("action", action, _StoreOnce)
        self._fill = fill
        self._is_command = fill is not None
        self._given: set[argparse.Action] = set()

    def filled(self) -> Parser:
        """Return itself, with its arguments."""
        fill, self._fill = self._fill, None
        if fill is not None:
            fill(self)
        return self

    def parse_known_args(self, *args: Any, **options: Any) -> Any:
        """Read arguments; see `ArgumentParser`.

        A command tells itself what it does not know: the parser around it has another usage.
        """
        self.filled()
        self._given.clear()
        found, unknown = super().parse_known_args(*args, **options)
        if unknown and self._is_command:
            known = [name for action in self._actions for name in action.option_strings]
            near = difflib.get_close_matches(unknown[0].partition("=")[0], known, n=1)
            meant = f'; did you mean "{near[0]}"?' if near else f"; `{self.prog} --help` says more"
            self.error(f"unknown: {' '.join(unknown)}{meant}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Say in one line what is wrong, without the usage, and end the process with code 2."""
        line = " ".join(message.split())
        more = "" if "`" in line or "did you mean" in line else f"; `{self.prog} --help` says more"
        self.exit(2, f"{self.prog}: error: {line}{more}\n")

    def note_given(self, action: argparse.Action) -> None:
        """An option with one value is given; raises ArgumentError if it was before."""
        if action in self._given:
            raise argparse.ArgumentError(action, "given twice; it takes one value")
        self._given.add(action)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a verb that is none by the verbs that there are, and the nearest of them."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            known = list(action.choices)
            near = difflib.get_close_matches(str(value), known, n=1)
            meant = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(known)}"
            self.error(f"no verb {value!r}; {meant}")
        super()._check_value(action, value)


def fill_command(command: Command, parser: Parser) -> None:
    """Fill the parser of a command."""
    found = command.load()
    if isinstance(found, Plain):
        parser.description = found.about
        found.fill(parser)
        parser.set_defaults(run=found.run, logs=found.logs)
    elif isinstance(found, Single):
        _describe(parser, found.verb)
        _fill_verb(found.verb, parser)
    else:
        parser.description = found.about or None
        names = "|".join(verb.name for verb in found.verbs)
        verbs = parser.add_subparsers(dest="verb", required=True, metavar=names)
        for verb in found.verbs:
            made = verbs.add_parser(verb.name, help=verb.help, fill=partial(_fill_verb, verb))
            _describe(made, verb)


def _describe(parser: argparse.ArgumentParser, verb: Verb) -> None:
    text = verb.about or verb.help[:1].upper() + verb.help[1:]
    parser.description = text if text.endswith(".") else text + "."


def _fill_verb(verb: Verb, parser: Parser) -> None:
    for one in verb.arguments:
        parser.add_argument(*one.names, **one.options)
    _add_shared(parser, verb)
    parser.set_defaults(run=partial(_run, verb), logs=False)


def _run(verb: Verb, options: argparse.Namespace) -> int:
    from leporid.cli.session import run_verb

    return run_verb(verb, options)


def _add_shared(parser: Parser, verb: Verb) -> None:
    """Add the options that a verb of that kind has."""
    if verb.kind is Kind.LIST:
        rows = parser.add_argument_group("rows and columns")
        rows.add_argument("--columns", metavar="A,B", help="columns, such as name,messages")
        rows.add_argument("--sort", metavar="COLUMN", help="order by a column")
        rows.add_argument("--reverse", action="store_true", help="the largest first")
        rows.add_argument("--name", dest="like", metavar="TEXT", help="names with this text only")
        rows.add_argument("--regex", action="store_true", help="that text is a regular expression")
        rows.add_argument(
            "--where", action="append", metavar="COLUMN=VALUE", help="rows with this only; !=, <, >"
        )
    if verb.vhost:
        every = " (all)" if verb.kind is Kind.LIST else " (/, or the context's)"
        parser.add_argument("--vhost", "-p", metavar="V", help="virtual host" + every)
    if verb.kind in (Kind.ACT, Kind.DESTROY):
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would be done, and end"
        )
    if verb.kind is Kind.DESTROY:
        parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    if verb.kind is not Kind.PLAIN:
        add_form(parser)
    if verb.broker:
        add_connection(parser.add_argument_group("broker"))


def add_form(parser: argparse.ArgumentParser) -> None:
    """Add the options that say in which form the answer is written."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="write JSON")
    form.add_argument("--quiet", "-q", action="store_true", help="write names only, or nothing")


def add_connection(group: Any) -> None:
    """Add the options that say which broker."""
    group.add_argument("--context", metavar="NAME", help="a context (LEPORID_CONTEXT)")
    group.add_argument("--url", help="the management API (LEPORID_URL, http://localhost:15672)")
    group.add_argument("--user", metavar="NAME", help="user (LEPORID_USER, guest)")
    group.add_argument("--password-file", type=Path, metavar="FILE", help="file with the password")
    group.add_argument(
        "--password-env", metavar="NAME", help="variable with the password (LEPORID_PASSWORD)"
    )
    group.add_argument(
        "--ca-file", type=Path, metavar="FILE", help="certificates to trust besides, PEM"
    )
