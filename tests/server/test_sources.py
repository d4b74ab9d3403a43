"""Where settings come from: lines of files, variables of the environment, and their order."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.server.config import Config
from leporid.server.settings import ConfigError, to_toml
from leporid.server.sources import (
    OTHER_VARIABLES,
    ConfigUnreadable,
    Values,
    files,
    from_environment,
    from_files,
    is_other,
    lines_of,
    variables_of,
)

ROOT = Path(__file__).parents[2]

TEXT = """\
# a comment with [brackets] and "quotes"
a = 1
b.c = "x # no comment"
list = [
    1,  # ]
    2,
]

[table]
text = '''
[not.a.table]
a = 5
'''
"quoted key" = { inner = true }
  [table.below]
  x = 1
[[many]]
x = 1
[many.inside]
y = 2
[[many]]
x = 1
"""


def test_each_key_has_its_line():
    assert lines_of(TEXT) == {
        "a": 2,
        "b": 3,
        "b.c": 3,
        "list": 4,
        "list[0]": 4,
        "list[1]": 4,
        "table": 9,
        "table.text": 10,
        'table."quoted key"': 14,
        'table."quoted key".inner': 14,
        "table.below": 15,
        "table.below.x": 16,
        "many[0]": 17,
        "many[0].x": 18,
        "many[0].inside": 19,
        "many[0].inside.y": 20,
        "many[1]": 21,
        "many[1].x": 22,
    }


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(texts, inside, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.from_regex("[a-z]{1,5}", fullmatch=True), values, min_size=1, max_size=6))
def test_what_is_written_as_toml_is_read_again_each_on_its_line(tables: dict[str, Any]):
    text = "".join(f"{key} = {to_toml(value)}\n" for key, value in tables.items())
    assert tomllib.loads(text) == tables
    found = lines_of(text)
    assert [found[key] for key in tables] == list(range(1, len(tables) + 1))


def test_tables_merge_lists_are_replaced_and_origins_follow(tmp_path: Path):
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "leporid.toml").write_text(
        'vhosts = ["a", "b"]\n[limits]\nconnections_max = 1\nhandshake_seconds = 1\n'
        '[users.ann]\npassword = "x"\n[[policies]]\nname = "p"\n'
    )
    (tmp_path / "conf.d" / "b.toml").write_text('vhosts = ["c"]\nlimits.connections_max = 3\n')
    (tmp_path / "conf.d" / "a.toml").write_text("\nlimits.connections_max = 2\n[users.ben]\n")
    (tmp_path / "conf.d" / ".c.toml").write_text("no TOML")
    (tmp_path / "conf.d" / "d.toml~").write_text("no TOML")
    merged = from_files(tmp_path)
    assert merged.tables == {
        "vhosts": ["c"],
        "limits": {"connections_max": 3, "handshake_seconds": 1},
        "users": {"ann": {"password": "x"}, "ben": {}},
        "policies": [{"name": "p"}],
    }
    origins = {
        "vhosts": "conf.d/b.toml:1",
        "vhosts[1]": "conf.d/b.toml:1",
        "limits.connections_max": "conf.d/b.toml:2",
        "limits.handshake_seconds": "leporid.toml:4",
        "users.ann.password": "leporid.toml:6",
        "users.ben": "conf.d/a.toml:3",
        "policies[0].name": "leporid.toml:8",
        "policies[0].pattern": "leporid.toml:7",
    }
    assert {key: merged.origin(key) for key in origins} == {
        key: f"{tmp_path}/{place}" for key, place in origins.items()
    }
    assert merged.origin("heartbeat") == ""
    # The same by the file's own name.
    assert from_files(tmp_path / "leporid.toml").tables == merged.tables


def test_a_directory_may_be_empty_but_a_file_must_be_there(tmp_path: Path):
    assert files(tmp_path) == []
    with pytest.raises(ConfigUnreadable, match="No such file"):
        from_files(tmp_path / "leporid.toml")


@pytest.mark.parametrize(
    ("text", "line"), [("a = 1\nb = \n", 2), ("a = 1\nb = [\n1,\n", 3), ("a = 1\na = 2\n", 2)]
)
def test_what_is_no_toml_has_a_line(tmp_path: Path, text: str, line: int):
    file = tmp_path / "x.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        from_files(file)
    assert str(refused.value).startswith(f"{file}:{line}: is not TOML: ")


# ---------------------------------------------------------------- the environment


@pytest.mark.parametrize(
    ("variable", "text", "tables"),
    [
        ("LEPORID_HEARTBEAT", "30", {"heartbeat": 30}),
        ("LEPORID_DURABILITY", "written", {"durability": "written"}),
        ("LEPORID_DURABILITY", '"written"', {"durability": "written"}),
        ("LEPORID_DATA_DIR", "/x", {"data_dir": "/x"}),
        ("LEPORID_BIND", "0.0.0.0", {"bind": "0.0.0.0"}),
        ("LEPORID_BIND", '["127.0.0.1", "::1"]', {"bind": ["127.0.0.1", "::1"]}),
        ("LEPORID_MEMORY_WATERMARK", "0.5", {"memory_watermark": 0.5}),
        ("LEPORID_MEMORY_WATERMARK", "2 GiB", {"memory_watermark": "2 GiB"}),
        ("LEPORID_LIMITS__CONNECTIONS_MAX", "9", {"limits": {"connections_max": 9}}),
        ("LEPORID_LIMITS", "{ connections_max = 9 }", {"limits": {"connections_max": 9}}),
        ("LEPORID_FILTER_SERVER__ALLOW_GUEST", "true", {"filter_server": {"allow_guest": True}}),
        ("LEPORID_USERS__Ann__PASSWORD", "123", {"users": {"Ann": {"password": "123"}}}),
        (
            "LEPORID_USERS__ann__PERMISSIONS__/__READ",
            ".*",
            {"users": {"ann": {"permissions": {"/": {"read": ".*"}}}}},
        ),
        ("LEPORID_REDECLARE_BY_VHOST__shop", "warn", {"redeclare_by_vhost": {"shop": "warn"}}),
        # What cannot be is refused later, with the setting's own sentence.
        ("LEPORID_HEARTBEAT", "often", {"heartbeat": "often"}),
        ("LEPORID_HEARTBEAT", "1\nframe_max = 4096", {"heartbeat": "1\nframe_max = 4096"}),
    ],
)
def test_a_variable_is_a_setting(variable: str, text: str, tables: dict[str, Any]):
    found = from_environment(Config, {variable: text, "PATH": "/bin"})
    assert found.tables == tables
    assert variable in found.origins.values()


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("LEPORID_HEARTBEET", 'did you mean "LEPORID_HEARTBEAT"?'),
        ("LEPORID_LIMITS_CONNECTIONS_MAX", 'did you mean "LEPORID_LIMITS__CONNECTIONS_MAX"?'),
        ("LEPORID_LIMITS__CONECTIONS_MAX", 'did you mean "LEPORID_LIMITS__CONNECTIONS_MAX"?'),
        ("LEPORID_USERS__ann__PASWORD", 'did you mean "LEPORID_USERS__ann__PASSWORD"?'),
        ("LEPORID_USERS____PASSWORD", "no setting has this variable"),
        ("LEPORID_HEARTBEAT__X", "no setting has this variable"),
        ("LEPORID_HEARTBEAT_FILE", "no setting has this variable"),
        ("LEPORID_", "no setting has this variable"),
        ("LEPORID_ARGS", "`leporid serve --help` lists the settings: --amqp-port is LEPORID_AMQP"),
        ("LEPORID_SERVE_OPTS", "`leporid serve --help` lists the settings"),
        ("LEPORID_CONFIG_PATH", 'did you mean "LEPORID_CONFIG"?'),
    ],
)
def test_a_variable_that_is_no_setting_is_refused(variable: str, message: str):
    with pytest.raises(ConfigError) as refused:
        from_environment(Config, {variable: "hunter2"})
    assert str(refused.value).startswith(f"{variable}: no setting has this variable")
    assert message in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_secret_may_be_in_a_file(tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("hünter2\n")
    environment = {"LEPORID_USERS__ann__PASSWORD_FILE": str(secret)}
    found = from_environment(Config, environment)
    assert found.tables == {"users": {"ann": {"password": "hünter2"}}}
    with pytest.raises(ConfigError, match="say the same setting"):
        from_environment(Config, environment | {"LEPORID_USERS__ann__PASSWORD": "x"})
    secret.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        from_environment(Config, environment)
    secret.write_bytes(b"x" * 70_000)
    with pytest.raises(ConfigError, match="has more than 65536 bytes"):
        from_environment(Config, environment)
    secret.unlink()
    with pytest.raises(ConfigError, match=r"PASSWORD_FILE: .*secret cannot be read: No such file"):
        from_environment(Config, environment)


@pytest.mark.parametrize(
    "variable",
    [
        "LEPORID_CONFIG",
        "LEPORID_URL",
        # Of a Kubernetes service that is called leporid, or leporid-http.
        "LEPORID_SERVICE_HOST",
        "LEPORID_SERVICE_PORT",
        "LEPORID_SERVICE_PORT_AMQP",
        "LEPORID_PORT",
        "LEPORID_PORT_5672_TCP",
        "LEPORID_PORT_5672_TCP_ADDR",
        "LEPORID_HTTP_SERVICE_HOST",
        "LEPORID_HTTP_PORT_15672_TCP_PROTO",
    ],
)
def test_other_variables_are_left_alone(variable: str):
    assert is_other(variable)
    assert from_environment(Config, {variable: "x"}).tables == {}


def test_no_setting_is_taken_for_another_variable():
    assert is_other("LEPORID_AMQP_PORT")
    assert from_environment(Config, {"LEPORID_AMQP_PORT": "1"}).tables == {"amqp_port": 1}


def test_every_variable_that_the_project_uses_is_known():
    places = ("src", "tests", "examples", "fuzz", "bench", "tools", "Makefile", "setup.py")
    text = ""
    for place in places:
        path = ROOT / place
        for file in path.rglob("*.py") if path.is_dir() else [path]:
            if file.name not in ("test_sources.py", "test_host.py", "test_container.py"):
                text += file.read_text(encoding="utf-8")
    found = set(re.findall(r"\bLEPORID_[A-Z_]*[A-Z]\b", text))
    settings = set(variables_of(Config))
    # Of a table whose keys are names.
    named = {one for one in found if one.startswith(("LEPORID_USERS__", "LEPORID_HEARTBEET"))}
    assert found >= OTHER_VARIABLES - {"LEPORID_CONFIG"}
    assert found - OTHER_VARIABLES - settings - named == set()


def test_values_are_not_shared_between_sources():
    first = Values({"users": {"ann": {"tags": []}}}, {"users": "1"})
    merged = Values()
    merged.add(first)
    merged.set(["users", "ann", "password"], "x", "2")
    assert first.tables == {"users": {"ann": {"tags": []}}}
    assert merged.origin("users.ann.password") == "2"
    assert merged.origin("users.ann.tags") == "1"
