"""`rabbitmq-plugins`: what it says, and that it never says that what is not here is enabled."""

import pytest
from tests.cli.conftest import CommandLine

from leporid.server.rabbitmq_files import PLUGINS_HERE

TOOL = "rabbitmq-plugins"


def test_what_is_here_needs_no_enabling(cli: CommandLine):
    said = cli(TOOL, "enable", "--offline", "rabbitmq_management", "rabbitmq_prometheus")
    assert said.splitlines()[0].startswith("rabbitmq_management: always here: nothing to enable (")
    assert len(said.splitlines()) == 2
    assert cli(TOOL, "-s", "enable", "rabbitmq_management") == ""
    assert "rabbitmq_management: enabled" in cli(TOOL, "is_enabled", "rabbitmq_management", "-q")


@pytest.mark.parametrize("word", ["enable", "set", "is_enabled"])
def test_what_is_not_here_is_said(cli: CommandLine, word: str):
    cli(TOOL, word, "rabbitmq_management", "rabbitmq_shovel", code=1)
    assert cli.error == "rabbitmq-plugins: rabbitmq_shovel: there is no such plugin here\n"
    assert "rabbitmq_management" in cli.out
    assert "rabbitmq_shovel" not in cli.out


def test_only_what_is_not_here_can_be_disabled(cli: CommandLine):
    cli(TOOL, "disable", "rabbitmq_shovel")
    cli(TOOL, "disable", "rabbitmq_management", code=1)
    assert "is always here, and cannot be disabled" in cli.error


def test_the_list(cli: CommandLine):
    lines = cli(TOOL, "list").splitlines()
    assert [line.split()[:2] for line in lines] == [["[E*]", name] for name in PLUGINS_HERE]
    assert cli(TOOL, "list", "-m", "-e").split() == list(PLUGINS_HERE)
    names = cli(TOOL, "-n", "rabbit@host", "list", "-q", "management").split()
    assert names == ["rabbitmq_management", "rabbitmq_management_agent"]


def test_wrong_use(cli: CommandLine):
    cli(TOOL, "directories", code=2)
    cli(TOOL, code=2)
    cli("rabbitmq-plugin", "list", code=2)
    assert 'did you mean "rabbitmq-plugins"?' in cli.error
