"""The grammars of the two dialects, and the parser that follows them.

From words to a tree of words; what it means is made of it by `building`. Must not know values,
messages or limits. Invariant: parsing takes time proportional to the number of words (LALR), and
no recursion.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import lark
from lark.exceptions import UnexpectedToken
from lark.lexer import Token

from leporid.filters.dialects import KEYWORDS, Dialect
from leporid.filters.errors import FilterError, quoted

Tree = lark.Tree[Token]

_JMS: Final = """
    ?start: either
    ?either: both | either OR both
    ?both: negation | both AND negation
    ?negation: comparison | NOT negation -> negation
    ?comparison: sum
        | sum _order sum -> comparison
        | sum BETWEEN sum AND sum -> between
        | sum NOT BETWEEN sum AND sum -> between
        | sum IN OPEN item (COMMA item)* CLOSE -> within
        | sum NOT IN OPEN item (COMMA item)* CLOSE -> within
        | sum LIKE STRING -> like
        | sum NOT LIKE STRING -> like
        | sum LIKE STRING ESCAPE STRING -> like
        | sum NOT LIKE STRING ESCAPE STRING -> like
        | sum (CONTAINS | STARTSWITH | ENDSWITH) STRING -> search
        | sum NOT (CONTAINS | STARTSWITH | ENDSWITH) STRING -> search
        | sum IS NULL -> is_null
        | sum IS NOT NULL -> is_null
    _order: EQUAL | UNEQUAL | UNEQUAL_C | LESS | LESS_OR_EQUAL | GREATER | GREATER_OR_EQUAL
    ?sum: product | sum (PLUS | MINUS) product -> arithmetic
    ?product: sign | product (STAR | SLASH | PERCENT) sign -> arithmetic
    ?sign: value | (PLUS | MINUS) sign -> sign
    ?value: literal | name | OPEN either CLOSE -> parentheses
    item: STRING | number | (PLUS | MINUS) number
    literal: STRING | TRUE | FALSE | number
    ?number: INTEGER | FLOAT | HEX
    name: NAME | QUOTED
"""

_ROCKETMQ: Final = """
    ?start: either
    ?either: both | either OR both
    ?both: equality | both AND equality
    ?equality: comparison
        | equality (EQUAL | UNEQUAL) comparison -> comparison
        | equality IS NULL -> is_null
        | equality IS NOT NULL -> is_null
    ?comparison: unary
        | comparison (LESS | LESS_OR_EQUAL | GREATER | GREATER_OR_EQUAL) unary -> comparison
        | comparison BETWEEN unary AND unary -> between
        | comparison NOT BETWEEN unary AND unary -> between
        | comparison IN OPEN item (COMMA item)* CLOSE -> within
        | comparison NOT IN OPEN item (COMMA item)* CLOSE -> within
        | comparison (CONTAINS | STARTSWITH | ENDSWITH) STRING -> search
        | comparison NOT (CONTAINS | STARTSWITH | ENDSWITH) STRING -> search
    ?unary: value | NOT unary -> negation | (PLUS | MINUS) unary -> sign
    ?value: literal | name | OPEN either CLOSE -> parentheses
    item: STRING
    literal: STRING | TRUE | FALSE | NULL | INTEGER | FLOAT
    name: NAME | QUOTED
