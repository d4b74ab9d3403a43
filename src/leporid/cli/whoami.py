"""`leporid whoami`: who this command line is to the broker."""

from __future__ import annotations

import argparse
from typing import Final

from leporid.cli.command import Single, Verb
from leporid.cli.nouns.access import tags_of
from leporid.cli.outcomes import Forbidden
from leporid.cli.session import Session


def _whoami(session: Session, options: argparse.Namespace) -> None:
    address = session.api.address
    tags = tags_of(session, address.user, address.password)
    if tags is None:
        raise Forbidden(f"the broker at {session.api.where} does not let '{address.user}' in")
    if session.out.quiet:
        session.out.line(address.user)
    else:
        session.out.facts({"name": address.user, "tags": tags, "broker": session.api.where})


COMMAND: Final = Single(
    Verb(
        "whoami",
        "say as whom this command line logs in, and with which tags",
        _whoami,
        about="Say as whom this command line logs in, and with which tags. Exit code 4: the broker "
        "does not let that user in.",
    )
)
