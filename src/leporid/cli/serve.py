"""`leporid serve`: run a broker, with a flag for each setting.

Composition only: turns flags into settings, and starts the server. Invariant: a flag is checked as
the setting of a file is, and refused with the same words.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from leporid.cli.command import Parser, Plain
from leporid.cli.config import EXIT_WRONG_USE, config_places, tell
from leporid.server.config import Config, ConfigError, build, values_of
from leporid.server.config_checks import doubts
from leporid.server.garbage import without_collections
from leporid.server.logs import set_up
from leporid.server.settings import About, Check, Choice, Named, Section, about, fields_of, file
from leporid.server.sources import Values, value_of

logger = logging.getLogger(__name__)

# Lists of tables are for files.
TABLES: Final = frozenset({"policies", "operator_policies", "filter_classes"})
# Of the commands that ask a broker (`cli.contexts`); many expect them to make a user.
OF_CLIENTS: Final = ("LEPORID_USER", "LEPORID_PASSWORD")
FIRST: Final = ("data_dir", "bind", "amqp_port", "http_port", "metrics_port", "log_level")


def flags(into: type[Any] = Config, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Go through the keys of all settings that have a flag.

    Tables whose keys are names have none, nor have secrets, as every user of a machine sees the
    command lines of all.
    """
    for name, field in fields_of(into).items():
        one = about(field)
        if isinstance(one.check, Section):
            yield from flags(one.check.into, (*path, name))
        elif not isinstance(one.check, Named) and not one.secret and name not in TABLES:
            yield (*path, name)


def flag_of(keys: tuple[str, ...]) -> str:
    """Return the flag of a setting: `--limits-message-bytes-max`."""
    return "--" + "-".join(keys).replace("_", "-")


def fill(parser: Parser) -> None:
    """Add the flags."""
    # In front of a mistake, a list of all flags would hide it; the help has them.
    parser.usage = f"{parser.prog} [-h] [--config PATH] [--data-dir PATH] [--SETTING VALUE …]"
    parser.add_argument(
        "--config",
        type=Path,
        metavar="PATH",
        help="TOML file with settings, or the directory of a leporid.toml, or a rabbitmq.conf "
        "(LEPORID_CONFIG); docs/configuration.md lists them",
    )
    most = parser.add_argument_group("settings")
    sections: dict[str, Any] = {}
    for keys in sorted(flags(), key=lambda keys: keys not in [(one,) for one in FIRST]):
        group = most
        if len(keys) > 1:
            title = ".".join(keys[:-1])
            if title not in sections:
                sections[title] = parser.add_argument_group(f"settings of [{title}]")
            group = sections[title]
        one, default = _setting(keys)
        is_list = isinstance(default, tuple)
        group.add_argument(
            flag_of(keys), dest=".".join(keys), metavar=_value(one), default=argparse.SUPPRESS,
            action="append" if is_list else "store",
            help=_shown(one, default) + ("; may be repeated" if is_list else ""),
        )  # fmt: skip


def _setting(keys: tuple[str, ...]) -> tuple[About, Any]:
    into: type[Any] = Config
    for key in keys[:-1]:
        check = about(fields_of(into)[key]).check
        assert isinstance(check, Section)
        into = check.into
    field = fields_of(into)[keys[-1]]
    return about(field), field.default


def _value(one: About) -> str:
    return f"{{{','.join(one.check.allowed)}}}" if isinstance(one.check, Choice) else "VALUE"


def _shown(one: About, default: Any) -> str:
    """Return the text of the documentation without its Markdown, and the default."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", one.doc)
    said = one.default_doc
    if not said and isinstance(default, str | int | float):
        said = str(default).lower() if isinstance(default, bool) else str(default)
    unit = f" {one.unit}" if one.unit and said and not one.default_doc else ""
    text += f" ({said}{unit})" if said else ""
    # A variable in a formula is emphasised.
    text = re.sub(r"\*(\w)\*", r"\1", text)
    return text.replace("`", "").replace("%", "%%")


def overrides_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that flags give, as a file would have them."""
    given = vars(options)
    found: dict[str, Any] = {}
    for keys in flags():
        text = given.get(".".join(keys))
        if text is None:
            continue
        one, _ = _setting(keys)
        table = found
        for key in keys[:-1]:
            table = table.setdefault(key, {})
        if one.check is file:
            # Relative to where the command is given, and not to where the broker looks.
            table[keys[-1]] = str(Path(text).expanduser().absolute())
        elif isinstance(text, list):
            table[keys[-1]] = _list_of(one.check, keys, text)
        else:
            table[keys[-1]] = value_of(one.check, list(keys), text)
    return found


def _list_of(check: Check[Any], keys: tuple[str, ...], texts: list[str]) -> list[Any]:
    """Return what a flag of a list says: each text is one of its elements, or some as TOML."""
    found = [value_of(check, list(keys), text) for text in texts]
    return [each for one in found for each in (one if isinstance(one, list) else [one])]


def run(options: argparse.Namespace) -> int:
    """Run a broker until it is told to end; return the exit code."""
    from leporid.server.rabbitmq_environment import ignored
    from leporid.server.rabbitmq_files import remarks, variables_of

    given = overrides_of(options)
    places = config_places(options.config, os.environ)

    def values() -> Values:
        return values_of(places, given, os.environ)

    try:
        given_values = values()
        config = build(given_values)
    except ConfigError as error:
        tell(error)
        return EXIT_WRONG_USE
    set_up(config.log_level, config.log_format)
    for name in ignored(os.environ, variables_of(places)):
        logger.info("the variable %s means nothing here and is ignored", name)
    for name in OF_CLIENTS:
        if name in os.environ:
            logger.info(
                "the variable %s is for commands that ask a broker, and makes no user: "
                "LEPORID_USERS__NAME__PASSWORD does",
                name,
            )
    for said in (*remarks(given_values), *doubts(config)):
        logger.warning("%s", said)

    with without_collections():
        from leporid.server.node import run as run_node
        from leporid.server.reload import LoadedConfig

    return run_node(config, lambda: LoadedConfig.of(values()), given_values.files)


COMMAND: Final = Plain(
    fill,
    run,
    "Run a broker. When clients may connect, one line is written to standard output: ready "
    "amqp=HOST:PORT http=HOST:PORT metrics=HOST:PORT pid=PID. Options win over the environment, "
    "and that over the file. SIGHUP has the configuration read again.",
)
