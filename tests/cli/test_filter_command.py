"""`leporid filter test`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from leporid.cli.main import main

LATE = "dep_delay > 60 AND origin = 'JFK'"


def run(*arguments: str) -> int:
    return main(["filter", "test", *arguments])


def test_says_whether_and_why(capsys):
    assert run(LATE, "--header", "dep_delay=75", "--header", "origin=JFK") == 0
    assert capsys.readouterr().out == (
        "match\n"
        "\n"
        "true   dep_delay > 60 AND origin = 'JFK'\n"
        "true     dep_delay > 60\n"
        "75         dep_delay\n"
        "true     origin = 'JFK'\n"
        "'JFK'      origin\n"
    )
    assert run(LATE, "--header", "dep_delay=5") == 1
    assert capsys.readouterr().out.startswith("no match: false\n")


@pytest.mark.parametrize(
    ("expression", "arguments", "code"),
    [
        ("n = 5", ["--header", "n=5"], 0),
        ("n = '5'", ["--header", "n='5'"], 0),
        ("n = 'it''s'", ["--header", "n='it''s'"], 0),
        ("n = 5.5", ["--header", "n=5.5"], 0),
        ("n", ["--header", "n=true"], 0),
        ("n = FALSE", ["--header", "n=false"], 0),
        ("n IS NULL", ["--header", "n=null"], 0),
        ("n = ''", ["--header", "n="], 0),
        ("n = 'a=b'", ["--header", "n=a=b"], 0),
        ('"a b" = 1 AND c = 2', ["--header", "a b=1", "--header", "c=2"], 0),
        ("p.type = '5'", ["--property", "type=5"], 0),
        ("p.priority = 5", ["--property", "priority=5"], 0),
        ("routing_key = 'k' AND exchange = 'x'", ["--routing-key", "k", "--exchange", "x"], 0),
        ("n > 4", ["--header", "n='5'", "--dialect", "rocketmq"], 0),
        ("n > 4", ["--header", "n='5'", "--dialect", "jms"], 1),
        ("n > 4", [], 1),
    ],
)
def test_exit_codes(expression, arguments, code, capsys):
    assert run(expression, *arguments) == code
    capsys.readouterr()


def test_points_at_the_character_of_a_bad_expression(capsys):
    assert run("dep_delay = NULL") == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (
        "leporid: character 13: nothing is equal to NULL: write IS NULL or IS NOT NULL\n"
        "\n"
        "dep_delay = NULL\n"
        "            ^\n"
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--header", "n"], "n: write NAME=VALUE"),
        (["--property", "colour=red"], "NAME is one of message_id"),
        (["--property", "priority=high"], "priority is a number, not high"),
        (["--dialect", "sql92"], "unknown dialect sql92: expected jms or rocketmq"),
    ],
)
def test_wrong_use(arguments, reason, capsys):
    with pytest.raises(SystemExit) as caught:
        run("a", *arguments)
    assert caught.value.code == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--property", "type=" + "x" * 256],
        ["--property", "priority=256"],
        ["--routing-key", "x" * 256],
        ["--header", "n=nan"],
        ["--header", "n=99999999999999999999"],
    ],
)
def test_a_message_that_cannot_be(arguments, capsys):
    assert run("a", *arguments) == 2
    assert "no message can be like this" in capsys.readouterr().err


def test_other_commands_do_not_load_the_grammars():
    program = (
        "import sys, leporid.cli.main as main\n"
        "try: main.main(['--version'])\n"
        "except SystemExit: pass\n"
        "sys.exit('lark' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_json_and_nothing(capsys):
    assert run("n > 1", "--header", "n=2", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "matches": True,
        "verdict": "match",
        "parts": [
            {"part": "n > 1", "value": "true", "depth": 0},
            {"part": "n", "value": "2", "depth": 1},
        ],
    }
    assert run("n > 1", "--quiet") == 1
    assert capsys.readouterr().out == ""
