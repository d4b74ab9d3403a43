"""`leporid completion bash|zsh|fish`: what a shell asks to complete a word, and the answer to it.

Responsible for the scripts, which ask `leporid completion words`, and for the candidates: commands,
verbs, options, and names of objects, for which the broker is asked. Must not know any noun.

Invariant: whatever goes wrong, a shell gets no candidates and no message; a broker that does not
answer is waited for no longer than `SECONDS`.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
from collections.abc import Mapping, Sequence
from typing import Final

from leporid.cli import contexts
from leporid.cli.command import Command, Kind, Noun, Parser, Single, Verb, argument, fill_command
from leporid.cli.outcomes import Failure
from leporid.cli.output import Output
from leporid.cli.session import Session
from leporid.client.management import Management

SECONDS: Final = 2.0
NAMES_MAX: Final = 500
# Options that say where names come from; each has a value.
WHERE: Final = (
    "--context", "--url", "--user", "--password-file", "--password-env", "--ca-file", "--vhost",
    "-p",
)  # fmt: skip

BASH: Final = """\
_leporid() {
    local IFS=$'\\n'
    COMPREPLY=($(leporid completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _leporid leporid
"""
ZSH: Final = """\
#compdef leporid
_leporid() {
    local -a found
    found=(${(f)"$(leporid completion words -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#found )); then
        compadd -a found
    else
        _files
    fi
}
if [ "$funcstack[1]" = "_leporid" ]; then
    _leporid
else
    compdef _leporid leporid
fi
"""
# Without candidates, a word may be the name of a file.
FISH: Final = """\
function __leporid_complete
    set -l before (commandline -opc)[2..-1]
    set -l found (leporid completion words -- $before (commandline -ct) 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c leporid -f -a '(__leporid_complete)'
"""
SCRIPTS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def candidates(
    words: Sequence[str], commands: Mapping[str, Command], environment: Mapping[str, str]
) -> list[str]:
    """Return what the last of these words may be.

    Args:
        words: behind `leporid`; the last one is being typed, and may be empty.
        commands: all that there are.
        environment: the process's.
    """
    *before, prefix = words or [""]
    if not before:
        return _begins(commands, prefix)
    command = commands.get(before[0])
    if command is None:
        return []
    found = command.load()
    if isinstance(found, Noun) and len(before) == 1:
        return _begins([verb.name for verb in found.verbs], prefix)
    parser = Parser(prog="leporid", add_help=True)
    fill_command(command, parser)
    verb = found.verb if isinstance(found, Single) else None
    rest = before[1:]
    if isinstance(found, Noun):
        verb = next((one for one in found.verbs if one.name == before[1]), None)
        if verb is None:
            return []
        parser, rest = _parser_of(parser, verb.name), before[2:]
    if prefix.startswith("-"):
        return _begins(parser._option_string_actions, prefix)
    if choices := _choices(parser, rest):
        return _begins(choices, prefix)
    if verb is not None and verb.completes and not _positionals(rest, parser):
        return _names(commands[verb.completes], rest, prefix, environment)
    return []


def _begins(words: Sequence[str] | Mapping[str, object], prefix: str) -> list[str]:
    return sorted(word for word in words if word.startswith(prefix))


def _parser_of(parser: Parser, verb: str) -> Parser:
    """Return the filled parser of a verb."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found = action.choices[verb]
            assert isinstance(found, Parser)
            return found.filled()
    raise AssertionError(verb)


def _choices(parser: Parser, rest: Sequence[str]) -> list[str]:
    """Return what the value of the option in front may be."""
    action = parser._option_string_actions.get(rest[-1]) if rest else None
    return [str(one) for one in action.choices] if action and action.choices else []


def _positionals(rest: Sequence[str], parser: Parser) -> int:
    """Count the words that are no options, nor values of options."""
    count, value = 0, False
    for word in rest:
        action = parser._option_string_actions.get(word)
        if value:
            value = False
        elif action is not None:
            value = action.nargs is None or action.nargs != 0
        else:
            count += 1
    return count + value


def _names(
    command: Command, rest: Sequence[str], prefix: str, environment: Mapping[str, str]
) -> list[str]:
    """Ask the broker for names that begin like this."""
    noun = command.load()
    assert isinstance(noun, Noun)
    listing = noun.verb("list")
    given = ["list", "--quiet", *_where(rest, listing)]
    if prefix:
        given += ["--name", prefix]
    parser = Parser(prog="leporid")
    fill_command(command, parser)
    stream = io.StringIO()
    try:
        options = parser.parse_args(given)
        session = Session(options, environment, Output(quiet=True, stream=stream, terminal=False))
        if listing.broker:
            address = contexts.address_of(session.context, environment)
            session.api = Management(dataclasses.replace(address, seconds=SECONDS))
        try:
            listing.run(session, options)
        finally:
            session.close()
    except (Failure, SystemExit):
        return []
    return _begins(stream.getvalue().splitlines(), prefix)[:NAMES_MAX]


def _where(rest: Sequence[str], listing: Verb) -> list[str]:
    """Return the options that say which broker and virtual host, as far as a list takes them."""
    found = []
    for at, word in enumerate(rest[:-1]):
        within = word in ("--vhost", "-p")
        if word in WHERE and (listing.vhost if within else listing.broker):
            found += [word, rest[at + 1]]
    return found


def _words(session: Session, options: argparse.Namespace) -> None:
    from leporid.cli.main import COMMANDS

    for each in candidates(options.words, COMMANDS, session.environment):
        print(each)


def _script(session: Session, options: argparse.Namespace) -> None:
    print(SCRIPTS[options.verb], end="")


NOUN: Final = Noun(
    "completion",
    (
        *(
            Verb(shell, f"print what {shell} needs", _script, kind=Kind.PLAIN, broker=False)
            for shell in SCRIPTS
        ),
        Verb(
            "words",
            "print what the last word may be; for shells",
            _words,
            (argument("words", nargs="*", metavar="WORD"),),
            Kind.PLAIN,
            broker=False,
        ),
    ),
    about='Have a shell complete commands, options and names: eval "$(leporid completion bash)" in '
    "its start-up file, or put what is printed where it looks for completions.",
)
