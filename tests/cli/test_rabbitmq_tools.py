"""RabbitMQ's tools under their own names: which broker they ask, and as whom."""

from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

from leporid.cli.rabbitmq_tools import login_here, main


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "etc").mkdir()
    return {
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "LEPORID_CONFIG": str(tmp_path / "etc"),
    }


def written(home: dict[str, str], text: str) -> dict[str, str]:
    (Path(home["LEPORID_CONFIG"]) / "leporid.toml").write_text(text)
    return home


def test_without_anything_it_is_guest_on_this_machine(home: dict[str, str]):
    assert login_here(home) == {
        "LEPORID_URL": "http://127.0.0.1:15672",
        "LEPORID_USER": "guest",
        "LEPORID_PASSWORD": "guest",
    }


def test_the_ports_are_those_of_the_configuration(home: dict[str, str]):
    found = login_here(written(home, 'http_port = 8080\nbind = "::"\n'))
    assert found["LEPORID_URL"] == "http://[::1]:8080"
    found = login_here(
        written(home, 'http_port = -1\n[tls]\ncertificate = "/c.pem"\nkey = "/k.pem"\n')
    )
    assert found["LEPORID_URL"] == "https://127.0.0.1:15671"


def test_the_user_is_the_one_of_the_variables_or_an_administrator(home: dict[str, str]):
    text = """
[users.ann]
password = "of ann"
[users.ben]
password_hash = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
tags = ["administrator"]
[users.cleo]
password = "of cleo"
tags = ["administrator"]
"""
    found = login_here(written(home, text))
    assert (found["LEPORID_USER"], found["LEPORID_PASSWORD"]) == ("cleo", "of cleo")
    variables = {"RABBITMQ_DEFAULT_USER": "app", "RABBITMQ_DEFAULT_PASS": "of app"}
    found = login_here(home | variables)
    assert (found["LEPORID_USER"], found["LEPORID_PASSWORD"]) == ("app", "of app")
    found = login_here(written(home, '[users.ann]\npassword = "of ann"\n'))
    assert (found["LEPORID_USER"], found["LEPORID_PASSWORD"]) == ("ann", "of ann")


def test_what_somebody_has_said_counts(home: dict[str, str]):
    assert login_here(home | {"LEPORID_URL": "http://elsewhere"}) == {}
    assert login_here(home | {"LEPORID_CONTEXT": "prod"}) == {}
    found = login_here(home | {"LEPORID_USER": "ann", "LEPORID_PASSWORD": "x"})
    assert found == {"LEPORID_URL": "http://127.0.0.1:15672"}


def test_a_configuration_that_cannot_be_used_is_said(
    cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    home: dict[str, str],
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("LEPORID_CONFIG", home["LEPORID_CONFIG"])
    written(home, "heartbeet = 1\n")
    assert main(["/usr/local/bin/rabbitmqctl", "list_users"]) == 2
    assert "leporid.toml:1: heartbeet: unknown setting" in capsys.readouterr().err
    assert main(["rabbitmq-plugins", "list"]) == 0
