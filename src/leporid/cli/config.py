"""`leporid config show|check|import`: what is configured, what is wrong in it, RabbitMQ's files.

Composition only: finds the files, prints what `server` makes of them, and turns the outcome into an
exit code: 0 done or nothing wrong, 1 something is wrong, 2 asked for wrongly or cannot be read.
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leporid.cli.command import Parser, Plain, add_form
from leporid.cli.output import Output

if TYPE_CHECKING:
    from leporid.server.config import Config
    from leporid.server.settings import ConfigError

EXIT_OK: Final = 0
EXIT_WRONG: Final = 1
EXIT_WRONG_USE: Final = 2


def fill(parser: Parser) -> None:
    """Add the verbs."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="show|check|import")
    show = verbs.add_parser(
        "show",
        help="print the settings, each with its origin",
        description="Print each setting that is given somewhere, as TOML, with where that is. "
        "Secrets are not shown.",
    )
    show.add_argument("--effective", action="store_true", help="print the defaults, too")
    show.add_argument(
        "--config", type=Path, metavar="PATH", help="as for `leporid serve` (LEPORID_CONFIG)"
    )
    add_form(show)
    check = verbs.add_parser(
        "check",
        help="say what is wrong in files",
        description="Check files as if each was the configuration, with the conf.d beside it and "
        "without the environment; certificates and definitions that they name are read as well. "
        "Exit code 0: nothing is wrong; 1: something is; 2: a file cannot be read.",
    )
    check.add_argument("files", type=Path, nargs="+", metavar="FILE")
    add_form(check)
    importing = verbs.add_parser(
        "import",
        help="print the settings of a rabbitmq.conf as TOML",
        description="Print what a file of RabbitMQ's means here. What cannot be kept is a comment "
        "with the reason.",
    )
    importing.add_argument("file", type=Path, metavar="rabbitmq.conf")
    add_form(importing)


def run(options: argparse.Namespace) -> int:
    """Do what was asked for, and return the exit code."""
    out = Output.of(options)
    if options.verb == "show":
        return show(config_places(options.config, os.environ), os.environ, options.effective, out)
    if options.verb == "check":
        return check(options.files, out)
    return import_rabbitmq(options.file, out)


def config_places(given: Path | None, environment: Mapping[str, str]) -> list[Path]:
    """Return where the configuration is: what the command line says, else the environment.

    The variable may name several places with colons between them, those that win last.
    """
    from leporid.server.sources import CONFIG_VARIABLE

    if given is not None:
        return [given]
    named = environment.get(CONFIG_VARIABLE, "")
    whole = Path(named)
    # A colon may be part of a name.
    names = [named] if whole.exists() else named.split(os.pathsep)
    return [Path(name) for name in names if name]


def tell(error: ConfigError) -> None:
    """Print what is wrong, one line for each problem."""
    for each in error.problems:
        print(f"leporid: {each.message}", file=sys.stderr)


def show(path: Sequence[Path], environment: Mapping[str, str], effective: bool, out: Output) -> int:
    """Print the settings that are given; with `effective` all of them.

    Args:
        path: of the configuration; empty: there is no file.
        environment: the process's.
        effective: whether defaults are printed, too.
        out: where they go.
    """
    from leporid.server.config import Config, ConfigError, build, values_of
    from leporid.server.settings import Section, hide, leaves, to_toml, with_defaults
    from leporid.server.sources import DEFAULT

    try:
        values = values_of(path, {}, environment)
        build(values)
    except ConfigError as error:
        tell(error)
        return EXIT_WRONG
    shown = with_defaults(Config, values.tables) if effective else values.tables
    given = {key for key, _ in leaves(values.tables)}
    rows = [
        {"name": key, "value": value, "origin": values.origin(key) if key in given else DEFAULT}
        for key, value in leaves(hide(Section(Config), shown))
    ]
    rows = [row for row in rows if effective or row["origin"] != DEFAULT]
    if out.as_json or out.quiet:
        out.rows(rows, ())
        return EXIT_OK
    for row in rows:
        out.line(f"{row['name']} = {to_toml(row['value'])}  # {row['origin']}")
    return EXIT_OK


def check(files: Sequence[Path], out: Output) -> int:
    """Print what is wrong in files."""
    from leporid.server.config import ConfigError, build, values_of
    from leporid.server.config_checks import doubts
    from leporid.server.rabbitmq_files import is_rabbitmqs, remarks
    from leporid.server.sources import ConfigUnreadable, notes
    from leporid.server.tls import check_certificates

    code = EXIT_OK
    rows: list[dict[str, Any]] = []
    for file in files:
        row: dict[str, Any] = {"file": str(file), "problems": [], "warnings": [], "notes": []}
        rows.append(row)
        try:
            values = values_of(file, {}, {}, os.environ)
            config = build(values)
            check_certificates(config.tls, values)
            _check_definitions(config)
        except ConfigError as error:
            tell(error)
            row["problems"] = [each.message for each in error.problems]
            unreadable = isinstance(error, ConfigUnreadable)
            code = max(code, EXIT_WRONG_USE if unreadable else EXIT_WRONG)
        else:
            row["warnings"] = [*remarks(values), *doubts(config)]
            row["notes"] = [] if is_rabbitmqs(file) else list(notes(file))
            for said in row["warnings"]:
                print(f"leporid: {file}: warning: {said}", file=sys.stderr)
            if not out.as_json:
                for note in row["notes"]:
                    out.say(note)
                out.say(f"{file}: nothing {'else ' if row['warnings'] else ''}is wrong")
    if out.as_json:
        out.json(rows)
    return code


def _check_definitions(config: Config) -> None:
    """Import the definitions of a configuration into a broker that is thrown away.

    Raises:
        ConfigError: they cannot be read, or could not be imported.
    """
    place = config.definitions.import_
    if place is None:
        return
    from leporid.broker.access.access import Access
    from leporid.broker.broker import Broker
    from leporid.engine.engine import Engine
    from leporid.server.definitions_import import check_files

    made = Broker(
        Engine(), Access((), os.urandom(32)), record=lambda change: None, random_bytes=os.urandom
    )
    for vhost in config.vhosts:
        made.add_vhost(vhost)
    check_files(made, place)


def import_rabbitmq(file: Path, out: Output) -> int:
    """Print what a configuration file of RabbitMQ's means here, as TOML or JSON."""
    from leporid.server.rabbitmq_conf import translate
    from leporid.server.settings import ConfigError

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        print(f"leporid: {file}: cannot be read: {reason}", file=sys.stderr)
        return EXIT_WRONG_USE
    try:
        translated = translate(text, file.name, os.environ)
    except ConfigError as error:
        tell(error)
        return EXIT_WRONG
    if out.as_json:
        out.json({"settings": tomllib.loads(translated), "toml": translated})
    elif not out.quiet:
        out.text(translated)
    return EXIT_OK


COMMAND: Final = Plain(
    fill,
    run,
    "What a broker would be told, and by what; docs/configuration.md lists the settings.",
)
