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
    "encoding",
    "log",
    "filtering",
    "queues",
    "streams",
    "routing",
    "peers",
    "tables",
    "plane",
]

UPWARD = {
    "log.cleaning -> plane",
    "log.cleaning -> queues.index",
    "log.cleaning -> queues.queue",
    "log.facts -> plane",
    "log.facts -> queues.index",
    "log.facts -> queues.queue",
    "log.replay -> plane",
    "log.replay -> queues.backlog",
    "log.replay -> queues.queue",
    "log.restoring -> queues.index",
    "log.restoring -> queues.queue",
    "log.storing -> plane",
    "log.storing -> queues.delays",
    "log.storing -> queues.queue",
    "log.storing -> routing.dedup",
    "log.storing -> routing.source",
    "log.storing -> streams.stream",
    "peers.channel -> plane",
    "peers.outbox -> plane",
    "peers.peer -> plane",
    "peers.timeouts -> plane",
    "peers.transaction -> plane",
    "queues.backlog -> routing.source",
    "queues.browse -> plane",
    "queues.burials -> plane",
    "queues.cohort -> plane",
    "queues.consumer -> peers.channel",
    "queues.consumer -> peers.credit",
    "queues.consumer -> peers.outbox",
    "queues.delays -> plane",
    "queues.delays -> routing.source",
    "queues.group_retries -> peers.channel",
    "queues.group_retries -> plane",
    "queues.group_retries -> routing.source",
    "queues.group_retries -> streams.choice",
    "queues.group_retries -> streams.reader",
    "queues.group_retries -> streams.stream",
    "queues.inquiry -> plane",
    "queues.onward -> plane",
    "queues.onward -> routing.dedup",
    "queues.onward -> routing.source",
    "queues.queue -> plane",
    "queues.retries -> plane",
    "queues.staging -> plane",
    "queues.staging -> routing.source",
    "queues.timed_queue -> plane",
    "queues.wishes -> plane",
    "routing.cache -> peers.channel",
    "routing.forks -> plane",
    "routing.source -> plane",
    "streams.asking_reader -> peers.channel",
    "streams.reader -> peers.channel",
    "streams.scanning -> plane",
    "streams.stream -> plane",
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
    assert upward({"log.log": {"queues.queue", "encoding.wire"}}) == {"log.log -> queues.queue"}


def test_both_kinds_of_import_are_seen():
    known = imports()
    assert "encoding.wire" in known["log.log"]  # by cimport
    assert "encoding.rewrites" in known["peers.channel"]  # by import
    assert "log.log" in known["log.replay"]  # by both
