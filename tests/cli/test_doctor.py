"""`leporid doctor` against a broker; what each check finds is in test_checkup.py."""

import pytest


@pytest.fixture
def vhost(leporid, name):
    made = name("v")
    leporid("vhosts", "add", made)
    yield made
    leporid("vhosts", "delete", made, "--yes")


def test_what_is_wrong_is_found_with_the_next_command(leporid, vhost):
    leporid("queues", "add", "orders", "-p", vhost, "-a", "x-dead-letter-exchange=dead")
    leporid("queues", "add", "typo", "-p", vhost, "-a", "x-max-lenght=1")
    leporid("policies", "set", "idle", "^nothing$", "max-length=1", "-p", vhost)
    found = leporid.json("doctor", code=1)
    assert found["not_looked_at"] == []
    by_object = {one["object"]: one for one in found["findings"]}
    dead = by_object[f"queue 'orders' in '{vhost}'"]
    assert dead["severity"] == "error"
    assert by_object[f"policy 'idle' in '{vhost}'"]["check"] == "policies"
    assert "x-max-length" in by_object[f"queue 'typo' in '{vhost}'"]["next"]
    assert "user 'guest'" in by_object
    # What it says to do helps.
    words = dead["next"].replace("'", "").split()
    assert words[0] == "leporid"
    leporid(*words[1:])
    left = leporid.json("doctor", "--fail-on", "error")["findings"]
    assert dead not in left


def test_severities_decide_how_it_ends(leporid):
    said = leporid("doctor", "--fail-on", "note", code=1)
    assert "note: user 'guest': logs in with the password that everybody knows" in said
    assert "    next: leporid users set guest" in said
    assert "note guest user 'guest'\n" in leporid("doctor", "-q")


def test_what_a_user_may_not_see_is_not_looked_at(leporid, name, monkeypatch):
    user = name("u")
    leporid("users", "add", user, "--new-password", "x", "--tags", "monitoring")
    leporid("permissions", "set", user, "", "", "")
    monkeypatch.setenv("SECRET", "x")
    found = leporid.json("doctor", "--user", user, "--password-env", "SECRET")
    assert any(each.startswith("filter classes: ") for each in found["not_looked_at"])
    leporid("users", "delete", user, "--yes")
