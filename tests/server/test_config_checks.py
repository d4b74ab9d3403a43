"""What several settings say together: ports that are the same, and what is hardly meant."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leporid.broker.access.tags import TAGS
from leporid.server.config import Config, UserSettings
from leporid.server.config_checks import ENCRYPTED, PLAIN, check_ports, doubts, doubts_of_tags
from leporid.server.settings import ConfigError
from leporid.server.tls import Tls

CONFIG = Config(data_dir=Path("/x"))
ENCRYPTING = replace(CONFIG, tls=Tls(certificate=Path("/c"), key=Path("/k")))


def test_the_defaults_differ():
    check_ports(CONFIG)
    check_ports(ENCRYPTING)


@pytest.mark.parametrize("key", [*PLAIN[1:], *ENCRYPTED])
def test_two_that_are_the_same_are_named(key):
    same: dict[str, Any] = {"amqp_port": 7000, key: 7000}
    with pytest.raises(ConfigError, match=f"{key} = 7000: amqp_port is the same port"):
        check_ports(replace(ENCRYPTING, **same))
    if key in ENCRYPTED:
        check_ports(replace(CONFIG, **same))


def test_free_ports_and_none_may_be_the_same():
    check_ports(replace(CONFIG, amqp_port=0, http_port=0, metrics_port=0))
    check_ports(replace(CONFIG, http_port=-1, metrics_port=-1))


@pytest.mark.parametrize("tag", [*TAGS, "team-a", "x"])
def test_known_tags_and_those_of_ones_own_are_not_doubted(tag):
    assert not list(doubts_of_tags([tag]))


@pytest.mark.parametrize(
    ("tag", "meant"), [("admin", "administrator"), ("monitor", "monitoring"), ("Management", "ma")]
)
def test_misspelt_tags_are_told_with_what_may_be_meant(tag, meant):
    (said,) = doubts_of_tags([tag])
    assert said.startswith(f"the tag '{tag}' gives no right; did you mean \"{meant}")


def test_a_user_of_the_configuration_is_named():
    assert not list(doubts(Config(data_dir=Path("/x"))))
    users = {"ann b": UserSettings(password="x", tags=("admin",))}
    (said,) = doubts(Config(data_dir=Path("/x"), users=users))
    assert said.startswith('users."ann b".tags: the tag')
