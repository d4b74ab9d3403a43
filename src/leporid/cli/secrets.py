"""Passwords that a command is to set: asked for, or read from a file or a variable.

Responsible for getting one without an option that holds it, since every user of a machine sees the
options of a command. Must not know what the password is for.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from leporid.cli.command import Argument, argument
from leporid.cli.contexts import read_password
from leporid.cli.outcomes import Failure, WrongUse

NEW: Final = "new"
"""A password that is set."""
CHECKED: Final = "checked"
"""A password that is tried out."""


def arguments(which: str) -> tuple[Argument, ...]:
    """Return the options that give a password, which begin with `which`."""
    return (
        argument(
            f"--{which}-password-file", type=Path, metavar="FILE", help="file with the password"
        ),
        argument(f"--{which}-password-env", metavar="NAME", help="variable with the password"),
        argument(
            f"--{which}-password",
            metavar="TEXT",
            help="the password itself; whoever is on this machine may see it",
        ),
    )


ARGUMENTS: Final = arguments(NEW)


def given(
    options: argparse.Namespace, environment: Mapping[str, str], which: str = NEW
) -> str | None:
    """Return the password that options give, None if they give none.

    Raises:
        WrongUse: they give several.
        Failure: it cannot be read.
    """
    text, file, variable = (
        getattr(options, f"{which}_password{kind}") for kind in ("", "_file", "_env")
    )
    if sum(way is not None for way in (text, file, variable)) > 1:
        name = f"--{which}-password"
        raise WrongUse(f"give one of {name}-file, {name}-env, {name}")
    if file is not None:
        return read_password(file)
    if variable is not None:
        if variable not in environment:
            raise Failure(f"the variable {variable} with the password is not set")
        return environment[variable]
    password: str | None = text
    return password


def asked(prompt: str) -> str:
    """Ask somebody at a terminal, twice.

    Raises:
        WrongUse: there is nobody.
        Failure: the two answers differ.
    """
    import getpass

    if not sys.stdin.isatty():
        raise WrongUse("there is no terminal to ask for the password: give --new-password-file")
    password = getpass.getpass(f"{prompt}: ", sys.stderr)
    if getpass.getpass("Again: ", sys.stderr) != password:
        raise Failure("the two differ; nothing was changed")
    return password


def once(prompt: str, option: str = "--password-file") -> str:
    """Ask for a password that is there already; raises WrongUse if there is nobody.

    Args:
        prompt: what to ask.
        option: what gives it instead.
    """
    import getpass

    if not sys.stdin.isatty():
        raise WrongUse(f"there is no terminal to ask for the password: give {option}")
    return getpass.getpass(f"{prompt}: ", sys.stderr)
