"""How commands end: exit codes, and what is raised for each but success.

Responsible for the codes and for the one line that a user reads. Must not know any command.
Invariant: whatever a user, a broker or the network does wrong ends as one of these, with one line
on standard error that says what happened, to what, and what to do; a traceback is a defect.
"""

from __future__ import annotations

import sys
from typing import Final

DONE: Final = 0
FAILED: Final = 1
"""The broker did not answer, or could not do it; or something is wrong with it."""
WRONG_USE: Final = 2
"""Asked for in a way that cannot be; nothing was sent."""
NOT_FOUND: Final = 3
"""What the command names is not there."""
REFUSED: Final = 4
"""The broker does not let this user in, or not do that."""

INTERRUPTED: Final = 130
"""Somebody pressed Ctrl-C; what a shell makes of SIGINT."""


class Failure(Exception):
    """A command could not be carried out; the message is one line for its user."""

    code = FAILED


class WrongUse(Failure):
    """The command cannot be as it was given."""

    code = WRONG_USE


class NotThere(Failure):
    """What the command names is not there."""

    code = NOT_FOUND


class Forbidden(Failure):
    """The broker does not allow it."""

    code = REFUSED


def tell(failure: Failure) -> int:
    """Write the line of a failure to standard error; return its exit code."""
    print(f"leporid: {one_line(str(failure))}", file=sys.stderr)
    return failure.code


def one_line(text: str) -> str:
    """Return a text that a terminal shows on one line and obeys in nothing.

    Names and reasons come from other people: what is not printable is escaped.
    """
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text
    )
