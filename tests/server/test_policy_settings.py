"""Policies in the configuration file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leporid.broker.policy.policies import Policy
from leporid.server.config import ConfigError, load
from leporid.server.policy_settings import ConfiguredPolicy, by_vhost

WHOLE = """
vhosts = ["shop"]

[[policies]]
name = "orders"
vhost = "shop"
pattern = "^orders"
apply_to = "queues"
priority = 7
definition = { message-ttl = 60000, dead-letter-exchange = "late" }

[[policies]]
name = "orders"
pattern = ""
[policies.definition]
ha-mode = "nodes"
ha-params = ["a", "b"]

[[operator_policies]]
name = "orders"
vhost = "shop"
pattern = ""
definition.max-length = 1000
"""

ONE = """
[[policies]]
name = "p"
pattern = "^q"
definition = {{ message-ttl = 5 }}
{}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "leporid.toml"


def test_what_is_written_is_what_there_is(file: Path):
    file.write_text(WHOLE)
    config = load(file)
    orders = Policy(
        "orders",
        "^orders",
        {"dead-letter-exchange": "late", "message-ttl": 60000},
        priority=7,
        apply_to="queues",
    )
    mirrored = Policy("orders", "", {"ha-mode": "nodes", "ha-params": ["a", "b"]})
    bounded = Policy("orders", "", {"max-length": 1000}, operator=True)
    assert config.policies == (ConfiguredPolicy("shop", orders), ConfiguredPolicy("/", mirrored))
    assert config.operator_policies == (ConfiguredPolicy("shop", bounded),)
    together = by_vhost((*config.policies, *config.operator_policies))
    assert together == {"shop": [orders, bounded], "/": [mirrored]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("policies = 5", "policies = 5: must be a list, in square brackets"),
        ("policies = [5]", "policies[0] = 5: must be a table of settings"),
        ('[[policies]]\nname = "p"', "policies[0].pattern: missing; it has no default"),
        (ONE.format("patern = 5"), 'policies[0].patern: unknown setting; did you mean "pattern"?'),
        (ONE.format("priority = 1.5"), "policies[0].priority = 1.5: must be a whole number from "),
        (ONE.format('apply_to = "queue"'), 'policies[0].apply_to = "queue": must be one of "queue'),
        (ONE.format('vhost = "nope"'), 'policies[0].vhost = "nope": no such virtual host; vhosts '),
        (ONE.replace("^q", "a(").format(""), "policies[0]: pattern should be regular expression "),
        (ONE.replace('"^q"', "5").format(""), "policies[0].pattern = 5: must be a pattern, in quo"),
        (
            ONE.replace(" message-ttl = 5 ", "").format(""),
            "policies[0].definition = {}: must be a ",
        ),
        (
            ONE.replace("message-ttl", "mesage-ttl").format(""),
            'policies[0].definition.mesage-ttl: unknown setting; did you mean "message-ttl"?',
        ),
        (ONE.replace("= 5", "= -5").format(""), "policies[0]: -5 is not a valid message TTL"),
        (
            ONE.format("") + ONE.format(""),
            "policies[1]: there is a policy 'p' in vhost '/' already",
        ),
        (
            ONE.replace("policies", "operator_policies")
            .replace("message-ttl", "max-age")
            .format(""),
            'operator_policies[0]: [{<<"max-age">>,5}] are not recognised policy settings',
        ),
    ],
)
def test_what_is_refused(file: Path, text: str, message: str):
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert re.match(rf"{re.escape(str(file))}:\d+: {re.escape(message)}", str(caught.value))
