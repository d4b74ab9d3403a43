"""`leporid policies`, `operator-policies` and `parameters` against a broker."""

import pytest

from leporid.cli.nouns.policies import definition_of
from leporid.cli.outcomes import WrongUse


@pytest.mark.parametrize("noun", ["policies", "operator-policies"])
def test_policies(leporid, name, noun):
    policy, queue = name("p"), name()
    leporid("queues", "add", queue)
    leporid(noun, "set", policy, f"^{queue}$", "max-length=3", "--apply-to", "queues")
    (row,) = leporid.rows(noun, "list", "-p", "/")
    assert (row["name"], row["definition"]) == (policy, "max-length=3")
    shown = leporid.json("queues", "show", queue)
    assert shown["effective_policy_definition"] == {"max-length": 3}
    changed = leporid(noun, "set", policy, "^none$", '{"max-length": 4}', "--priority", "2")
    assert changed.endswith("changed\n")
    assert leporid.json(noun, "show", policy)["priority"] == 2
    leporid(noun, "delete", policy, code=2)
    leporid(noun, "delete", policy, "--yes")
    leporid(noun, "show", policy, code=3)


def test_a_dry_run_says_what_a_policy_would_govern(leporid, name):
    policy, queue = name("p"), name()
    leporid("queues", "add", queue)
    given = "policies", "set", policy, f"^{queue}$", "max-length=3", "--apply-to", "queues"
    said = leporid(*given, "--dry-run")
    assert f"queue '{queue}': governed from then on" in said
    assert leporid.json(*given, "--dry-run")["queues"]["added"] == 1
    leporid("policies", "show", policy, code=3)
    leporid(*given)
    assert f"queue '{queue}': still governed" in leporid(*given, "--dry-run")
    assert f"queue '{queue}': let go" in leporid("policies", "delete", policy, "--dry-run")
    leporid("policies", "show", policy)


def test_what_is_no_policy(leporid, name):
    leporid("policies", "set", name("p"), "^a", "max-lenght=3", code=1)
    assert "max-lenght" in leporid.error
    leporid("policies", "set", name("p"), "^a", "max-length", code=2)


@pytest.mark.parametrize("given", [["{}"], ['{"a":'], []])
def test_what_is_no_definition(given):
    with pytest.raises(WrongUse):
        definition_of(given)


def test_parameters(leporid, name):
    assert leporid("parameters", "list", "--global").startswith("name\tvalue")
    assert leporid("parameters", "list").startswith("vhost\tcomponent")
    leporid("parameters", "set", "c", "n", "no json", code=2)
    leporid("parameters", "set", "c", "n", "1", "--global", code=2)
    parameter = name("g")
    if leporid.run("parameters", "set", "-", parameter, '{"a": 1}', "--global") == 1:
        assert "it is older, or RabbitMQ" in leporid.error
        return
    assert {"name": parameter, "value": "a=1"} in leporid.rows("parameters", "list", "--global")
    leporid("parameters", "delete", "-", parameter, "--global", "--yes")
    for more in ("--dry-run", "--yes"):
        leporid("parameters", "delete", "-", parameter, "--global", more, code=3)
        assert leporid.error == f"leporid: there is no global parameter '{parameter}'\n"
        leporid("parameters", "delete", "shovel", parameter, more, code=3)
        said = f"there is no parameter '{parameter}' of component 'shovel' in '/'"
        assert leporid.error == f"leporid: {said}\n"
    assert parameter not in leporid("parameters", "list", "--global")
