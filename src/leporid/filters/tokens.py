"""From text to words, and the limits that are checked before anything is parsed.

Must not know the grammar. Invariant: what leaves here is at most `TOKENS_MAX` words that are each
whole, nested at most `NESTING_MAX` deep.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Final

import lark
from lark.exceptions import UnexpectedCharacters
from lark.lexer import Token

from leporid.filters.dialects import KEYWORDS, Dialect
from leporid.filters.errors import FilterError, quoted
from leporid.filters.limits import CHARACTERS_MAX, NESTING_MAX, TOKENS_MAX

_TERMINALS: Final = r"""
    NAME: /(?:[^\W\d]|\$)[\w$]*(?:\.(?:[^\W\d]|\$)[\w$]*)*/
    QUOTED.3: /"(?:[^"]|"")*"(?!")/
    STRING.3: /'(?:[^']|'')*'(?!')/
    HEX.4: /0[xX][0-9a-fA-F]+[lL]?(?![\w$.])/
    FLOAT.3: /(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)(?![\w$.])/
    INTEGER.3: /[0-9]+[lL]?(?![\w$.])/
    EQUAL.2: "="
    UNEQUAL.3: "<>"
    UNEQUAL_C.3: "!="
    LESS.2: "<"
    LESS_OR_EQUAL.3: "<="
    GREATER.2: ">"
    GREATER_OR_EQUAL.3: ">="
    PLUS: "+"
    MINUS: "-"
    STAR: "*"
    SLASH: "/"
    PERCENT: "%"
    OPEN: "("
    CLOSE: ")"
    COMMA: ","
    SPACE: /[ \t\r\n\f]+/
    COMMENT.5: /--[^\r\n]*|\/\*(?:[^*]|\*(?!\/))*\*\//
    WRONG_COMMENT.4: /\/\*/
    WRONG_STRING.2: /'/
    WRONG_QUOTED.2: /"/
    WRONG_NUMBER.2: /\.?[0-9][\w$.]*/
    WRONG_EQUAL.4: /==/
    WRONG_AND.4: /&&/
    WRONG_OR.4: /\|\|/
    %ignore SPACE
    %ignore COMMENT
"""

# What each wrong word is, and what to write instead.
_WRONG: Final = {
    "WRONG_COMMENT": "the comment is not closed: */ is missing",
    "WRONG_STRING": "the text is not closed: ' is missing; within a text, ' is written twice",
    "WRONG_QUOTED": 'the name is not closed: " is missing; texts are in single quotes',
    "WRONG_NUMBER": "this is not a number",
    "WRONG_EQUAL": "write = for equal",
    "WRONG_AND": "write AND",
    "WRONG_OR": "write OR",
}

_PREFIXES: Final = frozenset({"NOT", "PLUS", "MINUS"})


@cache
def _lexer() -> lark.Lark:
    """A lexer of its own, since a grammar forgets the words that it never uses: all the wrong ones.

    Made for the first expression of a process; `prepare` in `parser` has it made sooner.
    """
    start = """
    start: (NAME | QUOTED | STRING | HEX | FLOAT | INTEGER | EQUAL | UNEQUAL | UNEQUAL_C | LESS
        | LESS_OR_EQUAL | GREATER | GREATER_OR_EQUAL | PLUS | MINUS | STAR | SLASH | PERCENT | OPEN
        | CLOSE | COMMA | WRONG_COMMENT | WRONG_STRING | WRONG_QUOTED | WRONG_NUMBER | WRONG_EQUAL
        | WRONG_AND | WRONG_OR)*
    """
    return lark.Lark(start + _TERMINALS, parser="lalr", lexer="basic")


def tokenize(text: str, dialect: Dialect) -> list[Token]:
    """Return the words of an expression; what a word is, is its `type`.

    Raises:
        FilterError: it is too long, too deep, or has something in it that is no word.
    """
    if len(text) > CHARACTERS_MAX:
        raise FilterError(
            f"the expression has {len(text)} characters; at most {CHARACTERS_MAX}",
            text,
            CHARACTERS_MAX,
        )
    _check_encodable(text)
    tokens: list[Token] = []
    try:
        for token in _lexer().lex(text):
            if token.type in _WRONG:
                raise FilterError(_wrong(token), text, _start(token))
            if len(tokens) == TOKENS_MAX:
                raise FilterError(
                    f"the expression has more than {TOKENS_MAX} words", text, _start(token)
                )
            # Beyond ASCII, capitals are not as simple: that of the dotless ı is I.
            if token.type == "NAME" and token.isascii() and token.upper() in KEYWORDS[dialect]:
                token.type = token.upper()
            tokens.append(token)
    except UnexpectedCharacters as error:
        position = error.pos_in_stream
        assert position is not None
        raise FilterError(_stranger(text[position]), text, position) from None
    _check_nesting(tokens, text)
    return tokens


def _check_encodable(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FilterError("this is not a character of Unicode", text, error.start) from None


def _check_nesting(tokens: list[Token], text: str) -> None:
    """Count parentheses, and the prefix operators that stand right before them or a value."""
    depth = prefixes = 0
    outside: list[int] = []
    for token in tokens:
        if token.type in _PREFIXES:
            prefixes += 1
        elif token.type == "OPEN":
            outside.append(depth)
            depth, prefixes = depth + prefixes + 1, 0
        else:
            prefixes = 0
            if token.type == "CLOSE" and outside:
                depth = outside.pop()
        if depth + prefixes > NESTING_MAX:
            raise FilterError(
                f"the expression is nested more than {NESTING_MAX} levels deep", text, _start(token)
            )


def _start(token: Token) -> int:
    assert token.start_pos is not None
    return token.start_pos


def _wrong(token: Token) -> str:
    if token.type == "WRONG_NUMBER":
        return f"{quoted(token)} is not a number, and a name cannot begin with a digit"
    return _WRONG[token.type]


def _stranger(character: str) -> str:
    if character.isprintable() and character != " ":
        return f"{character} has no meaning here"
    name = unicodedata.name(character, "a control character")
    return f"the character U+{ord(character):04X} ({name.lower()}) has no meaning here"
