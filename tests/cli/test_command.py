"""How commands declare themselves: what holds for all of them."""

import argparse
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leporid.cli.aliases import TOOLS
from leporid.cli.command import Kind, Noun, Parser, Plain, Single
from leporid.cli.main import COMMANDS
from leporid.cli.main import parser as build_parser

ROOT = Path(__file__).parents[2]
# What `serve`, and what only says how it is used, must not take the time to load.
LATE = {"rich", "http.client", "uvloop", "lark", "pika", "pyarrow", "starlette"}


def verbs():
    for command in COMMANDS.values():
        found = command.load()
        if isinstance(found, Noun):
            yield from ((f"{command.name} {verb.name}", verb) for verb in found.verbs)
        elif isinstance(found, Single):
            yield command.name, found.verb


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_name_of_a_noun_is_its_commands(name):
    found = COMMANDS[name].load()
    assert isinstance(found, Noun | Single | Plain)
    if isinstance(found, Noun):
        assert found.name == name
        assert len({verb.name for verb in found.verbs}) == len(found.verbs)
    if isinstance(found, Single):
        assert found.verb.name == name


def test_the_page_names_all_nouns_verbs_and_words():
    page = (ROOT / "docs" / "command-line.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    for command in COMMANDS.values():
        found = command.load()
        if isinstance(found, Noun) and command.name != "completion":
            (line,) = [one for one in lines if f"`{command.name}`" in one.split("|")[1]]
            for verb in found.verbs:
                assert f"`{verb.name}`" in line or f" {verb.name}" in line, (
                    command.name,
                    verb.name,
                )
        elif isinstance(found, Single):
            assert f"`{command.name}" in page, command.name
    for tool, aliases in TOOLS.items():
        (line,) = [one for one in lines if one.startswith(f"| `{tool}`")]
        assert set(re.findall(r"`(\w+)`", line.split("|")[2])) == set(aliases)


def test_what_a_verb_is_called_says_whether_it_destroys():
    for name, verb in verbs():
        if verb.name in ("delete", "purge", "close"):
            assert verb.kind is Kind.DESTROY or name == "limits delete", name
        if verb.name == "list":
            assert verb.kind is Kind.LIST, name


# They write for programs: a line when the broker is ready, scripts, and the files of state and
# metrics of a pipeline.
WITHOUT_FORMS = ("serve", "completion", "pipeline run")


def test_every_command_writes_json_or_names_alone():
    for name, options in options_of(build_parser(), ""):
        if not name.startswith(WITHOUT_FORMS):
            assert options.issuperset({"--json", "--quiet"}), name


def options_of(parser: Parser, name: str) -> Iterator[tuple[str, set[str]]]:
    """Give the options of each command below a parser."""
    for command, made in parsers_of(parser, name):
        yield command, {option for action in made._actions for option in action.option_strings}


def parsers_of(parser: Parser, name: str) -> Iterator[tuple[str, Parser]]:
    """Give the parser of each command below a parser."""
    actions = parser.filled()._actions
    below = [each for each in actions if isinstance(each, argparse._SubParsersAction)]
    for each in below:
        for verb, made in each.choices.items():
            yield from parsers_of(made, f"{name} {verb}".strip())
    if not below:
        yield name, parser


def test_what_is_completed_is_a_noun_with_a_list():
    for name, verb in verbs():
        if verb.completes:
            found = COMMANDS[verb.completes].load()
            assert isinstance(found, Noun), name
            assert found.verb("list").kind is Kind.LIST, name


def test_a_broker_starts_without_what_the_other_commands_need():
    program = (
        "import sys, leporid.cli.main as main\n"
        "main.parser().parse_args(['serve', '--amqp-port', '0'])\n"
        "import leporid.server.node\n"
        "late = ('rich', 'leporid.client', 'leporid.cli.nouns')\n"
        "print([name for name in late if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_what_only_says_something_loads_next_to_nothing(arguments):
    program = (
        "import sys, leporid.cli.main as main\n"
        f"try: main.main({arguments!r})\n"
        "except SystemExit: pass\n"
        f"print('loaded:', sorted({LATE!r} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("loaded: []\n")


def test_a_parser_is_filled_once_and_late():
    count = itertools.count()

    def fill(parser: Parser) -> None:
        next(count)
        parser.add_argument("--x")

    parser = Parser(fill=fill)
    assert next(count) == 0
    for _ in range(2):
        assert parser.parse_args(["--x", "1"]).x == "1"
    assert next(count) == 2


def test_options_are_not_abbreviated(cli):
    cli("queues", "list", "--colum", "name", code=2)


def test_no_command_drops_the_first_of_two_values_of_an_option(capsys):
    tried = 0
    for name, parser in parsers_of(build_parser(), ""):
        for action in parser._actions:
            names = action.option_strings
            if not names or action.nargs == 0 or isinstance(action, argparse._AppendAction):
                continue
            action.type, action.choices = None, None  # any value will do
            with pytest.raises(SystemExit):
                parser.parse_args([names[0], "1", names[-1], "2"])
            (line,) = capsys.readouterr().err.splitlines()
            said = f"error: argument {'/'.join(names)}: given twice; it takes one value; `"
            assert said in line, (name, line)
            tried += 1
    assert tried > 300


def test_an_option_may_be_given_again_to_the_next_command():
    parser = Parser()
    parser.add_argument("--x")
    for value in ("1", "2"):
        assert parser.parse_args(["--x", value]).x == value
