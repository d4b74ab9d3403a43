"""Patterns: binding keys of topics, LIKE, and the regular expressions of permissions and policies.

An input begins with what it is, then lines:

    t   patterns of a topic exchange, each followed by what is asked: `=` key; `-` takes one away
    l   the pattern of a LIKE, its escape character, then texts
    r   a regular expression, then names

The refusals are `ValueError` for a LIKE and `PatternError` for a regular expression. The engine's
answer must be that of the few lines here which follow the specification to the letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fuzz.drawing import NAMES, WORDS, Drawing

from leporid.amqp.constants import SHORTSTR_BYTES_MAX
from leporid.amqp.properties import Properties, encode_properties
from leporid.broker.access.permissions import Pattern, PatternError
from leporid.broker.policy.policies import Policies, PolicyError, make_policy
from leporid.broker.queue.queue_types import CLASSIC
from leporid.engine.routing.patterns import Patterns
from leporid.engine.selectors.selector import Selector
from leporid.filters import like
from leporid.filters.compiler import compile_tree
from leporid.filters.dialects import Dialect
from leporid.filters.limits import PATTERN_BYTES_MAX
from leporid.filters.nodes import Header, Like

PATTERNS_MAX: Final = 64


def one(data: bytes) -> None:
    """Ask patterns about texts."""
    lines = data[1:].split(b"\n")
    if data[:1] == b"t":
        _topics(lines)
    elif data[:1] == b"l" and len(lines) > 2:
        _like(_text(lines[0]), _text(lines[1])[:1] or None, lines[2:])
    elif data[:1] == b"r":
        _regular(_text(lines[0]), [_text(each) for each in lines[1:]])


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


# ------------------------------------------------------------------ topics


def _topics(lines: list[bytes]) -> None:
    patterns = Patterns()
    there: dict[str, None] = {}
    for line in lines[:PATTERNS_MAX]:
        text = _text(line[:SHORTSTR_BYTES_MAX])
        if text.startswith("="):
            key = text[1:]
            expected = [each for each in there if _fits(each.split("."), key)]
            assert sorted(patterns.match(key)) == sorted(expected), (key, expected)
        elif text.startswith("-"):
            if text[1:] in there:
                del there[text[1:]]
                patterns.remove(text[1:], text[1:])
        elif text not in there:
            there[text] = None
            patterns.add(text, text)
    for text in there:
        patterns.remove(text, text)
    assert patterns.node_count == patterns.word_count == 0


def _fits(pattern: list[str], key: str) -> bool:
    """RabbitMQ's reading: which beginnings of the key fit. The empty text has no words."""
    words = key.split(".") if key else []
    reached = {0}
    for word in pattern if pattern != [""] else []:
        if word == "#":
            reached = set(range(min(reached), len(words) + 1)) if reached else reached
        else:
            reached = {at + 1 for at in reached if at < len(words) and word in ("*", words[at])}
    return len(words) in reached


# ------------------------------------------------------------------ LIKE


def _like(pattern: str, escape: str | None, texts: list[bytes]) -> None:
    if "\udc80" <= max(pattern, default="") <= "\udcff":
        return  # an expression is UTF-8
    try:
        symbols = like.symbols_of(pattern, escape)
    except ValueError:
        return
    if like.byte_count(symbols) > PATTERN_BYTES_MAX:
        return
    tree = Like(Header("a"), pattern, escape)
    filter_ = Selector(compile_tree(tree, Dialect.JMS).code)
    for text in texts:
        headers = b"\1aS" + len(text).to_bytes(4, "big") + text
        properties = b"\x20\0" + len(headers).to_bytes(4, "big") + headers
        assert filter_.matches_message("", "", properties) == like.matches(symbols, text)
        work = filter_.work(b"\0\0", properties)
        assert work <= 16 + 4 * (len(text) + 1), "a byte costs more than four machine words"


# ------------------------------------------------------------------ regular expressions


def _regular(text: str, names: list[str]) -> None:
    try:
        pattern = Pattern(text)
        policy = make_policy("p", text, {"max-length": 1})
    except (PatternError, PolicyError) as error:
        assert str(error)
        return
    policies = Policies([policy])
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            continue  # names are UTF-8
        governed = policies.of_queue(name, CLASSIC).policy
        if text:
            assert (governed is not None) == pattern.matches(name)


def seeds() -> Iterator[bytes]:
    """Patterns as they are used."""
    keys = ["a.b.c", "", ".", "a..b", "*.b", "#", "#.#", "a.#.c", "*.*.*", "a.*.#.c", "a#.*b"]
    yield (
        "t" + "\n".join([*keys, *("=" + key for key in keys), *("-" + key for key in keys)])
    ).encode()
    yield ("t" + "\n".join([f"w{n}.*.#.x{n}" for n in range(30)] + ["=w1.a.x1"])).encode()
    for pattern in ("a%_b", "%", "_", "%a%b%c%", "a!%b", "é_é", "", "%%__%"):
        yield f"l{pattern}\n!\nab\naxxb\na%b\néxé\n\n".encode() + b"\xff\x80\x80"
    for pattern in ("^q$", "", ".*", "(a|b)+c{2,3}", "[^a-z]", "(?i)x", "\\bq\\b", "(", "a{1000}"):
        yield ("r" + "\n".join([pattern, *NAMES, *WORDS[:4]])).encode()
    yield encode_properties(Properties())


def mutate(data: bytes, drawing: Drawing) -> bytes:
    """Change an input by whole lines."""
    lines = data.split(b"\n")
    at = drawing.below(len(lines) + 1)
    words = [
        drawing.one_of(("a", "b", "*", "#", "", "x1", "%", "_")) for _ in range(drawing.below(8))
    ]
    made = ("." if data[:1] == b"t" else "").join(words).encode()
    match drawing.below(4):
        case 0:
            lines[at:at] = [made]
        case 1:
            lines[at:at] = [b"=" + made]
        case 2:
            lines[at:at] = [drawing.one_of((b"-", b"=")) + drawing.one_of(lines)]
        case _:
            del lines[at : at + 1]
    return b"\n".join(lines)
