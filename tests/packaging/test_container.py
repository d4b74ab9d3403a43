"""What runs in a container before the broker does, and what its files say of the broker."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from leporid.server.config import Config, load
from leporid.server.sources import PREFIX, from_environment, is_other

PACKAGING = Path(__file__).parents[2] / "packaging"
DOCKER = PACKAGING / "docker"
FILES = (DOCKER / "Dockerfile", DOCKER / "compose.yaml", PACKAGING / "kubernetes" / "leporid.yaml")
# `NAME=value` of a Dockerfile, `NAME: value` and `name: NAME`, `value: value` of YAML.
VARIABLE = re.compile(r"\b((?:LEPORID|RABBITMQ)_[A-Z_]+)(?:=|: +|\n +value: )(\S+)", re.MULTILINE)

TOOLS = {"rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-plugins", "rabbitmqadmin"}
TOOLS |= {"rabbitmq-server"}


def run(
    script: str, *words: str, path: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script of the image, with a `leporid` that says how it was called."""
    (path / "leporid").write_text('#!/bin/sh\necho leporid "$@"\n')
    (path / "leporid").chmod(0o755)
    return subprocess.run(
        [DOCKER / script, *words],
        env={"PATH": f"{path}:{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ((), "leporid serve"),
        (("leporid", "serve"), "leporid serve"),
        (("leporid", "config", "show"), "leporid config show"),
        (("--heartbeat", "a b"), "leporid serve --heartbeat a b"),
        (("rabbitmq-server",), "leporid serve"),
        (("echo", "other"), "other"),
    ],
)
def test_what_a_container_runs(words: tuple[str, ...], command: str, tmp_path: Path):
    done = run("docker-entrypoint.sh", *words, path=tmp_path)
    assert (done.returncode, done.stdout) == (0, command + "\n")


@pytest.mark.parametrize(
    ("mounted", "data_dir", "used"),
    [
        ("/var/lib/rabbitmq", "/var/lib/leporid", "/var/lib/rabbitmq/leporid"),
        ("/var/lib/leporid", "/var/lib/leporid", "/var/lib/leporid"),
        ("/var/lib/rabbitmq", "/elsewhere", "/elsewhere"),
    ],
)
def test_a_volume_at_the_place_of_rabbitmq_has_the_data(
    mounted: str, data_dir: str, used: str, tmp_path: Path
):
    mountpoint = tmp_path / "mountpoint"
    mountpoint.write_text(f'#!/bin/sh\n[ "$1 $2" = "-q {mounted}" ]\n')
    mountpoint.chmod(0o755)
    show = ("sh", "-c", "echo $LEPORID_DATA_DIR")
    done = run("docker-entrypoint.sh", *show, path=tmp_path, LEPORID_DATA_DIR=data_dir)
    assert (done.returncode, done.stdout, done.stderr) == (0, used + "\n", "")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_variables_in_the_files_are_settings(file: Path, tmp_path: Path):
    found = {
        name: value
        for name, value in VARIABLE.findall(file.read_text())
        if not name.startswith("LEPORID_APP")
    }
    assert found
    assert from_environment(Config, found).tables.keys() == {
        name.removeprefix(PREFIX).lower()
        for name in found
        if name.startswith(PREFIX) and not is_other(name)
    }
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    here = {name: str(secret) if name.endswith("_FILE") else one for name, one in found.items()}
    config = load(None, {}, here)
    assert str(config.data_dir).startswith(("/var/lib/leporid", str(Path.home())))
    if "RABBITMQ_DEFAULT_USER" in found:
        assert config.users is not None
        assert config.users["app"].password == "secret"
        assert config.users["app"].loopback_only is False


def test_the_ports_in_the_files_are_the_defaults():
    for file in FILES:
        text = file.read_text()
        for port in (Config(data_dir=Path("/x")).amqp_port, Config(data_dir=Path("/x")).http_port):
            assert str(port) in text


def test_the_image_has_the_tools_that_are_tested():
    (line,) = [line for line in FILES[0].read_text().splitlines() if "RUN for name in" in line]
    assert set(re.findall(r"rabbitmq[a-z-]+", line)) == TOOLS


def test_the_configuration_of_the_image_is_that_of_both_directories():
    text = FILES[0].read_text()
    assert "LEPORID_CONFIG=/etc/rabbitmq:/etc/leporid " in text
    assert "/etc/leporid/conf.d /etc/rabbitmq/conf.d" in text


def test_the_configuration_in_the_kubernetes_manifest_can_be_used(tmp_path: Path):
    text = FILES[2].read_text()
    (inside,) = re.findall(r"leporid\.toml: \|\n((?:    .*\n)+)", text)
    (tmp_path / "leporid.toml").write_text(re.sub("^    ", "", inside, flags=re.MULTILINE))
    assert load(tmp_path).log_format == "json"