"""

_WORDS: Final = (
    "NAME QUOTED STRING HEX FLOAT INTEGER EQUAL UNEQUAL UNEQUAL_C LESS LESS_OR_EQUAL GREATER "
    "GREATER_OR_EQUAL PLUS MINUS STAR SLASH PERCENT OPEN CLOSE COMMA"
)


_GRAMMARS: Final = {Dialect.JMS: _JMS, Dialect.ROCKETMQ: _ROCKETMQ}


@cache
def _parser(dialect: Dialect) -> lark.Lark:
    """Made for the first expression of a process; `prepare` in `parser` has it made sooner."""
    declared = f"%declare {_WORDS} {' '.join(sorted(KEYWORDS[dialect]))}\n"
    # The words come from `tokens`, which has counted them.
    return lark.Lark(_GRAMMARS[dialect] + declared, parser="lalr", lexer="basic")


# Words that may go on where a value may begin, and where one has ended.
_VALUE: Final = frozenset({"NAME", "STRING", "OPEN"})
_SIGNS: Final = {
    "CLOSE": ")",
    "COMMA": ",",
    "OPEN": "(",
    "STRING": "a text in single quotes",
    "EQUAL": "=",
    "LESS": "<",
}

_JMS_ONLY: Final = {
    "UNEQUAL_C": "the dialect rocketmq has <>, not !=",
    "STAR": "the dialect rocketmq has no arithmetic",
    "SLASH": "the dialect rocketmq has no arithmetic",
    "PERCENT": "the dialect rocketmq has no arithmetic",
    "PLUS": "the dialect rocketmq has no arithmetic",
    "MINUS": "the dialect rocketmq has no arithmetic; names with hyphens are in double quotes",
    "HEX": "the dialect rocketmq has no hexadecimal numbers",
}


def parse_tokens(tokens: list[Token], text: str, dialect: Dialect) -> Tree | Token:
    """Put words together.

    Raises:
        FilterError: they are no expression of that dialect.
    """
    if not tokens:
        raise FilterError("the expression is empty", text, 0)
    parser = _parser(dialect).parse_interactive()
    read = 0
    try:
        for token in tokens:
            parser.feed_token(token)
            read += 1
        tree: Tree | Token = parser.feed_eof(tokens[-1])  # type: ignore[no-untyped-call]
    except UnexpectedToken as error:
        accepted = _accepted_after(tokens[:read], dialect)
        raise _refusal(error.token, accepted, text, dialect) from None
    return tree


def _accepted_after(tokens: list[Token], dialect: Dialect) -> set[str]:
    """What may follow; the parser that failed knows less, since it went on as far as it could."""
    parser = _parser(dialect).parse_interactive()
    for token in tokens:
        parser.feed_token(token)
    return set(parser.accepts())  # type: ignore[no-untyped-call]


def _refusal(token: Token, accepted: set[str], text: str, dialect: Dialect) -> FilterError:
    end = token.type == "$END"
    position = len(text) if end else token.start_pos
    assert position is not None
    hint = None if end else _hint(token, accepted, dialect)
    if hint is None:
        found = "the expression ends here" if end else f"unexpected {quoted(token)}"
        hint = f"{found}; expected {_expected(accepted)}"
    return FilterError(hint, text, position)


def _hint(token: Token, accepted: set[str], dialect: Dialect) -> str | None:
    """A better text for what is a mistake often."""
    if dialect is Dialect.ROCKETMQ:
        if token.type in _JMS_ONLY:
            return _JMS_ONLY[token.type]
        if token.type == "NAME" and token.upper() in ("LIKE", "ESCAPE"):
            return "the dialect rocketmq has no LIKE, but CONTAINS, STARTSWITH and ENDSWITH"
        if accepted == {"STRING"} and token.type in ("INTEGER", "FLOAT"):
            return f"expected a text in single quotes: '{quoted(token)}'"
    elif token.type == "NULL" and "NAME" in accepted:
        return "nothing is equal to NULL: write IS NULL or IS NOT NULL"
    if token.type == "QUOTED" and "STRING" in accepted:
        return "a text is in single quotes; double quotes are for names"
    if token.type in KEYWORDS[dialect] and "NAME" in accepted:
        return f'{quoted(token)} is a keyword; a header of that name is "{quoted(token)}"'
    return None


def _expected(accepted: set[str]) -> str:
    """What may stand there, in a few words."""
    names: list[str] = []
    if accepted >= _VALUE:
        names.append("a value or a condition" if "NOT" in accepted else "a value")
        accepted = accepted - _VALUE - {"TRUE", "FALSE", "NULL", "NOT", "PLUS", "MINUS"}
        accepted -= {"QUOTED", "INTEGER", "FLOAT", "HEX"}
    if {"INTEGER", "STRING"} <= accepted:
        names.append("a text or a number")
        accepted = accepted - {"STRING", "INTEGER", "FLOAT", "HEX", "PLUS", "MINUS"}
    if {"INTEGER"} <= accepted:
        names.append("a number")
        accepted = accepted - {"INTEGER", "FLOAT", "HEX"}
    if "EQUAL" in accepted or "LESS" in accepted:
        names.append("a comparison")
        accepted = accepted & {"AND", "OR", "CLOSE", "$END"}
    elif "PLUS" in accepted:
        names.append("an operator")
        accepted = accepted & {"AND", "OR", "CLOSE", "$END"}
    names += ["the end" if word == "$END" else _SIGNS.get(word, word) for word in sorted(accepted)]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
