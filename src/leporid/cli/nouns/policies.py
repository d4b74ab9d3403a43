"""`leporid policies`, `operator-policies`, `parameters`: settings by pattern, and by component."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any, Final

from leporid.cli.command import Kind, Noun, Run, Verb, argument
from leporid.cli.listing import show_rows
from leporid.cli.outcomes import WrongUse
from leporid.cli.session import Session, arguments_of

PRODUCT: Final = "Leporid"
COLUMNS: Final = ("vhost", "name", "pattern", "apply-to", "priority", "definition")
NAME: Final = argument("name", metavar="POLICY")
APPLY_TO: Final = ("all", "queues", "exchanges", "classic_queues", "quorum_queues", "streams")


def definition_of(given: list[str]) -> dict[str, Any]:
    """Read a definition: KEY=VALUE each, or one JSON object.

    Raises:
        WrongUse: it is neither, or empty.
    """
    if len(given) == 1 and given[0].lstrip().startswith("{"):
        try:
            found = json.loads(given[0])
        except ValueError as error:
            raise WrongUse(f"the definition is not JSON: {error}") from None
    else:
        found = arguments_of(given)
    if not found or not isinstance(found, dict):
        raise WrongUse("a definition has one key at least: max-length=1000")
    return found


EFFECTS: Final[Mapping[str, str]] = {
    "added": "governed from then on",
    "replaced": "taken over from",
    "kept": "still governed",
    "released": "let go",
    "outranked": "matched, but governed by",
}
"""What a dry run says of queues and exchanges, in words."""


def _preview(
    session: Session,
    what: str,
    method: str,
    path: tuple[str, ...],
    body: dict[str, Any] | None = None,
) -> None:
    """Write what a change would govern, if the broker can say it; nothing is changed."""
    if session.get("overview").get("product_name") != PRODUCT:
        session.would(what)
        return  # RabbitMQ would pass over the parameter, and do it
    query = {"dry_run": "true"}
    answer = session.change(method, *path, query=query, body=body, what="preview of policies")
    found = json.loads(answer)
    if session.out.as_json:
        session.out.json(found)
        return
    session.would(what)
    for one in found["items"]:
        session.out.say(_effect(one))
    count = sum(sum(found[kind].values()) for kind in ("queues", "exchanges"))
    if count > len(found["items"]):
        session.out.say(f"and {count - len(found['items'])} more")


def _effect(one: Mapping[str, Any]) -> str:
    effect = one["effect"]
    other = one["before"] if effect == "replaced" else one["after"]
    named = f" '{other}'" if effect in ("replaced", "outranked") else ""
    excess = f", {one['excess']} messages above its limit" if one["excess"] else ""
    return f"{one['kind']} '{one['name']}': {EFFECTS.get(effect, effect)}{named}{excess}"


def _noun(path: str, singular: str) -> Noun:
    def listing(session: Session, options: argparse.Namespace) -> None:
        of = [session.vhost_asked] if session.vhost_asked is not None else []
        show_rows(session, session.every(path, *of), COLUMNS)

    def title(session: Session, name: str) -> str:
        return f"{singular} '{name}' in '{session.vhost}'"

    def show(session: Session, options: argparse.Namespace) -> None:
        missing = title(session, options.name)
        session.out.facts(session.get(path, session.vhost, options.name, missing=missing))

    def put(session: Session, options: argparse.Namespace) -> None:
        body = {
            "pattern": options.pattern,
            "definition": definition_of(options.definition),
            "priority": options.priority,
            "apply-to": options.apply_to,
        }
        what = title(session, options.name)
        if session.dry:
            _preview(session, f"set {what}", "PUT", (path, session.vhost, options.name), body)
            return
        made = session.put(path, session.vhost, options.name, body=body)
        session.did(f"{what} {'set' if made else 'changed'}")

    def delete(session: Session, options: argparse.Namespace) -> None:
        what = title(session, options.name)
        session.get(path, session.vhost, options.name, missing=what)
        if session.dry:
            _preview(session, f"delete {what}", "DELETE", (path, session.vhost, options.name))
            return
        if not session.confirmed(f"delete {what}", options.name):
            return
        session.delete(path, session.vhost, options.name, missing=what)
        session.did(f"{what} deleted")

    return _with_verbs(path, singular, listing, show, put, delete)


def _with_verbs(path: str, singular: str, listing: Run, show: Run, put: Run, delete: Run) -> Noun:
    plural = path.replace("-", " ")
    return Noun(
        path,
        (
            Verb("list", f"list {plural}", listing, kind=Kind.LIST, vhost=True),
            Verb("show", f"show one {singular}", show, (NAME,), vhost=True, completes=path),
            Verb(
                "set",
                f"add or change one {singular}",
                put,
                (
                    NAME,
                    argument("pattern", metavar="PATTERN", help="of names: ^orders"),
                    argument(
                        "definition", nargs="+", metavar="KEY=VALUE",
                        help="max-length=1000, or a JSON object",
                    ),
                    argument("--priority", type=int, default=0, metavar="N", help="(0)"),
                    argument("--apply-to", choices=APPLY_TO, default="all", help="(all)"),
                ),
                Kind.ACT,
                vhost=True,
            ),
            Verb(
                "delete", f"delete one {singular}", delete, (NAME,), Kind.DESTROY, vhost=True,
                completes=path,
            ),
        ),
    )  # fmt: skip


POLICIES: Final = _noun("policies", "policy")
OPERATOR_POLICIES: Final = _noun("operator-policies", "operator policy")


# ---------------------------------------------------------------- parameters

COMPONENT: Final = argument("component", metavar="COMPONENT")
PARAMETER: Final = argument("name", metavar="NAME")
GLOBAL: Final = argument("--global", dest="of_all", action="store_true", help="a global one")
VALUE: Final = argument("value", metavar="JSON")


def _list_parameters(session: Session, options: argparse.Namespace) -> None:
    if options.of_all:
        show_rows(session, session.every("global-parameters"), ("name", "value"))
        return
    rows = session.every("parameters", *([options.component] if options.component else []))
    if session.vhost_asked is not None:
        rows = [one for one in rows if one["vhost"] == session.vhost_asked]
    show_rows(session, rows, ("vhost", "component", "name", "value"))


def _path(session: Session, options: argparse.Namespace) -> tuple[list[str], str]:
    """Return the path of a parameter, and what to call it."""
    if options.of_all:
        if options.component != "-":
            raise WrongUse("a global parameter has no component: write - in its place")
        return ["global-parameters", options.name], f"global parameter '{options.name}'"
    what = f"parameter '{options.name}' of component '{options.component}' in '{session.vhost}'"
    return ["parameters", options.component, session.vhost, options.name], what


def _set_parameter(session: Session, options: argparse.Namespace) -> None:
    path, what = _path(session, options)
    try:
        value = json.loads(options.value)
    except ValueError as error:
        raise WrongUse(f"{options.value!r} is not JSON: {error}") from None
    if session.would(f"set {what}"):
        return
    body = {"name": options.name, "value": value}
    if not options.of_all:
        body |= {"component": options.component, "vhost": session.vhost}
    session.change("PUT", *path, body=body, what="parameters that are written")
    session.did(f"{what} set")


def _delete_parameter(session: Session, options: argparse.Namespace) -> None:
    path, what = _path(session, options)
    session.get(*path, missing=what)
    if not session.confirmed(f"delete {what}", options.name):
        return
    session.change("DELETE", *path, what="parameters that are written")
    session.did(f"{what} deleted")


PARAMETERS: Final = Noun(
    "parameters",
    (
        Verb("list", "list parameters", _list_parameters,
             (argument("component", nargs="?", metavar="COMPONENT"), GLOBAL), Kind.LIST,
             vhost=True),
        Verb("set", "set a parameter", _set_parameter, (COMPONENT, PARAMETER, VALUE, GLOBAL),
             Kind.ACT, vhost=True),
        Verb("delete", "delete a parameter", _delete_parameter, (COMPONENT, PARAMETER, GLOBAL),
             Kind.DESTROY, vhost=True),
    ),
)  # fmt: skip
