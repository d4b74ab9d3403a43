"""Writes the tables of options in docs/pipelines.md from the arguments of `leporid pipeline run`.

    python tools/pipeline_page.py

A comment `<!-- settings: NAME -->` stands before each table; `common` has what every pipeline
takes. `tests/cli/test_pipeline.py` fails while the page has others.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Final

from leporid.cli.pipeline import PIPELINES, fill_one

PAGE: Final = Path(__file__).parents[1] / "docs" / "pipelines.md"
COMMON: Final = "common"

_TABLE: Final = re.compile(r"(?<=^<!-- settings: )([\w-]+)( -->\n)((?:\|.*\n)*)", re.MULTILINE)


def options_of(name: str) -> list[argparse.Action]:
    """Return the options of a pipeline, without those of all; `common` are those."""
    parsers = {each: argparse.ArgumentParser(each) for each in PIPELINES}
    options: dict[str, dict[str, argparse.Action]] = {}
    for each, parser in parsers.items():
        fill_one(each, parser)
        options[each] = {
            action.option_strings[0]: action
            for action in parser._actions
            if action.option_strings and action.option_strings[0] != "-h"
        }
    first = next(iter(options.values()))
    shared = {
        option: action
        for option, action in first.items()
        if all(option in own and own[option].help == action.help for own in options.values())
    }
    if name == COMMON:
        return list(shared.values())
    return [action for option, action in options[name].items() if option not in shared]


def table_of(name: str) -> str:
    """Return the table of one pipeline."""
    rows = ["| Option | Means |", "| --- | --- |"]
    for action in options_of(name):
        written = f"`{action.option_strings[0]}{value_of(action)}`"
        means = (action.help or "") % vars(action)
        needed = "; needed" if action.required else ""
        rows.append(f"| {written} | {means.replace('|', chr(92) + '|')}{needed} |")
    return "".join(row + "\n" for row in rows)


def value_of(action: argparse.Action) -> str:
    """Return what stands after an option, as `--help` has it."""
    if action.nargs == 0:
        return ""
    if action.choices is not None:
        return " " + ",".join(map(str, action.choices)).join("{}")
    return f" {action.metavar or action.dest.upper()}"


def page_of(text: str) -> str:
    """Return the page with its tables as they should be."""
    return _TABLE.sub(lambda found: found[1] + found[2] + table_of(found[1]), text)


def main() -> int:
    """Write the page."""
    PAGE.write_text(page_of(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
