"""RabbitMQ's files as the configuration of a broker: which count, and what is said of them."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pika
import pytest
from tests.server.seeding import seeded_users

from leporid.cli.main import main
from leporid.server.config import Config, ConfigError, build, values_of
from leporid.server.rabbitmq_files import missing_plugins, plugins_in, remarks
from leporid.testing import BrokerProcess

SECRET = "s3cret-nobody-may-see"
PATIENCE_S = 30.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "rabbitmq"
    (made / "conf.d").mkdir(parents=True)
    return made


def built(*places: Path, **environment: str) -> tuple[Config, list[str]]:
    """The configuration, and what is said of it."""
    values = values_of(places, {}, environment)
    return build(values), remarks(values)


def refused(*places: Path, **environment: str) -> str:
    with pytest.raises(ConfigError) as raised:
        built(*places, **environment)
    return str(raised.value)


def test_a_file_with_its_folder(folder: Path):
    (folder / "rabbitmq.conf").write_text("heartbeat = 20\nframe_max = 8192\nchannel_max = 5\n")
    (folder / "conf.d" / "20-b.conf").write_text("heartbeat = 40\n")
    (folder / "conf.d" / "10-a.conf").write_text("heartbeat = 30\nframe_max = 16384\n")
    (folder / "conf.d" / ".hidden.conf").write_text("heartbeat = 1\n")
    (folder / "conf.d" / "definitions.json").write_text("{}")
    for place in (folder, folder / "rabbitmq.conf"):
        config, _ = built(place)
        assert (config.heartbeat, config.frame_max, config.channel_max) == (40, 16384, 5)
    values = values_of(folder, {}, {})
    assert values.whence("heartbeat") == f"{folder}/conf.d/20-b.conf:1 heartbeat"
    names = [file.name for file in values.files]
    assert names == ["rabbitmq.conf", "10-a.conf", "20-b.conf"]


def test_of_keys_that_mean_the_same_the_last_one_counts(folder: Path):
    (folder / "rabbitmq.conf").write_text(
        "log.console.level = error\nlog.file.level = debug\n"
        "auth_backends.1 = internal\nauth_backends.2 = http\n"
    )
    (folder / "conf.d" / "a.conf").write_text(
        "log.console.level = warning\nauth_backends.1 = rabbit_auth_backend_internal\n"
    )
    config, _ = built(folder)
    assert config.log_level == "warning"
    # But back ends are asked in the order of their first lines.
    assert config.auth.backends == ("internal", "http")


def test_the_folder_needs_no_file_beside_it(folder: Path):
    (folder / "conf.d" / "10-a.conf").write_text("heartbeat = 30\n")
    assert built(folder)[0].heartbeat == 30


def test_a_folder_of_another_name_has_none(tmp_path: Path):
    (tmp_path / "rabbitmq.conf").write_text("heartbeat = 30\n")
    assert built(tmp_path)[0].heartbeat == 60


@pytest.mark.parametrize("ending", ["", ".conf"])
def test_the_variable_names_another_file(ending: str, folder: Path, tmp_path: Path):
    (tmp_path / "other.conf").write_text("heartbeat = 7\nframe_max = 8192\n")
    (folder / "rabbitmq.conf").write_text("heartbeat = 20\n")
    (folder / "conf.d" / "a.conf").write_text("frame_max = 16384\n")
    config, _ = built(folder, RABBITMQ_CONFIG_FILE=f"{tmp_path}/other{ending}")
    assert (config.heartbeat, config.frame_max) == (7, 16384)


def test_our_file_wins(folder: Path, tmp_path: Path):
    (folder / "rabbitmq.conf").write_text("heartbeat = 20\nframe_max = 8192\n")
    ours = tmp_path / "leporid"
    ours.mkdir()
    (ours / "leporid.toml").write_text("heartbeat = 50\n")
    config, _ = built(folder, ours)
    assert (config.heartbeat, config.frame_max) == (50, 8192)


def test_what_means_nothing_is_said_without_secrets(folder: Path):
    text = f"""\
