"""`leporid users`, `permissions`, `topic-permissions`, `whoami`: who there is, and may do what."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import Any, Final

from leporid.cli import secrets
from leporid.cli.command import IGNORE_NOT_FOUND, Kind, Noun, Single, Verb, argument
from leporid.cli.listing import show_rows
from leporid.cli.outcomes import FAILED, Failure, Forbidden, NotThere, one_line
from leporid.cli.session import Session
from leporid.client.management import UNAUTHORIZED, Management, ManagementError, path_of

USER: Final = argument("user_name", metavar="USER")
TAGS: Final = argument(
    "--tags", metavar="A,B", help="administrator, monitoring, policymaker, management, …"
)
WITHOUT: Final = argument(
    "--without-permissions", action="store_true", help="those alone who can enter no virtual host"
)
NO_TAG: Final = "Not management user"
"""What a broker says to who has logged in and has none of the tags."""


def _shown(user: dict[str, Any]) -> dict[str, Any]:
    # Hashes are for definitions; nobody reads them in a list.
    return {key: value for key, value in user.items() if key not in HASH}


HASH: Final = ("password_hash", "hashing_algorithm")


def _list_users(session: Session, options: argparse.Namespace) -> None:
    path = ("users", "without-permissions") if options.without_permissions else ("users",)
    show_rows(session, map(_shown, session.every(*path)), ("name", "tags"))


def _show_user(session: Session, options: argparse.Namespace) -> None:
    what = f"user '{options.user_name}'"
    found = _shown(session.get("users", options.user_name, missing=what))
    permissions = session.get("users", options.user_name, "permissions", missing=what)
    found["permissions"] = {
        each["vhost"]: f"{each['configure']} {each['write']} {each['read']}".strip()
        for each in permissions
    }
    session.out.facts(found)


def _doubt_tags(text: str | None) -> None:
    """Say of tags that look like a misspelt one that they give no right."""
    from leporid.server.config_checks import doubts_of_tags

    for said in doubts_of_tags(filter(None, (text or "").split(","))):
        print(f"leporid: {one_line(said)}", file=sys.stderr)


def _add_user(session: Session, options: argparse.Namespace) -> None:
    name = options.user_name
    if not options.update and any(one["name"] == name for one in session.every("users")):
        # Whoever adds a user by a name that is taken must not give it another password.
        raise Failure(f"user '{name}' is there already: leporid users set changes it")
    _doubt_tags(options.tags)
    if session.would(f"add user '{name}' with tags '{options.tags or ''}'"):
        return
    password = secrets.given(options, session.environment)
    if password is None and not options.no_password:
        password = secrets.asked(f"Password of user '{name}'")
    made = _put(session, name, password, options.tags or "")
    session.did(f"user '{name}' {'added' if made else 'was there already, and is like this now'}")


def _set_user(session: Session, options: argparse.Namespace) -> None:
    name = options.user_name
    found = session.get("users", name, missing=f"user '{name}'")
    password = secrets.given(options, session.environment)
    if password is None and options.tags is None:
        password = secrets.asked(f"New password of user '{name}'")
    _doubt_tags(options.tags)
    if session.would(f"change user '{name}'"):
        return
    tags = options.tags
    if tags is None:
        tags = found["tags"] if isinstance(found["tags"], str) else ",".join(found["tags"])
    if password is None:
        # Without one the user could not log in any more.
        kept = {key: found[key] for key in HASH if key in found}
        session.put("users", name, body={**kept, "tags": tags})
    else:
        _put(session, name, password, tags)
    session.did(f"user '{name}' changed")


def tags_of(session: Session, name: str, password: str) -> list[str] | None:
    """Return the tags of a user whose name and password the broker takes; None: it does not.

    Raises:
        Failure: the broker does not say.
    """
    address = dataclasses.replace(session.api.address, user=name, password=password)
    with Management(address) as api:
        try:
            return list(api.get(path_of("whoami"))["tags"])
        except ManagementError as error:
            if error.reason == NO_TAG:
                return []  # who has no tag may log in over AMQP all the same
            if error.status == UNAUTHORIZED:
                return None
            raise Failure(str(error)) from None


def _authenticate(session: Session, options: argparse.Namespace) -> int | None:
    name = options.user_name
    password = secrets.given(options, session.environment, secrets.CHECKED)
    if password is None:
        password = secrets.once(f"Password of user '{name}'", "--checked-password-file")
    tags = tags_of(session, name, password)
    if session.out.as_json:
        session.out.json({"name": name, "authenticated": tags is not None, "tags": tags or []})
    elif tags is None:
        session.did(f"user '{name}' is refused with this password; the broker's log says why")
    else:
        session.did(f"user '{name}' logs in with this password; tags: {', '.join(tags) or 'none'}")
    return FAILED if tags is None else None


def _put(session: Session, name: str, password: str | None, tags: str) -> bool:
    body = {"password": password} if password is not None else {"password_hash": ""}
    return session.put("users", name, body={**body, "tags": tags})


def _delete_user(session: Session, options: argparse.Namespace) -> None:
    name = options.user_name
    session.get("users", name, missing=f"user '{name}'")
    if not session.confirmed(f"delete user '{name}', and close its connections", name):
        return
    session.delete("users", name, missing=f"user '{name}'")
    session.did(f"user '{name}' deleted")


USERS: Final = Noun(
    "users",
    (
        Verb("list", "list users", _list_users, (WITHOUT,), Kind.LIST),
        Verb("show", "show a user and its permissions", _show_user, (USER,), completes="users"),
        Verb(
            "add",
            "add a user; asks for the password unless an option has it",
            _add_user,
            (
                USER,
                TAGS,
                *secrets.ARGUMENTS,
                argument("--no-password", action="store_true", help="it cannot log in by one"),
                argument("--update", action="store_true", help="change it if it is there"),
            ),
            Kind.ACT,
        ),
        Verb(
            "set",
            "change password or tags of a user",
            _set_user,
            (USER, TAGS, *secrets.ARGUMENTS),
            Kind.ACT,
            completes="users",
        ),
        Verb(
            "authenticate",
            "say whether name and password log a user in",
            _authenticate,
            (USER, *secrets.arguments(secrets.CHECKED)),
            completes="users",
            about="Log in over HTTP as that user; nothing is changed. Exit code 0: the broker lets "
            "the user in, whatever the user may do then; 1: it does not.",
        ),
        Verb("delete", "delete a user", _delete_user, (USER,), Kind.DESTROY, completes="users"),
    ),
)


# ---------------------------------------------------------------- permissions

PERMISSIONS_COLUMNS: Final = ("vhost", "user", "configure", "write", "read")
TOPIC_COLUMNS: Final = ("vhost", "user", "exchange", "write", "read")
OF_USER: Final = argument("--of", metavar="USER", help="of one user (all)")


def _list_permissions(session: Session, options: argparse.Namespace) -> None:
    _list_any(session, "permissions", PERMISSIONS_COLUMNS)


def _list_topics(session: Session, options: argparse.Namespace) -> None:
    _list_any(session, "topic-permissions", TOPIC_COLUMNS)


def _list_any(session: Session, noun: str, columns: tuple[str, ...]) -> None:
    wanted, vhost = session.options.of, session.vhost_asked
    rows = [
        one
        for one in session.every(noun)
        if (wanted is None or one["user"] == wanted) and (vhost is None or one["vhost"] == vhost)
    ]
    show_rows(session, rows, columns, "user")


def _either(session: Session, options: argparse.Namespace) -> str:
    return f"user '{options.user_name}' or no virtual host '{session.vhost}'"


def _with(session: Session, options: argparse.Namespace, what: str) -> str:
    return f"user '{options.user_name}' with {what} in '{session.vhost}'"


def _absent(
    session: Session,
    options: argparse.Namespace,
    path: tuple[str, ...],
    missing: str,
    exchange: str | None = None,
) -> bool:
    """Return whether there is nothing to delete and that is no failure.

    Args:
        session: the command.
        options: what it was given.
        path: of what is to be deleted.
        missing: what to call it if it is not there.
        exchange: the one that it must be about, if any.

    Raises:
        NotThere: there is nothing, and that is a failure; or there is no such user or virtual host.
    """
    try:
        found = session.get(*path, missing=missing)
        if exchange and all(one["exchange"] != exchange for one in found):
            raise NotThere(f"there is no {missing}")
    except NotThere as none:
        if not options.ignore_not_found:
            raise
        session.get("users", options.user_name, missing=f"user '{options.user_name}'")
        session.get("vhosts", session.vhost, missing=f"virtual host '{session.vhost}'")
        session.did(str(none))
        return True
    return False


def _set_permissions(session: Session, options: argparse.Namespace) -> None:
    what = f"permissions of user '{options.user_name}' in '{session.vhost}'"
    body = {name: getattr(options, name) for name in ("configure", "write", "read")}
    if session.would(f"set {what}"):
        return
    missing = _either(session, options)
    session.put("permissions", session.vhost, options.user_name, body=body, missing=missing)
    session.did(f"{what} set")


def _delete_permissions(session: Session, options: argparse.Namespace) -> None:
    what = f"permissions of user '{options.user_name}' in '{session.vhost}'"
    path = "permissions", session.vhost, options.user_name
    if _absent(session, options, path, _with(session, options, "permissions")):
        return
    if not session.confirmed(f"take all {what}", options.user_name):
        return
    session.delete(*path, missing=what)
    session.did(f"{what} taken")


def _set_topics(session: Session, options: argparse.Namespace) -> None:
    what = f"topic permissions of user '{options.user_name}' in '{session.vhost}'"
    body = {name: getattr(options, name) for name in ("exchange", "write", "read")}
    if session.would(f"set {what} on exchange '{options.exchange}'"):
        return
    path = "topic-permissions", session.vhost, options.user_name
    session.put(*path, body=body, missing=_either(session, options))
    session.did(f"{what} set on exchange '{options.exchange}'")


def _delete_topics(session: Session, options: argparse.Namespace) -> None:
    what = f"topic permissions of user '{options.user_name}' in '{session.vhost}'"
    path = "topic-permissions", session.vhost, options.user_name
    where = f" on exchange '{options.exchange}'" if options.exchange else ""
    missing = _with(session, options, f"topic permissions{where}")
    if _absent(session, options, path, missing, options.exchange):
        return
    if not session.confirmed(f"drop {what}{where}: every key may be used then", options.user_name):
        return
    session.delete(*path, *([options.exchange] if options.exchange else []), missing=missing)
    session.did(f"{what} dropped{where}")


def _patterns(*names: str) -> tuple[Any, ...]:
    return tuple(
        argument(name, metavar=name.upper(), help="pattern; '' for none") for name in names
    )


PERMISSIONS: Final = Noun(
    "permissions",
    (
        Verb("list", "list permissions", _list_permissions, (OF_USER,), Kind.LIST, vhost=True),
        Verb(
            "set",
            "set what a user may in a virtual host",
            _set_permissions,
            (USER, *_patterns("configure", "write", "read")),
            Kind.ACT,
            vhost=True,
            completes="users",
        ),
        Verb(
            "delete",
            "let a user no longer into a virtual host",
            _delete_permissions,
            (USER, IGNORE_NOT_FOUND),
            Kind.DESTROY,
            vhost=True,
            completes="users",
        ),
    ),
)

TOPIC_PERMISSIONS: Final = Noun(
    "topic-permissions",
    (
        Verb("list", "list topic permissions", _list_topics, (OF_USER,), Kind.LIST, vhost=True),
        Verb(
            "set",
            "set which routing keys of an exchange a user may use",
            _set_topics,
            (USER, argument("exchange", metavar="EXCHANGE"), *_patterns("write", "read")),
            Kind.ACT,
            vhost=True,
            completes="users",
        ),
        Verb(
            "delete",
            "drop topic permissions",
            _delete_topics,
            (
                USER,
                argument("exchange", nargs="?", metavar="EXCHANGE", help="(all)"),
                IGNORE_NOT_FOUND,
            ),
            Kind.DESTROY,
            vhost=True,
            completes="users",
        ),
    ),
)


def _whoami(session: Session, options: argparse.Namespace) -> None:
    address = session.api.address
    tags = tags_of(session, address.user, address.password)
    if tags is None:
        raise Forbidden(f"the broker at {session.api.where} does not let '{address.user}' in")
    if session.out.quiet:
        session.out.line(address.user)
    else:
        session.out.facts({"name": address.user, "tags": tags, "broker": session.api.where})


WHOAMI: Final = Single(
    Verb(
        "whoami",
        "say as whom this command line logs in, and with which tags",
        _whoami,
        about="Say as whom this command line logs in, and with which tags. Exit code 4: the broker "
        "does not let that user in.",
    )
)
