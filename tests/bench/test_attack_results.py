import json
from dataclasses import replace
from typing import Any

import pytest
from bench.attacks.attack import LOAD, Attack, Bounds
from bench.attacks.results import HEAD, beyond, from_json, markdown, row, table
from bench.attacks.trial import Outcome
from bench.hostile import attacks

BOUNDS = Bounds(
    stall_ms=50, p999_ms=5, health_ms=50, memory_bytes=10**9, recovery_seconds=1, probe_ms=100
)


def seen(**others: float) -> dict[str, Any]:
    figures = {"stall_ms": 10.0, "p99_ms": 1.0, "p999_ms": 2.0, "health_ms": 3.0}
    return figures | {"late_ms": 0.5, "blocked_seconds": 0.0, "answers": 100} | others


def outcome(**others: Any) -> Outcome:
    given: dict[str, Any] = {
        "attack": "purge",
        "broker": "leporid",
        "idle": seen(),
        "seen": seen(),
        "recovery_seconds": 0.5,
        "memory_peak_bytes": 10**8,
    }
    return Outcome(**(given | others))


def test_what_is_within_all_bounds_passes():
    assert beyond(outcome(), BOUNDS) == []
    assert row(outcome(), BOUNDS)[-1] == "passed"


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"seen": seen(stall_ms=1234.0)}, "stall 1,234 > 50"),
        ({"seen": seen(p999_ms=5.4)}, "p99.9 5.4 > 5"),
        ({"seen": seen(health_ms=60.0)}, "health 60 > 50"),
        ({"memory_peak_bytes": 1_500_000_000}, "memory MB 1,500 > 1,000"),
        ({"recovery_seconds": 2.0}, "recovery s 2.0 > 1"),
        ({"recovery_seconds": None}, "recovery: not within the time"),
        ({"probe_ms": 101.0}, "others ms 101 > 100"),
        ({"probe_failures": ["no lease"]}, "others: no lease"),
        ({"figures": {"kept_mb": (60.0, 17.0)}}, "kept mb 60 > 17"),
        ({"lost": "closed"}, "canary: closed"),
        ({"ended": "it ended", "recovery_seconds": None}, "broker: it ended"),
        ({"seen": {}}, "nothing was measured"),
    ],
)
def test_what_is_beyond_a_bound_is_said(others: dict[str, Any], said: str):
    assert beyond(outcome(**others), BOUNDS) == [said]


def test_a_figure_without_a_bound_is_not_judged():
    assert beyond(outcome(figures={"kept_mb": (60.0, None)}), BOUNDS) == []


def test_load_is_judged_by_what_others_wait_when_it_is_not_there():
    slow = outcome(seen=seen(p99_ms=11.0), idle=seen(p99_ms=2.0))
    assert beyond(slow, LOAD) == ["p99 11.0 > 10"]
    assert beyond(replace(slow, idle=seen(p99_ms=2.2)), LOAD) == []


def test_an_idle_time_too_short_to_compare_with_is_not_compared_with():
    assert beyond(outcome(seen=seen(p99_ms=2.4), idle=seen(p99_ms=0.01)), LOAD) == []


def test_the_table_says_why_an_attack_was_not_made():
    skipped = Outcome(attack="leases", broker="rabbitmq", skipped="has no such thing")
    lines = table([row(outcome(), BOUNDS), row(skipped, BOUNDS)]).splitlines()
    assert lines[0].split("  ")[0] == HEAD[0]
    cells = ["purge", "leporid", "10", "1.0", "2.0", "1.0", "3", "100", "0.5", "0.0", "0.0", "yes"]
    assert lines[2].split() == [*cells, "passed"]
    assert lines[3].endswith("has no such thing")


def test_the_page_has_brokers_side_by_side():
    attack = Attack(name="purge", about="A purge.", run=lambda _: iter([None]))
    dead = outcome(broker="rabbitmq", ended="it ended", recovery_seconds=None)
    lines = markdown({"purge": [outcome(), dead]}, {"purge": attack}).splitlines()
    assert lines[0].count("|") == lines[2].count("|") == 14
    figures = "10 ms | 2.0 ms | 3 ms | 100 MB"
    assert lines[2] == f"| `purge`: A purge. | {figures} | 0.5 s |  | {figures} | **it ended** |  |"


def test_the_page_has_what_only_this_attack_measures():
    attack = Attack(name="purge", about="A purge.", run=lambda _: iter([None]), bounds=LOAD)
    one = outcome(
        seen=seen(p99_ms=6.0), probe_ms=7.0, figures={"kept_mb": (60.0, 17.0), "rows": (5.0, None)}
    )
    refused = outcome(broker="rabbitmq", probe_ms=7.0, probe_failures=["no lease"])
    lines = markdown({"purge": [one, refused]}, {"purge": attack}).splitlines()
    cells = lines[2].split(" | ")
    assert cells[6] == "**p99 6.0 ms**; 7 ms; **kept mb 60**; rows 5"
    assert cells[12].startswith("p99 1.0 ms; **refused**")


def test_the_page_says_what_does_not_recover_and_what_was_not_tried():
    stays = outcome(recovery_seconds=None, seen=seen(stall_ms=60.0))
    skipped = Outcome(attack="leases", broker="rabbitmq", skipped="has no such thing")
    late = outcome(broker="late", seen=seen(p999_ms=6.0))
    lines = markdown({"purge": [stays], "leases": [skipped]}, {}).splitlines()
    assert " | **6.0 ms** | " in markdown({"purge": [late]}, {})
    assert lines[2].startswith("| `purge` | **60 ms** | 2.0 ms | 3 ms | 100 MB | **not in time** |")
    assert lines[3] == f"| `leases` |{' – |' * 12}"


def test_outcomes_are_read_as_they_were_written():
    one = outcome(figures={"kept_mb": (60.0, 17.0)}, notes=["530 no"])
    written = json.loads(json.dumps([one.as_json()]))
    (read,) = from_json(written)
    assert beyond(read, BOUNDS) == beyond(one, BOUNDS) != []
    assert read.notes == one.notes


def test_every_attack_says_what_it_does_in_one_line():
    assert len(attacks()) > 30
    for one in attacks():
        assert one.about.endswith("."), one.name
        assert len(one.about) < 100, one.name