cluster_name = shop
ssl_options.password = {SECRET}
default_user = ann
default_pass = {SECRET}
management.listener.ssl_opts.password = {SECRET}
auth_ldap.dn_lookup_bind.password = {SECRET}
heartbeet = {SECRET}
heartbeat = 10
heartbeat = 20
"""
    (folder / "rabbitmq.conf").write_text(text)
    config, said = built(folder)
    assert config.heartbeat == 20
    assert SECRET not in "\n".join(said)
    at = f"{folder}/rabbitmq.conf"
    assert f"{at}:1 cluster_name: there is one node" in said
    assert f"{at}:8 heartbeat: is said again below, which wins" in said
    starts = {2: "ssl_options.password", 5: "management.", 6: "auth_ldap.", 7: "heartbeet"}
    for number, key in starts.items():
        assert any(line.startswith(f"{at}:{number} {key}") for line in said), said
    assert not any("default_" in line for line in said)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nheartbeat = often", ":2 heartbeat: is not a whole number"),
        ("heartbeat = 1000000", ":1 heartbeat: heartbeat = 1000000: must be"),
        ("disk_free_limit.absolute = much", ":1 disk_free_limit.absolute: is not a size"),
        ("log.console.level = loud", ":1 log.console.level: is not a level"),
        ("listeners.tcp.default = many", ':1 listeners.tcp.default: amqp_port = "many": must be'),
        ("heartbeat 5", ":1: is not a line of the form"),
        ("default_pass = $(NOT_SET)", ":1 default_pass: $(…) in it is neither a key nor"),
        ("heartbeat = $(a)\na = $(heartbeat)", "leads back to itself"),
    ],
)
def test_wrong_values_are_refused(text: str, message: str, folder: Path):
    (folder / "rabbitmq.conf").write_text(text)
    assert f"{folder}/rabbitmq.conf{message}" in refused(folder) or message in refused(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("auth_backends.1 = ldap", ":1 auth_backends.1: is not there; users with passwords"),
        ("auth_mechanisms.1 = EXTERNAL", ":1 auth_mechanisms.1: PLAIN and AMQPLAIN cannot be"),
        (
            "ssl_options.certfile = /c\nssl_options.keyfile = /k\nssl_options.verify = verify_peer",
            ":3 ssl_options.verify: takes ssl_options.cacertfile, too",
        ),
        (
            "listeners.tcp.1 = 0.0.0.0:5672\nmanagement.tcp.ip = 127.0.0.1",
            ":2 management.tcp.ip: all ports listen on the same addresses (0.0.0.0)",
        ),
        ("listeners.ssl.1 = 10.0.0.1:5671", ":1 listeners.ssl.1: all ports listen on"),
    ],
)
def test_what_would_let_in_more_than_rabbitmq_is_refused(text: str, message: str, folder: Path):
    (folder / "rabbitmq.conf").write_text(text)
    assert f"{folder}/rabbitmq.conf{message}" in refused(folder)


def test_addresses_of_the_environment_may_not_be_more_than_those_of_the_file(folder: Path):
    (folder / "rabbitmq.conf").write_text("listeners.tcp.1 = 127.0.0.1:5672")
    assert built(folder)[0].bind == ("127.0.0.1",)
    with pytest.raises(ConfigError, match="all ports listen on the same addresses"):
        built(folder, LEPORID_BIND="0.0.0.0")


@pytest.mark.parametrize(
    ("more", "tags"),
    [("", {"administrator"}), ("default_user_tags.administrator = false\n", set())],
)
def test_the_default_user_has_the_tags_that_are_said(more: str, tags: set[str], folder: Path):
    (folder / "rabbitmq.conf").write_text(f"default_user = ann\ndefault_pass = {SECRET}\n{more}")
    (user,) = seeded_users(built(folder)[0]).values()
    assert set(user.tags) == tags


def test_a_wrong_value_of_a_secret_is_not_shown(folder: Path):
    (folder / "rabbitmq.conf").write_text(f"default_user = ann\ndefault_pass = {SECRET * 500}\n")
    try:
        said = built(folder)[1]
    except ConfigError as error:
        said = [str(error)]
    assert SECRET not in "\n".join(said)


@pytest.mark.parametrize("order", [1, -1])
def test_the_relative_watermark_wins(order: int, folder: Path):
    lines = ["vm_memory_high_watermark.relative = 0.5", "vm_memory_high_watermark.absolute = 2GB"]
    (folder / "rabbitmq.conf").write_text("\n".join(lines[::order]))
    config, said = built(folder)
    assert config.memory_watermark == 0.5
    assert any("absolute: vm_memory_high_watermark.relative wins" in line for line in said)


def test_names_of_variables_and_keys_in_values(folder: Path):
    (folder / "rabbitmq.conf").write_text(
        "heartbeat = 30\ndefault_user = $(WHO)\ndefault_pass = a-$(heartbeat)-$(SECRET)\n"
    )
    config, said = built(folder, WHO="ann", SECRET=SECRET)
    (user,) = seeded_users(config).values()
    assert user.name == "ann"
    assert user.password.matches(f"a-30-{SECRET}".encode())
    assert SECRET not in "\n".join(said)


def test_variables_of_the_image_win_over_the_default_user_of_the_file(folder: Path):
    (folder / "rabbitmq.conf").write_text(
        "default_user = file\ndefault_pass = known\ndefault_permissions.write = ^a\n"
    )
    password = "as $(it) is"
    config, _ = built(folder, RABBITMQ_DEFAULT_USER="app", RABBITMQ_DEFAULT_PASS=password)
    (user,) = seeded_users(config).values()
    assert (user.name, user.loopback_only) == ("app", False)
    assert user.password.matches(password.encode())
    assert user.may("write", "queue", "ab", "/")
    assert not user.may("write", "queue", "b", "/")


@pytest.mark.parametrize("text", ["loopback_users.guest = false\n", "loopback_users = none\n"])
def test_nobody_lets_guest_in_beside_the_user_of_a_variable(text: str, folder: Path):
    (folder / "rabbitmq.conf").write_text(text)
    assert not seeded_users(built(folder)[0])["guest"].loopback_only
    given = {"RABBITMQ_DEFAULT_USER": "app", "RABBITMQ_DEFAULT_PASS": SECRET}
    config, said = built(folder, **given)
    assert seeded_users(config).keys() == {"app"}
    assert any("concerns another user than the default one: guest" in line for line in said)


def test_nobody_lets_guest_in_beside_definitions(folder: Path):
    file = folder / "rabbitmq.conf"
    file.write_text("loopback_users.guest = false\nload_definitions = /d.json\n")
    config, said = built(folder)
    assert config.users is None
    assert f"{file}:1 loopback_users.guest: users are those of the definitions" in said
    file.write_text("default_user = app\ndefault_pass = x\nload_definitions = /d.json\n")
    assert seeded_users(built(folder)[0]).keys() == {"app"}


def test_what_is_not_read_in_its_folder_is_said(folder: Path):
    (folder / "advanced.config").write_text("[].")
    (folder / "enabled_plugins").write_text("[rabbitmq_management,rabbitmq_shovel].")
    _, said = built(folder, RABBITMQ_CONFIG_FILE="/nowhere/x")
    assert "RABBITMQ_CONFIG_FILE: /nowhere/x.conf: there is no such file" in said
    assert f"{folder}/advanced.config: holds Erlang terms, which are not read" in said
    named = [line for line in said if "enabled_plugins" in line]
    assert named == [f"{folder}/enabled_plugins: rabbitmq_shovel: there is no such plugin here"]


def test_definitions_of_a_file_are_imported(folder: Path):
    for key in ("load_definitions", "management.load_definitions", "definitions.local.path"):
        (folder / "rabbitmq.conf").write_text(f"{key} = /etc/rabbitmq/definitions.json\n")
        config, _ = built(folder)
        assert config.definitions.import_ == Path("/etc/rabbitmq/definitions.json")


def test_check_and_show(folder: Path, capsys: pytest.CaptureFixture[str]):
    file = folder / "rabbitmq.conf"
    file.write_text("listeners.tcp.default = 5672\ncluster_name = shop\nheartbeat = $(BEATS)\n")
    assert main(["config", "check", str(file)]) == 1
    assert f"{file}:3 heartbeat: $(…) in it is neither" in capsys.readouterr().err
    file.write_text("listeners.tcp.default = 5672\ncluster_name = shop\nheartbeat = 9\n")
    assert main(["config", "check", str(file)]) == 0
    said = capsys.readouterr()
    assert f"leporid: {file}: warning: {file}:2 cluster_name: there is one node\n" in said.err
    assert "nothing else is wrong" in said.out
    assert main(["config", "show", "--effective", "--config", str(file)]) == 0
    assert f"heartbeat = 9  # {file}:3 heartbeat\n" in capsys.readouterr().out


def test_several_places_of_the_variable(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    (folder / "rabbitmq.conf").write_text("heartbeat = 9\nframe_max = 8192\n")
    (tmp_path / "leporid.toml").write_text("heartbeat = 50\n")
    monkeypatch.setenv("LEPORID_CONFIG", f"{folder}:{tmp_path}")
    assert main(["config", "show"]) == 0
    shown = capsys.readouterr().out
    assert f"heartbeat = 50  # {tmp_path}/leporid.toml:1\n" in shown
    assert f"frame_max = 8192  # {folder}/rabbitmq.conf:2 frame_max\n" in shown


def until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def test_a_broker_with_files_of_rabbitmq(tmp_path: Path):
    file, definitions = tmp_path / "rabbitmq.conf", tmp_path / "definitions.json"
    user = {"name": "ann", "password": SECRET, "tags": "administrator"}
    definitions.write_text(
        json.dumps(
            {
                "users": [user],
                "vhosts": [{"name": "/"}],
                "permissions": [
                    {"user": "ann", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
                ],
                "queues": [{"name": "jobs", "vhost": "/", "durable": True, "auto_delete": False}],
            }
        )
    )
    text = f"listeners.tcp.default = 5672\nload_definitions = {definitions}\ncluster_name = shop\n"
    file.write_text(f"{text}heartbeat = 33\nssl_options.password = {SECRET}\n")
    broker = BrokerProcess(tmp_path / "data", options=["--config", str(file)])
    with broker:
        log = broker.log_path.read_text()
        assert f"{file}:3 cluster_name: there is one node" in log
        parameters = pika.ConnectionParameters(
            "127.0.0.1",
            broker.amqp_port,
            credentials=pika.PlainCredentials("ann", SECRET),
        )
        with pika.BlockingConnection(parameters) as connection:
            connection.channel().queue_declare("jobs", passive=True)
        file.write_text(f"{text}heartbeat = often\n")
        os.kill(broker.pid, signal.SIGHUP)
        stays = f"the configuration stays as it was: {file}:4 heartbeat: is not a whole number"
        until(lambda: stays in broker.log_path.read_text())
        file.write_text(f"{text}heartbeat = 44\nnet_ticktime = 5\n")
        os.kill(broker.pid, signal.SIGHUP)
        done = f"configuration reloaded; changed: heartbeat ({file}:4 heartbeat)"
        until(lambda: done in broker.log_path.read_text())
        log = broker.log_path.read_text()
        assert f"{file}:5 net_ticktime: there is one node" in log
        assert SECRET not in log


def test_names_in_a_file_of_enabled_plugins():
    text = "%% mine: rabbitmq_mqtt\n[ rabbitmq_management\n ,rabbitmq_stomp ].\n"
    assert plugins_in(text) == ["rabbitmq_management", "rabbitmq_stomp"]
    assert list(missing_plugins(text)) == ["rabbitmq_stomp"]
    assert not plugins_in("[].")
