"""What may be wrong with a broker, found in what it says of itself.

Responsible for the checks: each is a function of the facts, and gives findings with the object, the
reason and the next command. Must not ask a broker; `leporid.cli.doctor` does.

Invariant: a check never changes anything, and says nothing of what the facts do not have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from leporid.cli.output import value_at
from leporid.cli.status import size

ERROR: Final = "error"
WARNING: Final = "warning"
NOTE: Final = "note"
SEVERITIES: Final = (ERROR, WARNING, NOTE)
"""The worst first. An error keeps somebody from working, a warning will, a note may be meant."""

BACKLOG_MESSAGES: Final = 1000
"""Ready messages without a consumer that are more than a few left over."""
NEAR: Final = 0.8
"""The share of a limit from which it is near."""
DISK_TIMES: Final = 4
"""Free disk below so many times the alarm's limit is near it …"""
DISK_BYTES: Final = 10**9
"""… and below so many bytes."""
FILES_LEAST: Final = 4096
SYNC_SECONDS: Final = 0.05
"""A sync that takes longer makes every confirm wait so long; a disk made for this takes 2 ms."""
LISTED_MAX: Final = 20
"""Findings of one check that are told one by one; beyond that their number is."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or may be.

    Attributes:
        object: what it is about: "queue 'q' in '/'".
        what: what is wrong with it.
        next: what to do, a command where there is one.
    """

    severity: str
    check: str
    object: str
    what: str
    next: str


@dataclass(slots=True)
class Facts:
    """What the checks look at; what could not be asked for is empty.

    Attributes:
        status: as `leporid status --json` has it.
        overview: of the management API, as are the lists.
        policies: of each kind, "policy" and "operator_policy".
        guest_from: the address of the broker at which guest logs in with its known password; ""
            if it does not.
        metrics: the sum of the samples of each metric, by name and labels as in the text.
        certificates: the broker's own words about certificates that expire soon; "" for none.
    """

    status: Mapping[str, Any] = field(default_factory=dict)
    overview: Mapping[str, Any] = field(default_factory=dict)
    queues: Sequence[Mapping[str, Any]] = ()
    exchanges: Sequence[Mapping[str, Any]] = ()
    connections: Sequence[Mapping[str, Any]] = ()
    policies: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    dead_letters: Sequence[Mapping[str, Any]] = ()
    unknown_arguments: Sequence[Mapping[str, Any]] = ()
    filter_classes: Sequence[Mapping[str, Any]] = ()
    guest_from: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    certificates: str = ""


Check = Callable[[Facts], Iterator[Finding]]


def findings(facts: Facts) -> list[Finding]:
    """Make all checks; returns what they find, the worst first."""
    found: list[Finding] = []
    for check in CHECKS:
        of_check = list(check(facts))
        found += of_check[:LISTED_MAX]
        if len(of_check) > LISTED_MAX:
            first = of_check[0]
            rest = f"{len(of_check) - LISTED_MAX} more of the same kind"
            found.append(Finding(first.severity, first.check, "others", rest, first.next))
    return sorted(found, key=lambda one: SEVERITIES.index(one.severity))


def _queue(one: Mapping[str, Any]) -> str:
    return f"queue '{one.get('name')}' in '{one.get('vhost')}'"


def _alarms(facts: Facts) -> Iterator[Finding]:
    for alarm in facts.status.get("alarms", ()):
        used = facts.status.get(alarm, {})
        amount = used.get("used") if alarm == "memory" else used.get("free")
        what = f"the {alarm} alarm is on ({size(amount)}, limit {size(used.get('limit'))}): "
        then = (
            "let consumers catch up, or set memory_watermark: leporid queues list --sort messages "
            "--reverse"
            if alarm == "memory"
            else "free disk space, or set disk_free_min"
        )
        yield Finding(ERROR, "alarms", "broker", what + "publishers are blocked", then)


