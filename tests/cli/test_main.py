"""The command line: what it hands on, and its exit codes."""

import argparse
import atexit
import os
import subprocess
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

import pytest

from leporid.cli import main as command_line
from leporid.cli.command import Parser
from leporid.cli.main import main
from leporid.server.config import Config
from leporid.server.reload import LoadedConfig


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The configurations that `serve` was started with."""
    seen: list[Config] = []
    node = types.ModuleType("leporid.server.node")

    def run(config: Config, reread: Callable[[], LoadedConfig], files: Sequence[Path]) -> int:
        assert (reread().config, reread().files) == (config, files)
        seen.append(config)
        return 7

    node.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "leporid.server.node", node)
    return seen


def test_serve_hands_the_options_on(runs: list[Config], tmp_path: Path):
    options = ["--data-dir", str(tmp_path), "--bind", "127.0.0.2", "--amqp-port", "0"]
    assert main(["serve", *options, "--http-port", "8080", "--metrics-port", "-1"]) == 7
    (config,) = runs
    assert config.data_dir == tmp_path
    assert config.bind == ("127.0.0.2",)
    assert (config.amqp_port, config.http_port, config.metrics_port) == (0, 8080, -1)


def test_serve_without_options_takes_the_defaults(
    runs: list[Config], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    assert main(["serve"]) == 7
    assert runs == [Config(data_dir=Path("/somewhere/leporid"))]


class Left(Exception):
    """With the exit code."""


def leave(code: int) -> None:
    raise Left(code)


@pytest.mark.usefixtures("runs")
def test_a_broker_that_ended_is_not_taken_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    ended: list[str] = []
    monkeypatch.setattr(atexit, "_run_exitfuncs", lambda: ended.append("exit functions"))
    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(sys, "argv", ["leporid", "serve"])
    with pytest.raises(Left) as left:
        main()
    assert (left.value.args, ended) == ((7,), ["exit functions"])
    monkeypatch.setattr(sys, "argv", ["leporid", "--version"])
    with pytest.raises(SystemExit):  # other commands end as Python does
        main()
    assert capsys.readouterr().out.startswith("leporid ")


@pytest.mark.usefixtures("runs")
def test_a_broker_without_an_output_ends_as_well(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(atexit, "_run_exitfuncs", lambda: None)
    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(sys, "argv", ["leporid", "serve"])
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(Left):
        main()


@pytest.mark.usefixtures("runs")
def test_a_profiler_may_write_what_it_has_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(sys, "argv", ["leporid", "serve"])
    sys.setprofile(lambda *_: None)
    try:
        code = main()
    finally:
        sys.setprofile(None)
    assert code == 7


@pytest.mark.usefixtures("runs")
def test_so_may_one_of_newer_pythons(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(sys, "argv", ["leporid", "serve"])
    tools = types.SimpleNamespace(get_tool=[None, None, "cProfile", None, None, None].__getitem__)
    monkeypatch.setattr(sys, "monitoring", tools, raising=False)
    assert main() == 7


def test_options_win_over_the_file(runs: list[Config], tmp_path: Path):
    file = tmp_path / "leporid.toml"
    file.write_text('amqp_port = 1111\nhttp_port = 2222\ndata_dir = "/x"')
    assert main(["serve", "--config", str(file), "--amqp-port", "3333"]) == 7
    assert (runs[0].amqp_port, runs[0].http_port) == (3333, 2222)
    assert runs[0].data_dir == Path("/x")


def test_the_environment_wins_over_the_file_and_names_it(
    runs: list[Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "leporid.toml").write_text("heartbeat = 1\nchannel_max = 1")
    monkeypatch.setenv("LEPORID_CONFIG", str(tmp_path))
    monkeypatch.setenv("LEPORID_HEARTBEAT", "2")
    assert main(["serve", "--amqp-port", "3"]) == 7
    assert (runs[0].channel_max, runs[0].heartbeat, runs[0].amqp_port) == (1, 2, 3)


def test_the_level_of_the_command_line_wins(runs: list[Config], tmp_path: Path):
    file = tmp_path / "leporid.toml"
    file.write_text('log_level = "error"')
    assert main(["--log-level", "debug", "serve", "--config", str(file)]) == 7
    assert main(["serve", "--config", str(file)]) == 7
    assert [config.log_level for config in runs] == ["debug", "error"]


def test_variables_of_rabbitmq_without_a_meaning_are_named_and_not_shown(
    runs: list[Config], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("RABBITMQ_ERLANG_COOKIE", "tasty")
    monkeypatch.setenv("RABBITMQ_DEFAULT_USER", "app")
    with caplog.at_level("INFO"):
        assert main(["serve"]) == 7
    assert "RABBITMQ_ERLANG_COOKIE" in caplog.text
    assert "RABBITMQ_DEFAULT_USER" not in caplog.text
    assert "tasty" not in caplog.text
    assert runs[0].users is not None
    assert list(runs[0].users) == ["app"]


def test_variables_of_clients_make_no_user_which_is_said(
    runs: list[Config], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("LEPORID_USER", "admin")
    monkeypatch.setenv("LEPORID_PASSWORD", "tasty")
    with caplog.at_level("INFO"):
        assert main(["serve"]) == 7
    assert "the variable LEPORID_USER is for commands that ask a broker" in caplog.text
    assert "LEPORID_USERS__NAME__PASSWORD" in caplog.text
    assert "tasty" not in caplog.text
    assert runs[0].users is None


def test_a_relative_data_directory_counts_from_here(
    runs: list[Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    main(["serve", "--data-dir", "data"])
    assert runs[0].data_dir == tmp_path / "data"


def test_a_wrong_setting_is_told_and_exits_2(
    runs: list[Config], capsys: pytest.CaptureFixture[str]
):
    assert main(["serve", "--amqp-port", "70000"]) == 2
    said = capsys.readouterr()
    assert said.err == "leporid: amqp_port = 70000: must be a whole number from -1 to 65535\n"
    assert said.out == ""
    assert runs == []


def commands(parser: argparse.ArgumentParser) -> Iterator[list[str]]:
    """The words of every command and subcommand of a parser, its own (none) first."""
    yield []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                assert isinstance(command, Parser)
                yield from ([name, *words] for words in commands(command.filled()))


@pytest.mark.parametrize("words", list(commands(command_line.parser())), ids=" ".join)
def test_every_command_has_help(words: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {' '.join(['leporid', *words])} ")


@pytest.mark.parametrize("arguments", [[], ["fly"], ["serve", "--port", "1"], ["check"]])
def test_a_wrong_command_exits_2(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("leporid")
    assert ": error: " in line


def test_a_command_that_is_nearly_one_is_named(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["queue", "list"])
    assert ended.value.code == 2
    assert "leporid: error: no command 'queue'; did you mean \"queues\"?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "command", "said"),
    [
        ([], "leporid", "a command is missing; `leporid --help` lists them"),
        (["fly"], "leporid", "no command 'fly'; `leporid --help` lists them"),
        (["--url", "http://h", "status"], "leporid", "--url stands behind the command"),
        (["queues", "lst"], "leporid queues", "no verb 'lst'; did you mean \"list\"?"),
        (["queues", "fly"], "leporid queues", "no verb 'fly'; there are list, show, add"),
        (["queues", "add", "q", "--typ=x"], "leporid queues add", 'did you mean "--type"?'),
        (["cat", "queue://q", "x"], "leporid cat", "unknown: x; `leporid cat --help`"),
        (["cat", "queue://q", "x\ny"], "leporid cat", "unknown: x y; `leporid cat --help`"),
        (
            ["bindings", "add", "x"],
            "leporid bindings add",
            "are required: QUEUE; `leporid bindings add --help` says more",
        ),
        (["top", "--count", "x"], "leporid top", "; `leporid top --help` says more"),
    ],
)
def test_what_is_wrong_is_said_with_what_there_is(
    arguments: list[str], command: str, said: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{command}: error: ")
    assert said in line


def test_help_is_a_word_as_well(capsys: pytest.CaptureFixture[str]):
    for words, usage in ((["help"], "leporid"), (["help", "queues", "add"], "leporid queues add")):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: {usage} [-h]")


def test_check_hands_directory_and_output_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[Path] = []
    module = types.ModuleType("leporid.server.check")

    def check(directory: Path, out: TextIO) -> int:
        assert out is sys.stdout
        seen.append(directory)
        return 1

    module.check = check  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "leporid.server.check", module)
    assert main(["check", str(tmp_path)]) == 1
    assert seen == [tmp_path]


def test_version_as_a_process():
    command = [sys.executable, "-m", "leporid.cli.main", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("leporid ")
    # Nothing of the broker was needed for that.
    probe = "import sys; import leporid.cli.main; print([m for m in sys.modules if 'uvloop' in m])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
