"""Which way the engine's folders know each other; import-linter does not see into Cython.

ORDER is the order of the folders, lowest first. A module may import and cimport from its own folder
and from lower ones. TOGETHER lists the modules of one folder that know each other, with the reason.
`docs/decisions/0016` says how the folders came to be.
"""

import re
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[2] / "src" / "leporid" / "engine"
PACKAGE = "leporid.engine."

ORDER = [
    "wire",
    "bounds",
    "log",
    "selectors",
    "queue",
    "stream",
    "routing",
    "publishing",
    "selecting",
    "internal",
    "connection",
    "tables",
    "engine",
]

# Modules of one folder that know each other, and why none of them is whole without the others.
TOGETHER = {
    "what all queues share is asked by each, and gives each its turn": {
        "queue.queue",
        "queue.queues",
        "queue.dead_lettering",
        "queue.restore",
    },
    "groups of filters move between the scans that they share": {
        "selecting.filtered_consumers",
        "selecting.scan_groups",
        "selecting.consumer_verdicts",
    },
    "a stream opens windows of itself": {"stream.stream", "stream.window"},
    "a connection has channels, a channel consumers, and each writes to the connection": {
        "connection.channel",
        "connection.connection",
        "connection.connections",
        "connection.consumer",
        "connection.credit",
        "connection.group_retries",
        "connection.judged_stream_consumer",
        "connection.output",
        "connection.stream_consumer",
        "connection.timeouts",
        "connection.transaction",
    },
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


def cycles(known: dict[str, set[str]]) -> set[frozenset[str]]:
    """Sets of modules of which each leads to each other, by whatever way."""
    reach = {here: set(others) for here, others in known.items()}
    for middle, beyond in reach.items():
        for others in reach.values():
            if middle in others:
                others |= beyond
    found = {
        frozenset(other for other in others if here in reach.get(other, ()))
        for here, others in reach.items()
        if here in others
    }
    return {together for together in found if len(together) > 1}


def test_folders_of_the_engine_know_lower_ones_only():
    if found := sorted(upward(imports())):
        pytest.fail("\n".join(["have the lower module be given what it needs:", *found]), False)


def test_modules_that_know_each_other_are_those_with_a_reason():
    assert cycles(imports()) == {frozenset(each) for each in TOGETHER.values()}


def test_an_arrow_up_is_seen():
    assert upward({"log.log": {"queue.queue", "wire.record"}}) == {"log.log -> queue.queue"}


def test_a_cycle_is_seen():
    known = {"a.x": {"a.y"}, "a.y": {"a.z", "a.w"}, "a.z": {"a.x"}, "a.w": set[str]()}
    assert cycles(known) == {frozenset({"a.x", "a.y", "a.z"})}


def test_both_kinds_of_import_are_seen():
    known = imports()
    assert "wire.record" in known["log.log"]  # by cimport
    assert "wire.rewrites" in known["connection.channel"]  # by import
    assert "log.log" in known["log.replay"]  # by both
