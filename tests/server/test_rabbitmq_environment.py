"""RabbitMQ's variables: the default user and virtual host, and those that mean nothing."""

from pathlib import Path

import pika
import pika.exceptions
import pytest
from tests.server.seeding import seeded_users

from leporid.server.config import Config, ConfigError, UserSettings, load
from leporid.server.rabbitmq_environment import ignored
from leporid.testing import BrokerProcess


def loaded(environment: dict[str, str], text: str = "", directory: Path | None = None) -> Config:
    if directory is None:
        return load(None, {}, environment)
    (directory / "leporid.toml").write_text(text)
    return load(directory, {}, environment)


def users_of(config: Config) -> dict[str, UserSettings]:
    assert config.users is not None
    return dict(config.users)


def test_the_default_user_takes_the_place_of_guest():
    config = loaded(
        {
            "RABBITMQ_DEFAULT_USER": "app",
            "RABBITMQ_DEFAULT_PASS": "secret",
            "RABBITMQ_DEFAULT_VHOST": "shop",
        }
    )
    assert config.vhosts == ("/", "shop")
    (user,) = seeded_users(config).values()
    assert user.name == "app"
    assert user.password.matches(b"secret")
    assert user.tags == ("administrator",)
    assert not user.loopback_only
    assert all(user.may(right, "queue", "q", "shop") for right in ("configure", "write", "read"))
    assert user.permissions.keys() == {"shop"}


def test_a_password_alone_is_that_of_guest():
    (user,) = seeded_users(loaded({"RABBITMQ_DEFAULT_PASS": "secret"})).values()
    assert user.name == "guest"
    assert user.password.matches(b"secret")
    assert not user.loopback_only
    assert user.permissions.keys() == {"/"}


def test_a_user_without_a_password_of_its_own_is_for_this_machine_only():
    (user,) = seeded_users(loaded({"RABBITMQ_DEFAULT_USER": "app"})).values()
    assert user.password.matches(b"guest")
    assert user.loopback_only


def test_a_virtual_host_alone_is_that_of_guest(tmp_path: Path):
    environment = {"RABBITMQ_DEFAULT_VHOST": "shop"}
    (user,) = seeded_users(loaded(environment)).values()
    assert (user.name, user.loopback_only) == ("guest", True)
    assert user.permissions.keys() == {"shop"}
    # Where there are users, it is no more than a virtual host.
    config = loaded(environment, '[users.ann]\npassword = "x"', tmp_path)
    assert list(users_of(config)) == ["ann"]
    assert config.vhosts == ("/", "shop")


def test_it_wins_over_the_file_and_leaves_others(tmp_path: Path):
    text = """vhosts = ["orders"]
[users.ann]
password = "x"
[users.app]
password_hash = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
"""
    environment = {"RABBITMQ_DEFAULT_USER": "app", "RABBITMQ_DEFAULT_PASS": "new"}
    config = loaded(environment | {"RABBITMQ_DEFAULT_VHOST": "shop"}, text, tmp_path)
    users = users_of(config)
    assert list(users) == ["ann", "app"]
    assert (users["app"].password, users["app"].password_hash) == ("new", None)
    assert config.vhosts == ("/", "orders", "shop")


def test_variables_of_ours_win(tmp_path: Path):
    config = loaded(
        {
            "RABBITMQ_DEFAULT_USER": "app",
            "RABBITMQ_DEFAULT_PASS": "one",
            "LEPORID_USERS__app__PASSWORD": "two",
        }
    )
    assert users_of(config)["app"].password == "two"


def test_files_of_secrets(tmp_path: Path):
    (tmp_path / "user").write_text("app\n")
    (tmp_path / "pass").write_text("secret\n")
    environment = {
        "RABBITMQ_DEFAULT_USER_FILE": str(tmp_path / "user"),
        "RABBITMQ_DEFAULT_PASS_FILE": str(tmp_path / "pass"),
    }
    assert users_of(loaded(environment))["app"].password == "secret"
    with pytest.raises(ConfigError, match="RABBITMQ_DEFAULT_PASS_FILE say the same setting"):
        loaded(environment | {"RABBITMQ_DEFAULT_PASS": "x"})
    (tmp_path / "pass").unlink()
    with pytest.raises(ConfigError, match=r"RABBITMQ_DEFAULT_PASS_FILE: .*No such file"):
        loaded(environment)


def test_an_empty_variable_is_none():
    environment = dict.fromkeys(("RABBITMQ_DEFAULT_USER", "RABBITMQ_DEFAULT_PASS_FILE"), "")
    assert loaded(environment).users is None


def test_what_means_nothing_is_named():
    environment = {"RABBITMQ_NODENAME": "x", "RABBITMQ_DEFAULT_PASS": "x", "PATH": "x"}
    assert ignored(environment) == ["RABBITMQ_NODENAME"]


@pytest.mark.slow
def test_a_broker_with_variables_of_rabbitmq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "password").write_text("secret\n")
    monkeypatch.setenv("RABBITMQ_DEFAULT_USER", "app")
    monkeypatch.setenv("RABBITMQ_DEFAULT_PASS_FILE", str(tmp_path / "password"))
    monkeypatch.setenv("RABBITMQ_DEFAULT_VHOST", "shop")
    monkeypatch.setenv("RABBITMQ_ERLANG_COOKIE", "tasty")
    with BrokerProcess(tmp_path / "data") as broker:

        def connect(user: str, password: str, vhost: str) -> pika.BlockingConnection:
            credentials = pika.PlainCredentials(user, password)
            return pika.BlockingConnection(
                pika.ConnectionParameters("127.0.0.1", broker.amqp_port, vhost, credentials)
            )

        with connect("app", "secret", "shop") as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("q")
            channel.basic_publish("", "q", b"x")
            assert channel.basic_get("q", auto_ack=True)[2] == b"x"
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError):
            connect("app", "secret", "/")
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            connect("guest", "guest", "shop")
        log = broker.log_path.read_text()
        assert "RABBITMQ_ERLANG_COOKIE means nothing here" in log
        assert "tasty" not in log
        assert "secret" not in log
