"""The flags of `leporid serve`: one for each setting."""

import sys
import types
from pathlib import Path

import pytest

from leporid.cli.main import main, parser
from leporid.cli.serve import flag_of, flags, overrides_of
from leporid.server.config import Config
from leporid.server.settings import settings_of

WITHOUT = {
    # Tables, and lists of tables, are for files.
    "users", "policies", "operator_policies", "filter_classes", "redeclare_by_vhost",
    "unknown_arguments_by_vhost", "tls.names", "oauth2.signing_keys", "oauth2.scope_aliases",
}  # fmt: skip


def overrides(*arguments: str) -> dict:
    return overrides_of(parser().parse_args(["serve", *arguments]))


def test_every_setting_has_a_flag_but_tables_and_secrets():
    found = {".".join(keys) for keys in flags()}
    secret = {key for key, about in settings_of(Config) if about.secret}
    assert {key for key, _ in settings_of(Config)} - found <= WITHOUT | secret
    assert found <= {key for key, _ in settings_of(Config)}
    names = [flag_of(keys) for keys in flags()]
    assert len(set(names)) == len(names)
    for keys in flags():
        options = vars(parser().parse_args(["serve", flag_of(keys), "text"]))
        assert options[".".join(keys)] in ("text", ["text"])


def test_the_help_is_plain_text_and_says_what_a_setting_may_be(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    shown = capsys.readouterr().out
    assert "\n  --interceptors-timestamp {off,keep,overwrite}" in shown
    assert "\n  --durability {synced,written}" in shown
    assert "counts as 1 + n/4" in shown
    assert not any(sign in shown for sign in ("`", "](", "see below"))


def test_a_misspelt_flag_is_told_without_the_list_of_all_flags(capsys):
    with pytest.raises(SystemExit):
        main(["serve", "--amqp-prt", "1"])
    (error,) = capsys.readouterr().err.splitlines()
    assert error == 'leporid serve: error: unknown: --amqp-prt 1; did you mean "--amqp-port"?'


def test_values_are_those_of_a_file():
    assert overrides("--amqps-port", "1", "--limits-message-bytes-max", "1 MiB") == {
        "amqps_port": 1,
        "limits": {"message_bytes_max": "1 MiB"},
    }
    assert overrides("--vhosts", '["a", "b"]', "--memory-watermark", "0.5") == {
        "vhosts": ["a", "b"],
        "memory_watermark": 0.5,
    }
    assert overrides("--filter-server-allow-guest", "true") == {
        "filter_server": {"allow_guest": True}
    }


def test_paths_are_relative_to_where_the_command_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert overrides("--data-dir", "d") == {"data_dir": str(tmp_path / "d")}


@pytest.mark.parametrize(
    "words", [["--log-level", "debug", "serve"], ["serve", "--log-level", "debug"]]
)
def test_the_level_of_the_log_before_and_behind(words, monkeypatch, tmp_path):
    seen = []
    node = types.ModuleType("leporid.server.node")

    def run(config: Config, reread: object, files: object) -> int:
        seen.append(config)
        return 0

    node.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "leporid.server.node", node)
    assert main([*words, "--data-dir", str(tmp_path), "--limits-handshake-seconds", "3"]) == 0
    assert (seen[0].log_level, seen[0].limits.handshake_seconds) == ("debug", 3)


def test_a_mistake_is_told_as_in_a_file(capsys, tmp_path: Path):
    given = ["--frame-max", "1", "--limits-handshake-seconds", "soon"]
    assert main(["serve", "--data-dir", str(tmp_path), *given]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("leporid: frame_max = 1: must be")
    assert second.startswith('leporid: limits.handshake_seconds = "soon": must be a whole number')


def test_a_flag_of_a_list_may_be_repeated_and_none_of_its_values_is_lost():
    assert overrides("--bind", "127.0.0.1", "--bind", "::1") == {"bind": ["127.0.0.1", "::1"]}
    assert overrides("--http-hosts", "a", "--http-hosts", '["b", "c"]') == {
        "http": {"hosts": ["a", "b", "c"]}
    }
    assert overrides("--vhosts", "a") == {"vhosts": ["a"]}


def test_any_other_flag_is_refused_the_second_time(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--amqp-port", "1", "--amqp-port=2"])
    assert ended.value.code == 2
    (error,) = capsys.readouterr().err.splitlines()
    said = "leporid serve: error: argument --amqp-port: given twice; it takes one value"
    assert error == f"{said}; `leporid serve --help` says more"