def _near_limits(facts: Facts) -> Iterator[Finding]:
    alarms = facts.status.get("alarms", ())
    memory, disk = facts.status.get("memory", {}), facts.status.get("disk", {})
    used, limit = memory.get("used"), memory.get("limit")
    if "memory" not in alarms and used and limit and used > NEAR * limit:
        what = f"memory is at {size(used)} of {size(limit)}, where the alarm stops publishers"
        then = "leporid queues list --sort messages --reverse"
        yield Finding(WARNING, "memory", "broker", what, then)
    free, least = disk.get("free"), disk.get("limit")
    low = free is not None and least and free < max(DISK_TIMES * least, DISK_BYTES)
    if low and "disk" not in alarms:
        what = f"{size(free)} of disk are free; the alarm stops publishers below {size(least)}"
        yield Finding(WARNING, "disk", "broker", what, "free disk space, or move data_dir")
    sockets = facts.status.get("sockets", {})
    if sockets.get("limit") and sockets["used"] > NEAR * sockets["limit"]:
        what = f"{sockets['used']} of {sockets['limit']} connections are taken"
        yield Finding(
            WARNING, "connections", "broker", what, "raise limits.connections_max and LimitNOFILE"
        )
    files = facts.status.get("files", {}).get("limit")
    if files and files < FILES_LEAST:
        what = f"it may open {files} files, connections among them"
        then = "raise the limit: ulimit -n 65536, or LimitNOFILE= in the unit"
        yield Finding(WARNING, "files", "broker", what, then)


def _certificates(facts: Facts) -> Iterator[Finding]:
    if facts.certificates:
        then = "renew it; the broker takes the new file by itself (docs/tls.md)"
        yield Finding(WARNING, "certificates", "broker", facts.certificates, then)


def _guest(facts: Facts) -> Iterator[Finding]:
    if not facts.guest_from:
        return
    then = "leporid users set guest, or leporid users delete guest"
    what = "logs in with the password that everybody knows"
    if facts.guest_from in ("localhost", "127.0.0.1", "::1"):
        yield Finding(NOTE, "guest", "user 'guest'", f"{what}, from this machine at least", then)
    else:
        yield Finding(ERROR, "guest", "user 'guest'", f"{what}, at {facts.guest_from}", then)


def _unroutable(facts: Facts) -> Iterator[Finding]:
    stats = facts.overview.get("message_stats", {})
    for name, verb in (("drop_unroutable", "dropped"), ("return_unroutable", "returned")):
        count, rate = stats.get(name, 0), value_at(stats, f"{name}_details.rate") or 0.0
        if rate > 0 or count:
            now = f"{rate:.1f}/s now, " if rate > 0 else ""
            what = f"messages that no binding leads anywhere are {verb}: {now}{count} so far"
            severity = WARNING if rate > 0 else NOTE
            yield Finding(severity, "unroutable", "broker", what, "leporid bindings list")


def _backlogs(facts: Facts) -> Iterator[Finding]:
    for one in facts.queues:
        ready = one.get("messages_ready") or 0
        if one.get("consumers") or not ready or one.get("type") == "stream":
            continue
        severity = WARNING if ready >= BACKLOG_MESSAGES else NOTE
        command = f"leporid queues show '{one.get('name')}' -p '{one.get('vhost')}'"
        yield Finding(
            severity, "consumers", _queue(one), f"{ready} messages and no consumer", command
        )


def _paused(facts: Facts) -> Iterator[Finding]:
    for one in facts.queues:
        if one.get("state") == "paused":
            command = f"leporid queues resume '{one.get('name')}' -p '{one.get('vhost')}'"
            yield Finding(NOTE, "paused", _queue(one), "is paused: consumers get nothing", command)


def _blocked(facts: Facts) -> Iterator[Finding]:
    for one in facts.connections:
        if one.get("state") in ("blocked", "blocking"):
            who = f"connection '{one.get('name')}' of '{one.get('user')}'"
            yield Finding(
                WARNING, "blocked", who, "is blocked: an alarm is or was on", "leporid status"
            )


def _missing_targets(facts: Facts) -> Iterator[Finding]:
    there = {(one.get("vhost"), one.get("name")) for one in facts.exchanges}
    if not there:
        return
    for noun, objects, keys in (
        ("dead-letter exchange", facts.queues, ("x-dead-letter-exchange", "dead-letter-exchange")),
        ("alternate exchange", facts.exchanges, ("alternate-exchange", "alternate-exchange")),
    ):
        for one in objects:
            arguments = one.get("arguments") or {}
            defined = one.get("effective_policy_definition") or {}
            target = arguments.get(keys[0], defined.get(keys[1]))
            if target and (one.get("vhost"), target) not in there:
                kind = "queue" if objects is facts.queues else "exchange"
                name = f"{kind} '{one.get('name')}' in '{one.get('vhost')}'"
                what = f"its {noun} '{target}' is missing: what should go there is lost"
                command = f"leporid exchanges add '{target}' -p '{one.get('vhost')}'"
                yield Finding(ERROR, "targets", name, what, command)


