"""Which way the engine's folders know each other; import-linter does not see into Cython.

ORDER is the order of the folders, lowest first. A module may import and cimport from its own folder
and from lower ones. UPWARD lists the arrows that still go up; `docs/decisions/0016` says where each
goes. The list only shrinks: an arrow that is gone must be taken out of it, and none may be added.
"""

import re
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[2] / "src" / "leporid" / "engine"
PACKAGE = "leporid.engine."

ORDER = [
    "wire",
    "log",
    "selectors",
    "queue",
    "stream",
    "routing",
    "connection",
    "tables",
    "plane",
]

UPWARD = {
    "connection.channel -> plane",
    "connection.group_retries -> plane",
    "connection.outbox -> plane",
    "connection.peer -> plane",
    "connection.timeouts -> plane",
    "connection.transaction -> plane",
    "log.cleaning -> plane",
    "log.cleaning -> queue.index",
    "log.cleaning -> queue.queue",
    "log.facts -> plane",
    "log.facts -> queue.index",
    "log.facts -> queue.queue",
    "log.replay -> plane",
    "log.replay -> queue.backlog",
    "log.replay -> queue.queue",
    "log.replay -> queue.restore",
    "log.storing -> plane",
    "log.storing -> queue.delays",
    "log.storing -> queue.queue",
    "log.storing -> queue.unique_queue",
    "log.storing -> routing.route_cache",
    "log.storing -> stream.stream",
    "queue.backlog -> routing.route_cache",
    "queue.browse -> plane",
    "queue.consumer_verdicts -> plane",
    "queue.dead_lettering -> plane",
    "queue.delays -> plane",
    "queue.delays -> routing.route_cache",
    "queue.exchange_cache -> connection.channel",
    "queue.exchange_cache -> routing.route_cache",
    "queue.filtered_consumers -> plane",
    "queue.queue -> plane",
    "queue.republish -> plane",
    "queue.republish -> routing.route_cache",
    "queue.retries -> plane",
    "queue.scan_groups -> plane",
    "queue.timed_queue -> plane",
    "queue.unique_queue -> routing.route_cache",
    "queue.verdict_queue -> plane",
    "queue.verdict_queue -> routing.route_cache",
    "routing.conditional_routes -> plane",
    "routing.route_cache -> plane",
    "stream.scanning -> connection.stream_consumer",
    "stream.scanning -> plane",
    "stream.stream -> connection.stream_consumer",
    "stream.stream -> plane",
    "tables.publisher -> plane",
}

IMPORT = re.compile(
    r"^\s*(?:from\s+leporid\.engine\.([\w.]+)\s+c?import|c?import\s+leporid\.engine\.([\w.]+))\b"
)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ENGINE).with_suffix("").parts)


def imports() -> dict[str, set[str]]:
    """What each module of the engine knows of the others, by `import` and `cimport` alike."""
    known: dict[str, set[str]] = {}
    for path in sorted(ENGINE.rglob("*")):
        if path.suffix not in {".pyx", ".pxd", ".py"} or path.name == "__init__.py":
            continue
        here = known.setdefault(module_of(path), set())
        for line in path.read_text(encoding="utf-8").splitlines():
            if found := IMPORT.match(line):
                here.add(found[1] or found[2])
        here.discard(module_of(path))
    return known


def upward(known: dict[str, set[str]]) -> set[str]:
    """The arrows from a folder to a higher one."""
    rank = {folder: at for at, folder in enumerate(ORDER)}
    return {
        f"{here} -> {other}"
        for here, others in known.items()
        for other in others
        if rank[here.split(".")[0]] < rank[other.split(".")[0]]
    }


def test_folders_of_the_engine_know_lower_ones_only():
    found = upward(imports())
    if added := sorted(found - UPWARD):
        pytest.fail("\n".join(["have the lower module be given what it needs:", *added]), False)
    if gone := sorted(UPWARD - found):
        pytest.fail("\n".join(["these are gone; take them out of UPWARD:", *gone]), False)


def test_an_arrow_up_is_seen():
    assert upward({"log.log": {"queue.queue", "wire.wire"}}) == {"log.log -> queue.queue"}


def test_both_kinds_of_import_are_seen():
    known = imports()
    assert "wire.wire" in known["log.log"]  # by cimport
    assert "wire.rewrites" in known["connection.channel"]  # by import
    assert "log.log" in known["log.replay"]  # by both
