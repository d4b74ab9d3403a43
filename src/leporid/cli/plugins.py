"""`rabbitmq-plugins`: what scripts ask of it, where nothing is to be enabled.

Responsible for its words and exit codes. Invariant: a plugin of which there is nothing here is
never said to be enabled.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from leporid.cli.command import Parser
from leporid.cli.outcomes import DONE, FAILED, one_line
from leporid.server.rabbitmq_files import PLUGINS_HERE

TOOL: Final = "rabbitmq-plugins"
WORDS: Final = ("list", "enable", "disable", "set", "is_enabled")


def run(arguments: Sequence[str]) -> int:
    """Do what the tool was asked for, and return the exit code."""
    options = _parser().parse_intermixed_args(arguments)
    if options.word == "list":
        return _list(options.names, options.minimal, options.silent or options.quiet)
    if options.word == "disable":
        return _disable(options.names)
    said = "enabled" if options.word == "is_enabled" else "always here: nothing to enable"
    code = DONE
    for name in options.names:
        if name not in PLUGINS_HERE:
            code = _fail(f"{name}: there is no such plugin here")
        elif not options.silent:
            print(f"{name}: {said} ({PLUGINS_HERE[name]})")
    return code


def _parser() -> Parser:
    made = Parser(prog=f"leporid {TOOL}")
    made.add_argument("word", choices=WORDS)
    made.add_argument("names", nargs="*", metavar="PLUGIN")
    made.add_argument("--minimal", "-m", action="store_true", help="names alone")
    made.add_argument("--quiet", "-q", action="store_true", help="names alone")
    made.add_argument("--silent", "-s", action="store_true", help="names alone, or nothing")
    made.add_argument(
        "--enabled", "--offline", "--online", "--verbose", "--longnames", "-e", "-E", "-v", "-l",
        action="store_true", help="passed over",
    )  # fmt: skip
    made.add_argument("--node", "--timeout", "-n", "-t", help="passed over")
    return made


def _list(parts: Sequence[str], minimal: bool, quiet: bool) -> int:
    width = max(map(len, PLUGINS_HERE)) + 2
    for name, place in PLUGINS_HERE.items():
        if all(part in name for part in parts):
            print(name if minimal or quiet else f"[E*] {name:{width}}{place}")
    return DONE


def _disable(names: Sequence[str]) -> int:
    code = DONE
    for name in names:
        if name in PLUGINS_HERE:
            code = _fail(f"{name}: is always here, and cannot be disabled")
    return code


def _fail(said: str) -> int:
    print(f"{TOOL}: {one_line(said)}", file=sys.stderr)
    return FAILED
