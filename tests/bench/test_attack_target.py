import base64
import hashlib
import tomllib
from pathlib import Path

import pytest
from bench.attacks.target import (
    LEPORID,
    USERS,
    Target,
    address_of,
    leporid_configuration,
    rabbitmq_definitions,
    running,
)

from leporid.server.config import load as load_configuration


def test_leporid_is_given_a_configuration_that_it_takes(tmp_path: Path):
    path = tmp_path / "leporid.toml"
    path.write_text(leporid_configuration(123_456_789, USERS.values()))
    settings = load_configuration(path)
    assert settings.memory_watermark == 123_456_789
    assert set(tomllib.loads(path.read_text())["users"]) == set(USERS)


def test_rabbitmq_is_given_the_same_users():
    definitions = rabbitmq_definitions()
    users = definitions["users"]
    assert isinstance(users, list)
    assert [user["name"] for user in users] == list(USERS)
    raw = base64.b64decode(users[0]["password_hash"])
    assert raw[4:] == hashlib.sha256(raw[:4] + users[0]["name"].encode()).digest()
    permissions = definitions["permissions"]
    assert isinstance(permissions, list)
    reader = next(one for one in permissions if one["user"] == "reader")
    assert (reader["configure"], reader["write"], reader["read"]) == ("", "", ".*")


def test_a_broker_that_runs_already_has_only_guest():
    found = running(LEPORID, "127.0.0.1:5672", None, 7)
    assert found.url("reader") == "amqp://guest:guest@127.0.0.1:5672/%2F"
    assert not found.ours
    ours = Target(kind=LEPORID, amqp=("127.0.0.1", 5672), http=None, pid=7, ours=True)
    assert ours.url("reader") == "amqp://reader:reader@127.0.0.1:5672/%2F"


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", ":5672", "a:1/b", "a:b"])
def test_what_is_no_address_is_refused(text: str):
    with pytest.raises(ValueError, match=r"not HOST:PORT|Port could not be cast"):
        address_of(text)


def test_addresses_may_be_of_both_kinds():
    assert address_of("localhost:5672") == ("localhost", 5672)
    assert address_of("[::1]:5672") == ("::1", 5672)
