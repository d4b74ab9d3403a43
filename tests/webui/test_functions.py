"""What the web UI works out by itself, run by node: findings, settings, samples, formats."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from leporid.webui import FOLDER

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")

NOW_MS = 1_795_000_000_000


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules, where node takes them for modules."""
    folder = tmp_path_factory.mktemp("webui")
    shutil.copytree(FOLDER / "core", folder / "core")
    (folder / "package.json").write_text('{"type": "module"}')
    return folder


def run(core: Path, script: str, given: Any = None) -> Any:
    """Run a script whose last line is `answer(…)`; `given` is what it is given."""
    lines = [each.strip() for each in script.strip().splitlines()]
    head = [each for each in lines if each.startswith("import ")]
    rest = [each for each in lines if not each.startswith("import ")]
    given_and_answer = [
        f"const given = {json.dumps(given)};",
        "const answer = (found) => console.log(JSON.stringify(found));",
    ]
    (core / "script.js").write_text("\n".join([*head, *given_and_answer, *rest]))
    command = [str(NODE), "--no-warnings", str(core / "script.js")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


FINDINGS = """
import { findings, newMemory } from "./core/attention.js";
const memory = newMemory();
answer(given.map(([seen, ms]) => findings(seen, memory, ms)));
"""


def look(core: Path, *looks: tuple[dict[str, Any], int]) -> list[list[dict[str, Any]]]:
    """What was found at each look; times are seconds from now on."""
    given = [[seen, NOW_MS + seconds * 1000] for seen, seconds in looks]
    found: list[list[dict[str, Any]]] = run(core, FINDINGS, given)
    return found


def queue(name: str = "orders", **fields: Any) -> dict[str, Any]:
    return {
        "name": name, "vhost": "/", "type": "classic", "state": "running", "consumers": 1,
        "messages_ready": 0, "messages_unacknowledged": 0, **fields,
    }  # fmt: skip


def test_nothing_is_found_where_nothing_is_wrong(core: Path) -> None:
    node = {"mem_used": 10, "mem_limit": 100, "disk_free": 900, "disk_free_limit": 100}
    quiet = {"items": [queue(messages_ready=5, messages_ready_details={"rate": 3})]}
    seen = {"node": node, "ready": quiet, "unacked": quiet, "live": {"overview": {"sync_ms": 2}}}
    assert look(core, (seen, 0)) == [[]]


def test_an_alarm_comes_first(core: Path) -> None:
    node = {
        "mem_used": 100, "mem_limit": 100, "mem_alarm": True, "disk_free": 150,
        "disk_free_limit": 100,
    }  # fmt: skip
    blocked = {"items": [{"state": "blocked"}, {"state": "running"}], "filtered_count": 2}
    paused = {"items": [queue(state="paused", messages_ready=4)]}
    [found] = look(core, ({"node": node, "blocked": blocked, "ready": paused}, 0))
    assert [each["level"] for each in found] == ["bad", "bad", "warn", "info"]
    assert found[0]["text"].startswith("The memory alarm is on: 100 B of 100 B are used.")
    assert found[1]["subject"]["name"] == "One publisher"
    assert found[1]["text"].startswith("is blocked: the broker reads nothing of it")
    assert found[2]["text"] == "Disk runs low: 150 B are free, at least 100 B are needed."
    assert found[3]["text"] == "is paused; 4 messages wait."


def test_an_alarm_is_found_by_who_does_not_see_the_node(core: Path) -> None:
    [found] = look(core, ({"node": None, "live": {"overview": {"alarms": ["disk"]}}}, 0))
    assert [each["text"] for each in found] == ["The disk alarm is on. Publishers are blocked."]


def test_a_queue_that_grows_without_a_consumer_is_found(core: Path) -> None:
    grows = {"consumers": 0, "messages_ready": 1200, "messages_ready_details": {"rate": 12.5}}
    rows = [queue("a/b", **grows), queue("has", **{**grows, "consumers": 1})]
    [found] = look(core, ({"ready": {"items": rows}}, 0))
    assert len(found) == 1
    assert found[0]["subject"] == {"name": "a/b", "parts": ["queues", "/", "a/b"]}
    assert found[0]["text"] == "grows by 12.5/s and has no consumer; 1,200 messages wait."


def test_a_queue_that_grows_for_a_minute_despite_its_consumers_is_found(core: Path) -> None:
    def seen(ready: int) -> dict[str, Any]:
        return {"ready": {"items": [queue(consumers=2, messages_ready=ready)]}}

    looks = [(seen(5), 0), (seen(900), 30), (seen(1505), 75), (seen(1400), 90), (seen(1500), 120)]
    found = look(core, *looks)
    assert [len(each) for each in found] == [0, 0, 1, 0, 0]
    assert found[2][0]["subject"]["query"] == {"tab": "consumers"}
    assert found[2][0]["text"] == (
        "grows faster than its 2 consumers can take: 1,500 more ready in 1 min 15 s, 1,505 in all."
    )


def test_unacked_messages_are_found_when_nothing_was_acknowledged_for_a_minute(
    core: Path,
) -> None:
    def seen(acks: int) -> dict[str, Any]:
        return {
            "unacked": {
                "items": [queue(messages_unacknowledged=7, message_stats={"ack": acks})],
            }
        }

    found = look(core, (seen(3), 0), (seen(3), 30), (seen(3), 75), (seen(4), 90), (seen(4), 120))
    assert [len(each) for each in found] == [0, 0, 1, 0, 0]
    assert "none was acknowledged for 1 min 15 s or longer" in found[2][0]["text"]


def test_a_reader_that_lags_is_found(core: Path) -> None:
    reader = {"vhost": "/", "stream": "flights", "reader": "r", "lag": 500}
    rows = [{**reader, "lag_ms": 3_600_000}, {**reader, "lag_ms": 1000}]
    [found] = look(core, ({"readers": {"items": rows}}, 0))
    assert [each["text"] for each in found] == [
        'has a reader that lags: "r" is 500 messages behind, and the first of them came 1 h ago.'
    ]


def test_dead_letters_are_found_while_there_are_more(core: Path) -> None:
    def seen(messages: int, dropped: int = 0) -> dict[str, Any]:
        row = {
            "vhost": "/", "queue": "q", "reason": "expired", "exchange": "dead",
            "routing_key": None, "messages": messages, "dropped": dropped,
        }  # fmt: skip
        return {"dead": {"items": [row]}}

    looks = [(seen(5), 0), (seen(8), 15), (seen(8), 400), (seen(8), 800), (seen(9, 1), 815)]
    found = look(core, *looks)
    assert [[each["level"] for each in one] for one in found] == [[], ["warn"], [], [], ["bad"]]
    assert found[1][0]["text"] == "made 3 dead letters in 15 s (expired)."


RIGHTS = """
import { lets, reasonNotTo } from "./core/rights.js";
const who = { permissions: [{ vhost: "/", configure: "", write: "^orders", read: ".*" }] };
answer([given.map(([pattern, name]) => lets(pattern, name)), [
  reasonNotTo(who, "write", "/", "orders.eu"), reasonNotTo(who, "write", "/", ""),
  reasonNotTo(who, "configure", "/", "orders"), reasonNotTo(who, "read", "shop", "orders"),
  reasonNotTo({ permissions: null }, "read", "shop", "orders"), reasonNotTo(null, "read", "", ""),
]]);
"""


def test_permissions_disable_what_they_plainly_exclude(core: Path) -> None:
    patterns = [
        ("", "orders", False), (".*", "a\nb", True), ("^orders$", "orders", True),
        ("^orders$", "orders2", False), ("ord", "my-orders", True), ("^\\d+$", "a", False),
        # RE2 and JavaScript differ, or a browser would take for ever: the broker decides.
        ("(?i)ORDERS", "x", True), ("[[:alpha:]]", "1", True), ("(", "x", True),
        ("^(a+)+$", "a" * 200 + "!", True), ("^\\Qa.b\\E$", "x", True),
    ]  # fmt: skip
    lets, reasons = run(core, RIGHTS, [[pattern, name] for pattern, name, _ in patterns])
    assert lets == [wanted for _, _, wanted in patterns]
    assert reasons == [
        "",
        'This needs the permission to write "amq.default" in "/", which your user does not have.',
        'This needs the permission to configure "orders" in "/", which your user does not have.',
        'Your user may not enter the virtual host "shop".',
        "",
        "",
    ]


SETTINGS = """
import { settingRows } from "./core/settings.js";
answer(given.map(settingRows));
"""


@pytest.mark.parametrize(
    ("kind", "setting", "argument", "policy", "value", "source"),
    [
        ("classic", "max-length", 10, 5, 5, "policy"),
        ("classic", "max-length", 5, 10, 5, "argument"),
        ("classic", "overflow", "drop-head", "reject-publish", "drop-head", "argument"),
        ("quorum", "overflow", "drop-head", "reject-publish", "reject-publish", "policy"),
        ("quorum", "expires", 5, 10, 10, "policy"),
        ("classic", "expires", 5, 10, 5, "argument"),
        ("stream", "max-age", "1D", "7D", "7D", "policy"),
        ("stream", "max-length-bytes", 5, 10, 10, "policy"),
        ("classic", "dead-letter-exchange", "a", "b", "a", "argument"),
    ],
)
def test_of_two_settings_the_one_counts_that_the_documentation_names(
    core: Path, kind: str, setting: str, argument: Any, policy: Any, value: Any, source: str
) -> None:
    given = {
        "type": kind,
        "arguments": {f"x-{setting}": argument},
        "effective_policy_definition": {setting: policy},
    }
    [[row]] = run(core, SETTINGS, [given])
    assert row == {
        "setting": setting, "argument": argument, "policyValue": policy, "value": value,
        "from": source,
    }  # fmt: skip


def test_an_argument_may_be_called_like_what_every_object_has(core: Path) -> None:
    given = {"type": "classic", "arguments": {"x-__proto__": 1, "x-toString": 2}}
    [rows] = run(core, SETTINGS, [given])
    assert [(row["setting"], row["value"], row["from"]) for row in rows] == [
        ("__proto__", 1, "argument"),
        ("toString", 2, "argument"),
    ]


def test_live_samples_follow_the_history_without_gaps_or_repeats(core: Path) -> None:
    script = """
    import { join } from "./core/series.js";
    answer(join(given.history, given.tail));
    """
    history = {
        "times_ms": [1000, 2000, 3000],
        "values": {"messages": [1, 2, 3], "publish": [10, 20, 30]},
        "rates": {"publish": [None, 10, 10]},
    }
    tail = [
        {"at_ms": 3100, "values": {"messages": 3, "publish": 10}},
        {"at_ms": 4000, "values": {"messages": 4, "publish": 11}},
        {"at_ms": 62_000, "values": {"messages": 5}},
    ]
    found = run(core, script, {"history": history, "tail": tail})
    assert found == {
        "times": [2, 3, 4, 62],
        "series": {"messages": [2, 3, 4, 5], "publish": [10, 10, 11, None]},
    }


def test_formats(core: Path) -> None:
    script = """
import * as format from "./core/format.js";
answer(given.map(([name, value]) => format[name](value)));
"""
    cases = [
        ("count", 1234567, "1,234,567"),
        ("count", None, "–"),
        ("rate", 0, "0/s"),
        ("rate", 0.01, "<0.1/s"),
        ("rate", 1234.5, "1,235/s"),
        ("bytes", 1536, "1.5 KiB"),
        ("bytes", 5, "5 B"),
        ("duration", 350, "350 ms"),
        ("duration", 125_000, "2 min 5 s"),
        ("duration", 90_000_000, "1 d 1 h"),
        ("duration", -1500, "-1.5 s"),
        ("age", 200, "just now"),
        ("percent", 0.256, "26 %"),
        ("moment", None, "–"),
    ]
    found = run(core, script, [[name, value] for name, value, _ in cases])
    assert found == [wanted for _, _, wanted in cases]


def test_lines_do_what_the_form_does(core: Path) -> None:
    script = """
    import * as commands from "./core/commands.js";
    answer(given.map(([name, ...values]) => commands[name](...values)));
    """
    queue_body = {
        "durable": False,
        "auto_delete": True,
        "arguments": {"x-queue-type": "quorum", "x-max-length": 5, "x-own": "7"},
    }
    binding = {"routing_key": "a.#", "arguments": {"x-filter-sql": "a = 'b'", "n": 1}}
    message = {
        "routing_key": "k",
        "payload": "it's",
        "payload_encoding": "string",
        "properties": {"delivery_mode": 2, "headers": {"a b": "$(ls)"}, "priority": 3},
    }
    found = run(
        core,
        script,
        [
            ["addQueue", "/", "my queue", queue_body],
            ["addBinding", "v", "x", "e", "y", binding],
            ["publish", "/", "amq.default", message],
            ["publish", "/", "x", {**message, "payload_encoding": "base64"}],
        ],
    )
    assert found == [
        (
            "leporid queues add 'my queue' --type quorum --transient --auto-delete "
            "--argument x-max-length=5 --argument 'x-own=\"7\"' --vhost /"
        ),
        (
            "leporid bindings add x y --to-exchange --key 'a.#' --filter 'a = '\\''b'\\''' "
            "--argument n=1 --vhost v"
        ),
        (
            "leporid publish '' k --message 'it'\\''s' --header 'a b=$(ls)' --property priority=3 "
            "--vhost /"
        ),
        None,
    ]
