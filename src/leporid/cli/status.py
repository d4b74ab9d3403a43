"""`leporid status`: how the broker is, on one page.

Responsible for what the page shows, and for words for numbers (`12.3 MB`, `4 d 2 h`).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from leporid.cli.command import Single, Verb, argument
from leporid.cli.outcomes import FAILED, Failure, Forbidden
from leporid.cli.session import Session
from leporid.client.management import ManagementError, path_of

RATES: Final = ("publish", "confirm", "deliver_get", "ack", "return_unroutable", "drop_unroutable")
OF_THE_NODE: Final = "memory, disk, connections, uptime, files"
UNAVAILABLE: Final = 503
COUNTED: Final = ("connections", "channels", "consumers", "exchanges", "queues")


def gathered(session: Session) -> dict[str, Any]:
    """Return what there is to say, as `--json` has it.

    Raises:
        Failure: the broker does not answer, or does not let this user see it.
    """
    overview = session.get("overview")
    unseen: list[str] = []
    try:
        nodes = session.get("nodes")
    except Forbidden as refused:
        # A user with the tag management alone sees what is in its virtual hosts, and not the node.
        nodes = []
        unseen.append(f"{OF_THE_NODE}: {refused}")
    node = nodes[0] if nodes else {}
    stats = overview.get("message_stats", {})
    return {
        "product": overview.get("product_name") or "RabbitMQ",
        "version": overview.get("product_version") or overview.get("rabbitmq_version"),
        "cluster_name": overview.get("cluster_name"),
        "node": overview.get("node"),
        "pid": node.get("os_pid"),
        "uptime_ms": node.get("uptime"),
        "alarms": _alarms(session, node),
        "memory": {"used": node.get("mem_used"), "limit": node.get("mem_limit")},
        "disk": {"free": node.get("disk_free"), "limit": node.get("disk_free_limit")},
        "sockets": {"used": node.get("sockets_used"), "limit": node.get("sockets_total")},
        "files": {"limit": node.get("fd_total")},
        "listeners": [
            {key: each.get(key) for key in ("protocol", "ip_address", "port")}
            for each in [*overview.get("listeners", [])]
        ],
        "objects": overview.get("object_totals", {}),
        "messages": {
            key: value
            for key, value in overview.get("queue_totals", {}).items()
            if isinstance(value, int)
        },
        "rates": {
            name: stats.get(f"{name}_details", {}).get("rate", 0.0)
            for name in RATES if name in stats
        },
        "data_directory": node.get("db_dir"),
        "config_files": node.get("config_files", []),
        "not_seen": unseen,
    }  # fmt: skip


def _alarms(session: Session, node: Mapping[str, Any]) -> list[str]:
    """Return the alarms that are on; who does not see the node is told by the health check."""
    if node:
        fields = (("memory", "mem_alarm"), ("disk", "disk_free_alarm"))
        return [name for name, field in fields if node.get(field)]
    try:
        session.api.get(path_of("health", "checks", "alarms"))
    except ManagementError as error:
        if error.status != UNAVAILABLE:
            raise Failure(str(error)) from None
        return [error.reason]
    return []


def _status(session: Session, options: argparse.Namespace) -> int | None:
    found = gathered(session)
    if session.out.as_json:
        session.out.json(found)
    elif session.out.quiet:
        session.out.line("alarms " + ",".join(found["alarms"]) if found["alarms"] else "ok")
    else:
        session.out.facts(_page(found))
    return FAILED if found["alarms"] and not options.any else None


def _page(found: dict[str, Any]) -> dict[str, Any]:
    uptime = found["uptime_ms"]
    counts = [f"{found['objects'].get(name, 0)} {name}" for name in COUNTED]
    messages = found["messages"]
    rates = [f"{name} {rate:.1f}/s" for name, rate in found["rates"].items()]
    memory, disk, sockets = found["memory"], found["disk"], found["sockets"]
    if found["not_seen"]:
        of_node = {"not seen": "; ".join(found["not_seen"])}
    else:
        of_node = {
            "up": "" if uptime is None else duration(uptime / 1000),
            "memory": f"{size(memory['used'])} of {size(memory['limit'])}",
            "disk": f"{size(disk['free'])} free, alarm below {size(disk['limit'])}",
            "connections": f"{sockets['used']} of {sockets['limit']}",
            "data": found["data_directory"],
            "files": ", ".join(found["config_files"]) or "no configuration file",
        }
    return {
        "broker": f"{found['product']} {found['version']}, node {found['node']}",
        "cluster": found["cluster_name"],
        "alarms": ", ".join(found["alarms"]) or "none",
        "listeners": ", ".join(
            f"{each['protocol']} {each['ip_address']}:{each['port']}" for each in found["listeners"]
        ),
        "objects": ", ".join(counts),
        "messages": f"{messages.get('messages', 0)}, of which "
        f"{messages.get('messages_ready', 0)} ready and "
        f"{messages.get('messages_unacknowledged', 0)} unacknowledged",
        "rates": ", ".join(rates) or "none yet",
        **of_node,
    }


def size(count: Any) -> str:
    """Write a number of bytes in decimal units; what is not a number as "?"."""
    if not isinstance(count, int | float):
        return "?"
    for unit in ("B", "KB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(seconds: float) -> str:
    """Write a time by its two largest units."""
    whole = int(seconds)
    parts: list[str] = []
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if whole >= length or (unit == "s" and not parts):
            parts.append(f"{whole // length} {unit}")
        whole %= length
    return " ".join(parts[:2])


COMMAND: Final = Single(
    Verb(
        "status",
        "say how the broker is",
        _status,
        arguments=(
            argument(
                "--any", action="store_true", help="exit code 0 whether an alarm is on or not"
            ),
        ),
        about="Say how the broker is: version, alarms, memory, disk, listeners, objects, rates. "
        "Exit code 0: no alarm is on; 1: one is, or nobody answers.",
    )
)
