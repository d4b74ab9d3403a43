"""What dashboards and alert rules name, there is: RabbitMQ's dashboard, ours, and our alert rules.

Names and labels of RabbitMQ's are facts, kept in `rabbitmq_overview.toml`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.server.test_metrics import metrics, page_of

from leporid.server.object_metrics import PER_OBJECT, names_of

PACKAGING = Path(__file__).parents[2] / "packaging"
OVERVIEW = tomllib.loads(Path(__file__).with_name("rabbitmq_overview.toml").read_text())
DASHBOARD = json.loads((PACKAGING / "grafana" / "leporid.json").read_text())
ALERTS = (PACKAGING / "prometheus" / "alerts.yml").read_text()

NAME = re.compile(r"\b(?:rabbitmq|leporid)_[a-z_0-9]+")
TEXT = re.compile(r'"[^"]*"')
# What stands in parentheses behind these, or in front of = in braces, are labels.
LABELS = re.compile(r"\b(?:by|on|group_left)\s*\(([^)]*)\)|\{([^{}]*)\}")
OF_SCRAPE = {"instance", "job", "namespace"}


@pytest.fixture(scope="module")
def samples() -> dict[str, list[dict[str, str]]]:
    """The labels of each sample of a page, by name."""
    found: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(page_of(metrics()).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


def strings(of: Any, keys: tuple[str, ...]) -> Iterator[str]:
    """The texts under some keys, wherever they are."""
    if isinstance(of, dict):
        for key, value in of.items():
            if key in keys and isinstance(value, str):
                yield value
            else:
                yield from strings(value, keys)
    elif isinstance(of, list):
        for value in of:
            yield from strings(value, keys)


def parsed(expression: str) -> tuple[set[str], set[str]]:
    """Which metrics an expression names, and which labels."""
    labels: set[str] = set()
    for listed, selected in LABELS.findall(expression):
        labels |= {each.strip() for each in listed.split(",")} - {""}
        labels |= set(re.findall(r"(\w+)\s*[!=]~?", TEXT.sub("", selected)))
    if asked := re.fullmatch(r"label_values\((.*), *(\w+)\)", expression):
        expression = asked[1]
        labels.add(asked[2])
    names = set(NAME.findall(LABELS.sub("", expression)))
    return names, labels


@pytest.mark.parametrize("name", OVERVIEW["metrics"])
def test_what_rabbitmqs_dashboard_shows_is_there(name: str, samples: dict[str, Any]):
    assert name in samples


@pytest.mark.parametrize("name", OVERVIEW["labels"])
def test_labels_that_it_joins_by_are_there(name: str, samples: dict[str, Any]):
    for labels in samples[name]:
        assert set(OVERVIEW["labels"][name]) <= {key for key, value in labels.items() if value}


def test_values_that_it_selects_are_there(samples: dict[str, Any]):
    for name, values in OVERVIEW["values"].items():
        (label,) = OVERVIEW["labels"][name]
        assert sorted(values) == sorted(labels[label] for labels in samples[name])


def test_each_node_is_one_series():
    """Dashboards multiply each metric by it: twice the same would be an error."""
    page = page_of(metrics()).decode()
    assert page.count("\nrabbitmq_identity_info{") == page.count("\nrabbitmq_build_info{") == 1


EXPRESSIONS = [
    *strings(DASHBOARD, ("expr", "query", "definition")),
    *re.findall(r"^ +expr: (.*)$", ALERTS, re.MULTILINE),
]


@pytest.mark.parametrize("expression", [each for each in EXPRESSIONS if NAME.search(each)])
def test_what_ours_name_is_there(expression: str, samples: dict[str, Any]):
    names, labels = parsed(expression)
    assert names
    assert names <= set(samples) | names_of(PER_OBJECT, "rabbitmq")
    found = [each for name in names for each in samples.get(name, [])]
    known = OF_SCRAPE | {label for each in found for label in each}
    known |= {label for each in samples["rabbitmq_identity_info"] for label in each}
    assert labels <= known


def test_expressions_are_parsed():
    names, labels = parsed(
        'sum by (le, x) (rate(rabbitmq_a_bucket{y="a, b", z!~"c"}[5m]) * on(q) group_left(r) '
        "leporid_b)"
    )
    assert names == {"rabbitmq_a_bucket", "leporid_b"}
    assert labels == {"le", "x", "y", "z", "q", "r"}
    assert parsed("label_values(rabbitmq_a, rabbitmq_b)") == ({"rabbitmq_a"}, {"rabbitmq_b"})


def test_alert_rules_are_whole():
    rules = ALERTS.split("- alert: ")[1:]
    names = [rule.split("\n", 1)[0] for rule in rules]
    assert len(set(names)) == len(names) >= 10
    for rule in rules:
        for key in ("expr", "labels", "summary", "description"):
            assert re.search(rf"^ +{key}: \S", rule, re.MULTILINE), (key, rule)


def test_panels_have_numbers_of_their_own_and_a_place():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [tuple(panel["gridPos"].values()) for panel in panels]
    assert len(set(places)) == len(places)
