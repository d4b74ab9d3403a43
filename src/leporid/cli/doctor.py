"""`leporid doctor`: what is wrong with a broker, and what to do about it.

Responsible for gathering what the checks of `checkup` look at, by requests that change nothing, and
for telling what they find. Must not judge anything itself.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any, Final
from urllib.parse import urlsplit

from leporid.cli.checkup import ERROR, SEVERITIES, Facts, findings, metrics_in
from leporid.cli.command import Single, Verb, argument
from leporid.cli.contexts import GUEST
from leporid.cli.outcomes import FAILED, Failure
from leporid.cli.session import Session
from leporid.cli.status import gathered
from leporid.client.management import Management, ManagementError, path_of

QUEUE_COLUMNS: Final = (
    "name,vhost,type,state,arguments,effective_policy_definition,policy,operator_policy,consumers,"
    "messages_ready"
)
EXCHANGE_COLUMNS: Final = "name,vhost,arguments,policy,operator_policy"
CONNECTION_COLUMNS: Final = "name,user,state"
DAYS: Final = "30"


def gather(session: Session) -> tuple[Facts, list[str]]:
    """Return the facts, and what could not be looked at, each with the reason.

    Raises:
        Failure: the broker does not answer, or does not let this user in.
    """
    facts = Facts(status=gathered(session), overview=session.get("overview"))
    unseen: list[str] = [*facts.status["not_seen"]]

    def look(what: str, ask: Any) -> Any:
        try:
            return ask()
        except Failure as failure:
            unseen.append(f"{what}: {failure}")
            return None

    def listed(noun: str, columns: str) -> Any:
        found = look(noun, lambda: session.every(noun, query={"columns": columns}))
        return found or ()

    facts.queues = listed("queues", QUEUE_COLUMNS)
    facts.exchanges = listed("exchanges", EXCHANGE_COLUMNS)
    facts.connections = listed("connections", CONNECTION_COLUMNS)
    facts.policies = {
        "policy": look("policies", lambda: session.every("policies")) or (),
        "operator_policy": look("operator policies", lambda: session.every("operator-policies"))
        or (),
    }
    if facts.status["product"] == "Leporid":
        facts.unknown_arguments = look("unknown arguments", lambda: _unknown(session)) or ()
        facts.dead_letters = look("dead letters", lambda: _dead_letters(session)) or ()
        facts.filter_classes = look("filter classes", lambda: session.get("filter-classes")) or ()
        facts.metrics = look("metrics", lambda: _metrics(session)) or {}
    facts.certificates = look("certificates", lambda: _certificates(session)) or ""
    facts.guest_from = _guest(session)
    return facts, unseen


def _unknown(session: Session) -> list[dict[str, Any]]:
    return [
        {"vhost": vhost["name"], **one}
        for vhost in session.get("vhosts")
        for one in session.get("unknown-arguments", vhost["name"])["unknown_arguments"]
    ]


def _dead_letters(session: Session) -> list[dict[str, Any]]:
    session.optional(
        "dead-letters", query={"page": 1, "page_size": 1}, what="counts of dead letters"
    )
    return session.every("dead-letters")


def _metrics(session: Session) -> dict[str, float]:
    content = session.asking(lambda: session.api.request("GET", "/metrics"))[1]
    return metrics_in(content.decode(errors="replace"))


def _certificates(session: Session) -> str:
    """Return what the broker says of certificates that end soon; "" if there are none."""
    path = path_of("health", "checks", "certificate-expiration", DAYS, "days")
    try:
        session.api.get(path)
    except ManagementError as error:
        if error.status == 503:
            return _ending(error.answer) or error.reason or "certificates end soon"
        raise Failure(str(error)) from None
    return ""


def _ending(answer: Any) -> str:
    """Return the files of certificates that end soon, each once with when; "" if none is named."""
    listeners = answer.get("expired", ()) if isinstance(answer, dict) else ()
    found = dict.fromkeys(
        f"{listener.get(file)} ends at {end} UTC"
        for listener in listeners
        for file in ("certfile", "cacertfile")
        for end in listener.get(f"{file}_expires_on") or ()
    )
    return "; ".join(found)


def _guest(session: Session) -> str:
    """Return where guest logs in with the password that everybody knows; "" if it does not."""
    address = dataclasses.replace(session.api.address, user=GUEST, password=GUEST)
    with Management(address) as known:
        try:
            known.get(path_of("whoami"))
        except ManagementError:
            return ""
    return urlsplit(address.url).hostname or ""


def _doctor(session: Session, options: argparse.Namespace) -> int | None:
    facts, unseen = gather(session)
    found = findings(facts)
    if session.out.as_json:
        shown = [dataclasses.asdict(one) for one in found]
        session.out.json({"findings": shown, "not_looked_at": unseen})
    elif session.out.quiet:
        for one in found:
            session.out.line(f"{one.severity} {one.check} {one.object}")
    else:
        for one in found:
            session.out.say(f"{one.severity}: {one.object}: {one.what}")
            session.out.say(f"    next: {one.next}")
        for reason in unseen:
            session.out.say(f"not looked at: {reason}")
        if not found:
            session.out.say("nothing is wrong")
    worst = SEVERITIES.index(options.fail_on)
    return FAILED if any(SEVERITIES.index(one.severity) <= worst for one in found) else None


COMMAND: Final = Single(
    Verb(
        "doctor",
        "say what is wrong with the broker, and what to do",
        _doctor,
        (
            argument(
                "--fail-on", choices=SEVERITIES, default=ERROR, metavar="SEVERITY",
                help=f"what ends with exit code 1: {', '.join(SEVERITIES)} ({ERROR})",
            ),
        ),
        about="Look for what is wrong: alarms, limits that are near, messages that go nowhere, "
        "queues without consumers, missing dead-letter exchanges, policies that govern nothing, "
        "certificates, slow disks, guest. Nothing is changed. Exit code 0: nothing as bad as "
        "--fail-on was found; 1: something was.",
    )
)  # fmt: skip
