"""`leporid top`: the busiest queues and the rates of the broker, again and again.

Responsible for the picture; the numbers are the broker's. Only the queues that are shown are asked
for, in the broker's own order, so that ten thousand others cost nothing here.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, Final

from leporid.cli.command import Single, Verb, argument
from leporid.cli.outcomes import Failure, WrongUse
from leporid.cli.output import value_at
from leporid.cli.session import Session
from leporid.cli.status import gathered, size

SORTS: Final = {
    "messages": "messages",
    "publish": "message_stats.publish_details.rate",
    "deliver": "message_stats.deliver_get_details.rate",
    "ack": "message_stats.ack_details.rate",
    "unacked": "messages_unacknowledged",
    "consumers": "consumers",
    "bytes": "message_bytes",
}
"""What `--by` may be, and the field of a queue that it means."""
SHOWN: Final = {
    "vhost": "vhost",
    "queue": "name",
    "ready": "messages_ready",
    "unacked": "messages_unacknowledged",
    "in/s": SORTS["publish"],
    "out/s": SORTS["deliver"],
    "ack/s": SORTS["ack"],
    "consumers": "consumers",
}
INTERVAL_LEAST: Final = 0.2
ROWS_MAX: Final = 500


def picture(session: Session, count: int, by: str, vhost: str | None) -> dict[str, Any]:
    """Return what is shown: `broker` as `leporid status` has it, `queues` the first `count`."""
    query: dict[str, str | int | None] = {
        "page": 1,
        "page_size": count,
        "sort": SORTS[by],
        "sort_reverse": "true",
        "columns": ",".join(SHOWN.values()),
    }
    path = ["queues"] if vhost is None else ["queues", vhost]
    found = session.get(*path, query=query)
    queues = found["items"] if isinstance(found, dict) else found[:count]
    return {
        "broker": gathered(session),
        "queues": [{name: value_at(one, field) for name, field in SHOWN.items()} for one in queues],
    }


def _top(session: Session, options: argparse.Namespace) -> None:
    if options.interval < INTERVAL_LEAST:
        raise WrongUse(f"--interval is {INTERVAL_LEAST} seconds at least")
    if not 1 <= options.count <= ROWS_MAX:
        raise WrongUse(f"--count is from 1 to {ROWS_MAX}")

    def look() -> dict[str, Any]:
        return picture(session, options.count, options.by, options.vhost)

    if options.once or session.out.as_json or session.out.quiet or not session.out.terminal:
        if not options.once:
            raise WrongUse("to have it once, for a program, give --once")
        # The rates of a queue are those since it was looked at before.
        look()
        time.sleep(options.interval)
        _write(session, look())
        return
    _live(session, look, options.interval)


def _write(session: Session, found: dict[str, Any]) -> None:
    if session.out.as_json:
        session.out.json(found)
    else:
        if not session.out.quiet:
            session.out.line("\t".join(_summary(found["broker"])))
        session.out.rows(found["queues"], tuple(SHOWN), "queue")


def _live(session: Session, look: Any, interval: float) -> None:
    try:
        from rich.console import Console
        from rich.live import Live
    except ImportError:
        raise Failure("a live picture needs rich: pip install 'leporid[cli]'; or --once") from None
    console = Console(file=session.out.stream, highlight=False, emoji=False)
    with Live(_drawn(look()), console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(interval)
                live.update(_drawn(look()), refresh=True)
        except KeyboardInterrupt:
            pass


def _drawn(found: dict[str, Any]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from leporid.cli.output import text_of

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, expand=True)
    for name in SHOWN:
        table.add_column(name, justify="left" if name in ("vhost", "queue") else "right")
    for one in found["queues"]:
        table.add_row(*(Text(text_of(value)) for value in one.values()))
    return Group(Text("   ".join(_summary(found["broker"]))), Text(""), table)


def _summary(broker: dict[str, Any]) -> list[str]:
    rates = broker["rates"]
    messages = broker["messages"]
    return [
        f"{broker['product']} {broker['version']}",
        f"in {rates.get('publish', 0.0):.0f}/s",
        f"out {rates.get('deliver_get', 0.0):.0f}/s",
        f"ack {rates.get('ack', 0.0):.0f}/s",
        f"ready {messages.get('messages_ready', 0)}",
        f"unacked {messages.get('messages_unacknowledged', 0)}",
        f"connections {broker['objects'].get('connections', 0)}",
        f"memory {size(broker['memory']['used'])}",
        f"disk {size(broker['disk']['free'])} free",
        "ALARM " + ",".join(broker["alarms"]) if broker["alarms"] else "no alarm",
    ]


COMMAND: Final = Single(
    Verb(
        "top",
        "show the busiest queues, live",
        _top,
        (
            argument(
                "--once",
                action="store_true",
                help="once, after an interval; for programs, with --json",
            ),
            argument("--interval", "-n", type=float, default=2.0, metavar="SECONDS", help="(2)"),
            argument("--count", "-c", type=int, default=20, metavar="N", help="queues (20)"),
            argument("--vhost", "-p", metavar="V", help="virtual host (all)"),
            argument("--by", choices=tuple(SORTS), default="messages", help="(messages)"),
        ),
        about="Show the rates of the broker and its busiest queues, live; Ctrl-C ends it.",
    )
)
