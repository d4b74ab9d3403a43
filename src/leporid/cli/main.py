"""The command line: `leporid serve`, `leporid queues list` and all others.

Composition only: the table of commands, the one parser, and how a command ends. What a command
needs is imported when it is used, so that `--version`, `--help` and `serve` start at once.

Exit codes are those of `outcomes`: 0 done, 1 failed, 2 asked for wrongly, 3 not there, 4 not
allowed.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import importlib.metadata
import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

from leporid.cli.command import Command, Parser, fill_command
from leporid.cli.outcomes import DONE

_NOUNS: Final = "leporid.cli.nouns."

GROUPS: Final[tuple[tuple[str, tuple[Command, ...]], ...]] = (
    (
        "the broker on this machine",
        (
            Command("serve", "run a broker in the foreground", "leporid.cli.serve:COMMAND"),
            Command("check", "verify a data directory", "leporid.cli.backup:CHECK"),
            Command("restore", "make a data directory of a backup", "leporid.cli.backup:RESTORE"),
            Command(
                "config", "show, check or import a configuration", "leporid.cli.config:COMMAND"
            ),
            Command("ping", "say whether a broker answers", "leporid.cli.ping:COMMAND"),
        ),
    ),
    (
        "looking",
        (
            Command("status", "say how the broker is", "leporid.cli.status:COMMAND"),
            Command("top", "show the busiest queues, live", "leporid.cli.top:COMMAND"),
            Command("spans", "send spans to OpenTelemetry", "leporid.cli.spans:COMMAND"),
            Command("doctor", "say what is wrong, and what to do", "leporid.cli.doctor:COMMAND"),
            Command("whoami", "say who asks, and with which tags", _NOUNS + "access:WHOAMI"),
        ),
    ),
    (
        "messages",
        (
            Command("cat", "write the messages of a queue or stream", "leporid.cli.cat:COMMAND"),
            Command("publish", "publish lines, or a file", "leporid.cli.publish:COMMAND"),
            Command("queues", "queues", _NOUNS + "queues:NOUN"),
            Command("exchanges", "exchanges", _NOUNS + "exchanges:EXCHANGES"),
            Command("bindings", "bindings of queues and exchanges", _NOUNS + "exchanges:BINDINGS"),
            Command("streams", "streams", _NOUNS + "streams:STREAMS"),
            Command("readers", "named readers of streams", _NOUNS + "streams:READERS"),
            Command("groups", "groups of readers", _NOUNS + "streams:GROUPS"),
            Command("pipelines", "runs that pipelines reported", _NOUNS + "pipelines:NOUN"),
            Command("delays", "delayed messages, and ladders of delays", _NOUNS + "delays:NOUN"),
            Command("deadletters", "why messages died", _NOUNS + "deadletters:NOUN"),
            Command(
                "leases", "messages that are out of a queue for a while", _NOUNS + "leases:NOUN"
            ),
            Command("filters", "what filters were asked", _NOUNS + "filters:FILTERS"),
            Command(
                "filter-classes", "filters written in Python", _NOUNS + "filters:FILTER_CLASSES"
            ),
            Command("filter", "try out a filter", "leporid.cli.filter_command:COMMAND"),
        ),
    ),
    (
        "clients",
        (
            Command("connections", "connections", _NOUNS + "clients:CONNECTIONS"),
            Command("channels", "channels", _NOUNS + "clients:CHANNELS"),
            Command("consumers", "consumers", _NOUNS + "clients:CONSUMERS"),
        ),
    ),
    (
        "administration",
        (
            Command("users", "users", _NOUNS + "access:USERS"),
            Command("permissions", "what users may", _NOUNS + "access:PERMISSIONS"),
            Command(
                "topic-permissions",
                "which routing keys users may use",
                _NOUNS + "access:TOPIC_PERMISSIONS",
            ),
            Command("vhosts", "virtual hosts", _NOUNS + "vhosts:VHOSTS"),
            Command("limits", "limits of virtual hosts and users", _NOUNS + "vhosts:LIMITS_NOUN"),
            Command("policies", "policies", _NOUNS + "policies:POLICIES"),
            Command(
                "operator-policies", "operator policies", _NOUNS + "policies:OPERATOR_POLICIES"
            ),
            Command("parameters", "parameters of components", _NOUNS + "policies:PARAMETERS"),
            Command("audit", "who has changed what", _NOUNS + "audit:NOUN"),
            Command("definitions", "export and import all of it", _NOUNS + "definitions:NOUN"),
            Command("backup", "copy the data of a running broker", "leporid.cli.backup:BACKUP"),
        ),
    ),
    (
        "other",
        (
            Command("bench", "a load, with PerfTest's letters", "leporid.cli.bench:COMMAND"),
            Command("context", "which broker is meant", _NOUNS + "context:NOUN"),
            Command("completion", "completion for shells", "leporid.cli.completion:NOUN"),
            Command("pipeline", "run a data pipeline on Spark", "leporid.cli.pipeline:COMMAND"),
        ),
    ),
)
"""All commands, as `--help` lists them."""

OWN_OPTIONS: Final = ("-h", "--help", "--version", "--log-level")
"""What may stand before the command; all other options are its own."""

COMMANDS: Final = {command.name: command for _, group in GROUPS for command in group}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code; `arguments` defaults to the process's own."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["help"]:
        given = [*given[1:], "--help"]
    if given and given[0] not in COMMANDS and not given[0].startswith("-"):
        return _other_tools(given)
    code = _run(given)
    if arguments is None and given[0] == "serve":
        _leave(code)
    return code


def _leave(code: int) -> None:
    """End the process of a broker that has closed all it had, as the program's end would do.

    Before that, Python would look for garbage among all objects and free them one by one, which
    takes a fifth of a second without any queue; the kernel frees all memory at once.
    """
    if _is_watched():
        return  # who watches writes what was found when Python ends
    atexit._run_exitfuncs()
    if sys.stdout is not None:  # it may be closed
        with contextlib.suppress(OSError):  # and whoever reads it gone
            sys.stdout.flush()
    os._exit(code)


def _is_watched() -> bool:
    """Whether a debugger, a profiler or the like looks on."""
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return True
    # From Python 3.12 on; its six ids are those of tools.
    monitoring = getattr(sys, "monitoring", None)
    return monitoring is not None and any(map(monitoring.get_tool, range(6)))


def _other_tools(given: list[str]) -> int:
    """Run what a command of RabbitMQ's tools stands for; what is none is refused as usual."""
    from leporid.cli import aliases, plugins
    from leporid.cli.outcomes import WrongUse, tell
    from leporid.server.settings import nearest

    if given[0] == plugins.TOOL:
        return plugins.run(given[1:])
    try:
        found = aliases.find(given)
        if found is None:
            known = [*COMMANDS, *aliases.CTL_ALIASES, *aliases.ADMIN_ALIASES, *aliases.TOOLS]
            known.append(plugins.TOOL)
            near = nearest(given[0], known) or "; `leporid --help` lists them"
            parser().error(f"no command '{given[0]}'{near}")
        commands = aliases.translated(*found)
    except WrongUse as wrong:
        return tell(wrong)
    # The first that fails ends it.
    return next((code for words in commands if (code := _run(words))), DONE)