def _dropped_letters(facts: Facts) -> Iterator[Finding]:
    for one in facts.dead_letters:
        if one.get("dropped"):
            name = f"queue '{one.get('queue')}' in '{one.get('vhost')}'"
            what = (
                f"{one['dropped']} of its dead letters ({one.get('reason')}) were dropped: "
                f"exchange '{one.get('exchange')}' is missing, or leads nowhere"
            )
            command = f"leporid exchanges show '{one.get('exchange')}' -p '{one.get('vhost')}'"
            yield Finding(NOTE, "deadletters", name, what, command)


def _idle_policies(facts: Facts) -> Iterator[Finding]:
    governed = [*facts.queues, *facts.exchanges]
    for kind, policies in facts.policies.items():
        used = {(one.get("vhost"), one.get(kind)) for one in governed}
        for policy in policies:
            if (policy["vhost"], policy["name"]) in used:
                continue
            title = kind.replace("_", " ")
            noun = "policies" if kind == "policy" else "operator-policies"
            command = f"leporid {noun} show '{policy['name']}' -p '{policy['vhost']}'"
            what = (
                f"governs nothing: no {policy['apply-to']} matches '{policy['pattern']}', or "
                "others come first"
            )
            name = f"{title} '{policy['name']}' in '{policy['vhost']}'"
            yield Finding(NOTE, "policies", name, what, command)


def _slow_syncs(facts: Facts) -> Iterator[Finding]:
    bounds = _histogram(facts.metrics, "leporid_sync_seconds")
    total = bounds[-1][1] if bounds else 0.0
    if not total:
        return
    slow = next((bound for bound, count in bounds if count >= 0.99 * total), bounds[-1][0])
    if slow > SYNC_SECONDS:
        what = (
            f"one sync in a hundred took about {slow * 1000:.0f} ms or more: confirms wait for it"
        )
        yield Finding(
            WARNING, "disk", "broker", what, "put data_dir on a faster disk (docs/operations.md)"
        )


def _histogram(metrics: Mapping[str, float], name: str) -> list[tuple[float, float]]:
    """Return the buckets of a histogram: upper bound and count up to it, in order."""
    found = []
    for sample, count in metrics.items():
        match = re.fullmatch(re.escape(name) + r'_bucket\{.*?le="([^"]+)".*\}', sample)
        if match:
            found.append((float(match[1]), count))
    return sorted(found)


def _refusals(facts: Facts) -> Iterator[Finding]:
    for sample, count in facts.metrics.items():
        match = re.fullmatch(r'leporid_refusals_total\{.*?kind="([^"]+)".*\}', sample)
        if match and count:
            what = f"{count:.0f} requests were refused for the limit {match[1]}"
            yield Finding(NOTE, "limits", "broker", what, "see docs/reliability.md")


def _unknown_arguments(facts: Facts) -> Iterator[Finding]:
    for one in facts.unknown_arguments:
        meant = one.get("suggestion")
        what = f"nothing reads the argument '{one.get('argument')}': {one.get('reason')}"
        then = f"'{meant}' was meant, probably" if meant else "see docs/queue-arguments.md"
        name = f"{one.get('kind')} '{one.get('name')}' in '{one.get('vhost')}'"
        yield Finding(NOTE, "arguments", name, what, then)


def _filter_classes(facts: Facts) -> Iterator[Finding]:
    for one in facts.filter_classes:
        if one.get("state") == "waiting" or one.get("error"):
            what = f"fails ({one.get('failures')} times): {one.get('error')}"
            command = f"leporid filter-classes show '{one.get('name')}'"
            name = f"filter class '{one.get('name')}'"
            yield Finding(WARNING, "filters", name, what, command)


CHECKS: Final[tuple[Check, ...]] = (
    _alarms,
    _near_limits,
    _certificates,
    _guest,
    _unroutable,
    _backlogs,
    _paused,
    _blocked,
    _missing_targets,
    _dropped_letters,
    _idle_policies,
    _slow_syncs,
    _refusals,
    _unknown_arguments,
    _filter_classes,
)


def metrics_in(text: str) -> dict[str, float]:
    """Read a page of metrics in Prometheus's text form; what is no sample is passed over."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, _, value = line.rpartition(" ")
        try:
            found[name] = found.get(name, 0.0) + float(value)
        except ValueError:
            continue
    return found
