"""What the web UI computes before it draws: places of the topology, folding, scales of time."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from leporid.webui import FOLDER

NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")

WIDTH, HEIGHT = 188, 36


def run(module: str, script: str, given: Any = None) -> Any:
    """Run a script that has a module as `m` and what is given as `given`; returns its result."""
    assert NODE is not None
    place = (FOLDER / module).as_uri()
    model = (FOLDER / "parts/topology_model.js").as_uri()
    text = (
        f"import * as module from {json.dumps(place)};\n"
        f"import * as model from {json.dumps(model)};\n"
        "const m = { ...module, model };\n"
        f"const given = {json.dumps(given)};\n"
        f"const answer = (() => {{ {script} }})();\n"
        "process.stdout.write(JSON.stringify(answer));\n"
    )
    command = [NODE, "--no-warnings", "--input-type=module", "-"]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def layout(ids: list[str], edges: list[tuple[str, str]]) -> dict[str, dict[str, float]]:
    given = {"ids": ids, "edges": [{"from": start, "to": end} for start, end in edges]}
    script = "return Object.fromEntries(m.layoutOf(given.ids, given.edges).places);"
    found: dict[str, dict[str, float]] = run("parts/topology_layout.js", script, given)
    return found


def check_apart(places: dict[str, dict[str, float]]) -> None:
    boxes = sorted((each["x"], each["y"], name) for name, each in places.items())
    for at, (x, y, name) in enumerate(boxes):
        for other_x, other_y, other in boxes[at + 1 :]:
            if other_x >= x + WIDTH:
                break
            assert abs(other_y - y) >= HEIGHT, f"{name} and {other} overlap"


def test_edges_lead_to_the_right_and_no_box_is_over_another() -> None:
    edges = [("flights", "late"), ("flights", "log"), ("flights", "billing"),
             ("billing", "invoices"), ("late", "dead"), ("dead", "morgue")]  # fmt: skip
    ids = sorted({end for edge in edges for end in edge} | {"alone", "apart"})
    places = layout(ids, edges)
    assert set(places) == set(ids)
    assert all(places[start]["x"] < places[end]["x"] for start, end in edges)
    check_apart(places)


def test_cycles_have_places_too() -> None:
    edges = [("work", "retry"), ("retry", "work"), ("work", "work"), ("in", "work")]
    places = layout(["in", "work", "retry"], edges)
    assert places["in"]["x"] < places["work"]["x"] < places["retry"]["x"]
    check_apart(places)


def test_five_hundred_nodes_are_apart() -> None:
    edges = [(f"e{at % 20}", f"q{at}") for at in range(460)]
    edges += [(f"q{at}", f"e{at % 7}") for at in range(0, 460, 11)]
    ids = [f"e{at}" for at in range(20)] + [f"q{at}" for at in range(460)] + ["x", "y"]
    places = layout(ids, edges)
    assert len(places) == 482
    check_apart(places)


def test_a_fan_is_drawn_as_one_block_with_one_edge() -> None:
    script = """
      const graph = m.model.graphOf(given);
      const found = m.arranged(graph);
      return { places: Object.fromEntries(found.places), edges: found.edges,
        blocks: found.blocks, known: graph.edges.length };
    """
    queues = [f"q{at}" for at in range(100)]
    found = run("parts/topology_cluster.js", script, answer(queues))
    (block,) = found["blocks"]
    (edge,) = found["edges"]
    assert (edge["to"], len(edge["of"]), found["known"]) == (block["id"], 100, 100)
    members = {name: each for name, each in found["places"].items() if name.startswith("q:")}
    assert len(members) == 100
    check_apart(members)
    frame = block["place"]
    for each in members.values():
        assert frame["x"] < each["x"]
        assert each["x"] + WIDTH < frame["x"] + frame["width"]
        assert frame["y"] < each["y"]
        assert each["y"] + HEIGHT < frame["y"] + frame["height"]
    assert found["places"]["e:devices"]["x"] + WIDTH < frame["x"]


def answer(queues: list[str], *, exchange: str = "devices", **more: Any) -> dict[str, Any]:
    """As /api/topology gives it: an exchange with queues bound to it."""
    facts = {"rate_in": 1.0, "rate_out": 0.0}
    return {
        "exchanges": [
            {"name": exchange, "type": "topic", "internal": False, "alternate_exchange": None}
            | facts
        ],
        "queues": [
            {"name": name, "type": "classic", "state": "running", "messages": 2, "consumers": 0,
             "dead_letter_exchange": None, "dead_letter_routing_key": None}
            | facts | more.get(name, {})
            for name in queues
        ],
        "bindings": [
            {"source": exchange, "destination": name, "destination_type": "queue",
             "routing_key": f"{name}.#", "arguments": {}}
            for name in queues
        ],
        "missing": more.get("missing", []),
        "left_out": {"nodes": 0, "bindings": 0},
    }  # fmt: skip


def graph(given: dict[str, Any], opened: list[str] | None = None) -> dict[str, Any]:
    script = (
        "const open = new Set(given.opened);"
        "const graph = m.folded(m.graphOf(given.answer), open);"
        "return { nodes: [...graph.nodes.values()], edges: graph.edges };"
    )
    found: dict[str, Any] = run(
        "parts/topology_model.js", script, {"answer": given, "opened": opened or []}
    )
    return found


def test_queues_of_like_names_are_folded_and_unfolded() -> None:
    names = [f"{kind}.{at}" for kind in ("gateway", "sensor") for at in range(100)]
    found = graph(answer([*names, "orders"]))
    groups = {each["title"]: each for each in found["nodes"] if each["kind"] == "group"}
    assert set(groups) == {"gateway.*", "sensor.*"}
    assert (groups["sensor.*"]["count"], groups["sensor.*"]["messages"]) == (100, 200)
    assert len(found["nodes"]) == 4
    (edge,) = [each for each in found["edges"] if each["to"] == groups["sensor.*"]["id"]]
    assert (len(edge["bindings"]), edge["rate"]) == (100, 100.0)
    opened = graph(answer([*names, "orders"]), [groups["sensor.*"]["id"]])
    titles = {each["title"] for each in opened["nodes"]}
    assert titles == {"devices", "gateway.*", "orders", *names[100:]}


def test_a_small_graph_is_not_folded() -> None:
    assert len(graph(answer([f"q.{at}" for at in range(20)]))["nodes"]) == 21


def test_dead_letters_lead_to_exchanges_and_queues_that_are_shown() -> None:
    dead = {"dead_letter_exchange": "gone", "dead_letter_routing_key": "k"}
    direct = {"dead_letter_exchange": "", "dead_letter_routing_key": "retry"}
    beyond = {"dead_letter_exchange": "far away", "dead_letter_routing_key": None}
    more: dict[str, Any] = {"work": direct, "late": dead, "other": beyond, "missing": ["gone"]}
    found = graph(answer(["work", "retry", "late", "other"], **more))
    edges = {(each["from"], each["to"]) for each in found["edges"] if each["kind"] == "dead"}
    assert edges == {("q:work", "q:retry"), ("q:late", "e:gone")}
    (missing,) = [each for each in found["nodes"] if each.get("missing")]
    assert missing["title"] == "gone"


def test_bins_of_time_ascend_and_zooming_stays_on_the_scale() -> None:
    script = """
      const range = m.zoomed(m.WHOLE, 0.001, 5);
      return { edges: m.edgesOf(m.WHOLE, 72), few: m.edgesOf([2, 2.05], 72), range,
        out: m.zoomed(range, 1e9), moved: m.moved(range, -1e9), whole: m.WHOLE };
    """
    found = run("parts/delay_scale.js", script)
    for edges in (found["edges"], found["few"]):
        assert edges == sorted(set(edges))
    assert found["edges"][0] == 100
    assert found["edges"][-1] > 10 * 365 * 86400_000
    assert found["out"] == found["whole"]
    assert found["moved"][0] == found["whole"][0]
    low, high = found["range"]
    assert low < 5.1
    assert high - low == pytest.approx(0.05, abs=0.02)