def _run(given: list[str]) -> int:
    if not given:
        parser().error("a command is missing; `leporid --help` lists them")
    if given[0].startswith("-") and given[0].partition("=")[0] not in OWN_OPTIONS:
        parser().error(f"{given[0]} stands behind the command, such as: leporid status --url URL")
    # The parsers of all commands take 5 ms, those of one less than 1.
    options = parser(given[:1] if given[0] in COMMANDS else COMMANDS).parse_args(given)
    if options.logs:
        from leporid.server.logs import set_up

        set_up(options.log_level or "info")
    code: int = options.run(options)
    return code


def parser(names: Iterable[str] = COMMANDS) -> Parser:
    """Return the parser of commands, by default of all; its help lists all."""
    made = Parser(
        prog="leporid",
        usage="leporid [-h] [--version] [--log-level LEVEL] COMMAND …",
        description="A message broker that speaks AMQP 0-9-1, and what looks after it.",
        epilog=_listed(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"leporid {_version()}")
    made.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="how much to write to standard error (info)",
    )
    commands: Any = made.add_subparsers(
        dest="command", required=True, metavar="COMMAND", help="one of those below"
    )
    for name in names:
        fill = partial(fill_command, COMMANDS[name])
        commands.add_parser(name, prog=f"leporid {name}", fill=fill)
    return made


def _listed() -> str:
    """Return the commands by group."""
    width = max(map(len, COMMANDS)) + 2
    lines = []
    for title, group in GROUPS:
        lines += ["", f"{title}:", *(f"  {one.name:{width}}{one.help}" for one in group)]
    return "\n".join([*lines[1:], "", "`leporid COMMAND --help` says more."])


def _version() -> str:
    try:
        return importlib.metadata.version("leporid")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
