"""`leporid connections`, `channels` and `consumers`: who is connected, and what they do."""

from __future__ import annotations

import argparse
from typing import Final

from leporid.cli.command import Kind, Noun, Verb, argument
from leporid.cli.listing import show_paged
from leporid.cli.outcomes import NotThere, WrongUse
from leporid.cli.session import Session

CONNECTION: Final = argument("name", metavar="CONNECTION", help="its name, as `list` shows it")
CONNECTION_COLUMNS: Final = (
    "vhost", "name", "user", "state", "channels", "protocol", "ssl", "recv_oct", "send_oct",
)  # fmt: skip
CHANNEL_COLUMNS: Final = (
    "vhost", "name", "user", "consumer_count", "messages_unacknowledged", "prefetch_count",
    "confirm", "transactional",
)  # fmt: skip
CONSUMER_COLUMNS: Final = (
    "queue.vhost", "queue.name", "consumer_tag", "channel_details.name", "ack_required",
    "prefetch_count", "active",
)  # fmt: skip
REASON: Final = argument("--reason", metavar="TEXT", help="what the client is told")


def _list(session: Session, options: argparse.Namespace) -> None:
    if options.vhost is None:
        show_paged(session, ["connections"], CONNECTION_COLUMNS)
    else:
        _of_vhost(session, "connections", CONNECTION_COLUMNS)


def _of_vhost(session: Session, noun: str, columns: tuple[str, ...]) -> None:
    vhost, session.options.vhost = session.options.vhost, None
    show_paged(session, ["vhosts", vhost, noun], columns)


def _show(session: Session, options: argparse.Namespace) -> None:
    found = session.get("connections", options.name, missing=f"connection '{options.name}'")
    session.out.facts(found)


def _close(session: Session, options: argparse.Namespace) -> None:
    headers = {"X-Reason": options.reason} if options.reason else {}
    if bool(options.name) == bool(options.of):
        raise WrongUse("say which: the name of a connection, or --of USER for all of a user")
    if options.of:
        found = session.every("connections", "username", options.of)
        if not found:
            raise NotThere(f"there is no connection of user '{options.of}'")
        if not session.confirmed(f"close {len(found)} connections of '{options.of}'", options.of):
            return
        session.delete("connections", "username", options.of, headers=headers)
        session.did(f"{len(found)} connections of '{options.of}' closed")
        return
    what = f"connection '{options.name}'"
    session.get("connections", options.name, missing=what)
    if not session.confirmed(f"close {what}", options.name):
        return
    session.delete("connections", options.name, headers=headers, missing=what)
    session.did(f"{what} closed")


CONNECTIONS: Final = Noun(
    "connections",
    (
        Verb("list", "list connections", _list, kind=Kind.LIST, vhost=True),
        Verb("show", "show all of one connection", _show, (CONNECTION,), completes="connections"),
        Verb(
            "close",
            "close a connection, or all of a user",
            _close,
            (
                argument("name", nargs="?", metavar="CONNECTION"),
                argument("--of", metavar="USER", help="all of that user"),
                REASON,
            ),
            Kind.DESTROY,
            completes="connections",
        ),
    ),
)


def _list_channels(session: Session, options: argparse.Namespace) -> None:
    if options.vhost is None:
        show_paged(session, ["channels"], CHANNEL_COLUMNS)
    else:
        _of_vhost(session, "channels", CHANNEL_COLUMNS)


def _show_channel(session: Session, options: argparse.Namespace) -> None:
    found = session.get("channels", options.name, missing=f"channel '{options.name}'")
    session.out.facts(found)


CHANNELS: Final = Noun(
    "channels",
    (
        Verb("list", "list channels", _list_channels, kind=Kind.LIST, vhost=True),
        Verb(
            "show",
            "show all of one channel",
            _show_channel,
            (argument("name", metavar="CHANNEL", help="its name, as `list` shows it"),),
            completes="channels",
        ),
    ),
)


def _list_consumers(session: Session, options: argparse.Namespace) -> None:
    show_paged(session, ["consumers"], CONSUMER_COLUMNS, "consumer_tag")


CONSUMERS: Final = Noun(
    "consumers",
    (Verb("list", "list consumers", _list_consumers, kind=Kind.LIST, vhost=True),),
)
