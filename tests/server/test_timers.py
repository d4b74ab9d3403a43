"""Everything that happens because time has passed, and what bounds the work of it.

A peer can see to it that very many things are due at one moment. So what a timer does costs the
same however much there is, or goes in steps, or in rounds that do so much each. A new timer has to
say which.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import leporid

# Parts of the broker. The client, the command line, Spark and tests have no peers like these.
PARTS: Final = ("broker", "filterserver", "limits", "management", "server", "storage")
TIMERS: Final = ("call_later", "call_at", "Repeating")

# One connection, or one request: nothing is looked for.
ONE: Final = {
    "server/http_connections.py: self.transport.abort": "its head did not come in time",
    "server/http_connections.py: self._look": "whether it goes on",
    "server/link.py: self.close": "its peer did not close the socket",
    "server/listening.py: self._watch": "the listening sockets are watched again",
    "filterserver/host.py": "an answer of a process of filter classes",
    "filterserver/keeper.py": "until such a process is started again",
    "management/admission.py": "a request waits for a share",
    "management/live.py": "one page hears that the broker is there",
    "management/paths.py": "one answer is to be over",
    "management/waiting.py": "one request waits for something",
}
# As much as there is of the broker: one.
FIXED: Final = {
    "server/alarms.py: self._look": "memory, and room on the disk",
    "server/histograms.py: self._come": "the time",
    "server/http.py": "the server's own round, and its end",
    "server/metrics_pages.py: self._begin": "a piece of the totals, which are as many as ever",
    "server/durability.py: self._look": "one comparison",
    "server/node.py: log_lines.report": "what the log left out",
    "server/node.py: self._service_manager.alive": "a word to systemd",
    "server/node.py": "ends of the broker",
    "server/repeating.py: self._round": "what is given to it: see the others",
    "server/turns.py: self._ring": "a turn, and what is in it: see `timed`",
}
# In steps of a job, or one piece in each round.
IN_STEPS: Final = {
    "management/leases.py: over": "tests/management/test_leases.py",
    "server/listener.py: self._tick": "tests/server/test_listener.py",
    "server/node.py: around.sample": "tests/management/test_histories.py",
    "server/node.py: self._look_at_readers": (
        "tests/broker/stream/test_readers.py and tests/broker/group/test_groups.py"
    ),
    "server/node.py: self._broker.handovers": "tests/broker/group/test_handovers.py",
}
# So many in one round.
IN_ROUNDS: Final = {
    "server/durability.py: self._tick": "tests/engine/stream/test_syncs.py",
    "server/node.py: self._broker.cancels": "tests/broker/connection/test_cancels.py",
    "server/node.py: self._broker.unused": "tests/broker/queue/test_unused.py",
    "server/node.py: GarbageTrigger(lambda: self._broker.handled)": "tests/server/test_garbage.py",
}


def timers() -> Iterator[str]:
    """Name each timer: the file, and what it calls."""
    root = Path(leporid.__file__).parent
    for part in PARTS:
        for path in sorted((root / part).rglob("*.py")):
            place = path.relative_to(root).as_posix()
            for node in ast.walk(ast.parse(path.read_text())):
                yield from (place + name for name in named(node))


def named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func).rpartition(".")[2]
        if called in TIMERS:
            yield ": " + ast.unparse(node.args[1])
        elif ast.unparse(node.func) in ("asyncio.timeout", "asyncio.wait_for", "asyncio.sleep"):
            yield ""
    elif isinstance(node, ast.AugAssign) and ast.unparse(node.target).endswith(".timed"):
        assert isinstance(node.value, ast.List)
        for each in node.value.elts:
            yield ": " + ast.unparse(each)


def test_every_timer_says_what_bounds_it() -> None:
    said = [*ONE, *FIXED, *IN_STEPS, *IN_ROUNDS]
    assert len(said) == len(set(said))
    assert sorted(set(timers())) == sorted(said)


def test_what_shows_the_bound_is_there() -> None:
    root = Path(__file__).parents[2]
    for shown in (IN_STEPS | IN_ROUNDS).values():
        for path in shown.split(" and "):
            assert (root / path).is_file(), path
