"""`leporid check DIR`: verify every record of a data directory. Composition only."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from leporid.cli.command import Parser, Plain


def fill(parser: Parser) -> None:
    """Add the argument."""
    parser.add_argument("directory", type=Path, metavar="DIR")


def run(options: argparse.Namespace) -> int:
    """Verify; return the exit code."""
    from leporid.server.check import check

    return check(options.directory, sys.stdout)


COMMAND: Final = Plain(
    fill, run, "Verify every record of a data directory that no broker is using.", logs=True
)
