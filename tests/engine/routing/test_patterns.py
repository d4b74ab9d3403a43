import itertools
import string
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid.engine.routing.patterns import WORDS_MAX, Patterns

# With the empty word, dots stand side by side, at the beginning and at the end.
PATTERN_WORDS = ["a", "b", "", "*", "#", "#a", "**"]
KEY_WORDS = ["a", "b", "", "c", "*", "#", "#a"]


def dotted(words: list[str], most: int) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(words), max_size=most).map(".".join)


def split(text: str) -> list[str]:
    return text.split(".") if text else []


def fits(pattern: str, key: str) -> bool:
    """What `*` and `#` mean, and nothing else: row by row, which beginnings of the key fit."""
    words = split(key)
    reached = {0}
    for word in split(pattern):
        if word == "#":
            reached = {end for start in reached for end in range(start, len(words) + 1)}
        else:
            reached = {at + 1 for at in reached if at < len(words) and word in ("*", words[at])}
    return len(words) in reached


def found(patterns: Patterns, key: str) -> list:
    """What the key matches, which is the same at once and by a search."""
    searched = sorted(patterns.match(key))
    at_once = patterns.match_at_once(key)
    if len(split(key)) > 63:
        assert at_once is None
    else:
        assert at_once is not None
        assert sorted(at_once) == searched
    return searched


def made_of(texts: list[str]) -> Patterns:
    patterns = Patterns()
    for text in dict.fromkeys(texts):
        patterns.add(text, text)
    return patterns


@given(st.lists(dotted(PATTERN_WORDS, 6), max_size=12), st.lists(dotted(KEY_WORDS, 7), max_size=8))
def test_matches_what_a_plain_matcher_matches(texts: list[str], keys: list[str]):
    patterns = made_of(texts)
    for key in keys:
        assert found(patterns, key) == sorted(text for text in set(texts) if fits(text, key))


# A few words more than 64, 128 and so on, so that sets of several integers meet words that the key
# has often and words that it has once.
@given(
    st.lists(dotted([*PATTERN_WORDS, "x", "y"], 8), max_size=8),
    st.sampled_from([61, 62, 63, 64, 125, 126, 127, 128, 189, 254]),
    st.sampled_from(["a", "b", "x", ""]),
    dotted(["a", "b", "", "x", "y"], 4),
    dotted(["a", "b", "", "x", "y"], 4),
)
def test_long_keys(texts: list[str], count: int, filling: str, head: str, tail: str):
    patterns = made_of(texts)
    key = ".".join([head, *[filling] * count, tail])
    assert found(patterns, key) == sorted(text for text in set(texts) if fits(text, key))


@pytest.mark.parametrize("count", [62, 63, 64, 65, 127, 128, 129, 255, 256, 1000])
def test_each_word_of_a_long_key_is_told_from_its_neighbours(count: int):
    words = [f"w{number}" for number in range(count)]
    patterns = Patterns()
    for one, two in itertools.pairwise(words):
        patterns.add(f"#.{one}.{two}.#", one)
        patterns.add(f"#.{two}.{one}.#", "never")
    patterns.add(f"#.{words[-1]}", "last")
    patterns.add(f"#.{words[-1]}.*", "never")
    assert patterns.match(".".join(words)) == [*words[:-1], "last"]


@pytest.mark.slow
@settings(max_examples=200)
@given(st.data())
def test_patterns_that_come_and_go(data: st.DataObject):
    patterns = Patterns()
    model: dict[tuple[str, int], None] = {}
    for _ in range(data.draw(st.integers(1, 25))):
        if data.draw(st.booleans()) and model:
            gone = data.draw(st.sampled_from(sorted(model)))
            del model[gone]
            patterns.remove(gone[0], gone)
        else:
            new = (data.draw(dotted(PATTERN_WORDS, 4)), data.draw(st.integers(0, 1)))
            if new not in model:
                model[new] = None
                patterns.add(new[0], new)
        key = data.draw(dotted(KEY_WORDS, 5))
        assert found(patterns, key) == sorted(each for each in model if fits(each[0], key))
        assert patterns.node_count <= 2 * len(model)
    for each in model:
        patterns.remove(each[0], each)
    assert (patterns.node_count, patterns.word_count) == (0, 0)


@settings(max_examples=50)
@given(
    st.lists(dotted(["a", "b", "*", "#"], 5), min_size=1, max_size=8),
    st.lists(st.tuples(st.booleans(), dotted(["a", "b", "*", "#"], 5)), max_size=6),
)
def test_a_search_finds_what_stays_while_patterns_come_and_go(
    texts: list[str], changes: list[tuple[bool, str]]
):
    """Between any two steps; who was there all the time is found once, and nobody by mistake."""
    key = ".".join(["a"] * 64)
    # So many that a search has some ten steps, between which the tree is another one each time.
    crowd = [hostile(number, ("#.a", "a"), "#.a." * 64) for number in range(800)]
    patterns = made_of([*texts, *crowd])
    there, always = set(texts), set(texts)
    ever = set(texts)
    search = patterns.search(key)
    steps = 0
    while not search.advance():
        steps += 1
        comes, text = changes[steps % len(changes)] if changes else (True, "c")
        if comes and text not in there:
            patterns.add(text, text)
            there.add(text)
            ever.add(text)
        elif not comes and text in there:
            patterns.remove(text, text)
            there.remove(text)
            always.discard(text)
    found = [text for text in search.found if text not in crowd]
    assert steps >= len(changes)
    assert len(found) == len(set(found))
    assert {text for text in always if fits(text, key)} <= set(found)
    assert set(found) <= {text for text in ever if fits(text, key)}


def test_many_values_of_one_pattern_are_found_in_steps():
    patterns = Patterns()
    for number in range(40_000):
        patterns.add("x.*", number)
    search = patterns.search("x.y")
    steps = 0
    while not search.advance():
        if steps < 100:
            patterns.remove("x.*", steps)
        steps += 1
    assert steps
    assert set(range(steps, 40_000)) <= set(search.found)
    assert len(search.found) == len(set(search.found))
    for number in range(steps, 40_000):
        patterns.remove("x.*", number)
    assert (patterns.node_count, patterns.word_count) == (0, 0)


def test_a_step_is_short_however_many_patterns_there_are():
    patterns = made_of([hostile(number, ("*", "a"), "*.a." * 64) for number in range(2000)])
    search = patterns.search(".".join(["a"] * 128))
    steps = 1
    while not search.advance():
        steps += 1
    # Each has some 120 words, for each of which three integers are moved.
    assert steps > 20


def test_what_takes_long_is_not_found_at_once():
    patterns = made_of([hostile(number, ("*", "a"), "*.a." * 64) for number in range(2000)])
    key = ".".join(["a"] * 63)
    assert patterns.match_at_once(key) is None
    patterns = Patterns()
    for number in range(2000):
        patterns.add("x.*", number)
    assert patterns.match_at_once("x.y") is None
    assert patterns.match_at_once("y.y") == []


def test_nodes_go_with_what_needs_them():
    patterns = made_of(["a.b", "a.b.c.#"])
    assert (patterns.node_count, patterns.word_count) == (2, 3)
    patterns.add("a.x", "a.x")
    assert (patterns.node_count, patterns.word_count) == (4, 4)
    patterns.remove("a.b", "a.b")
    assert (patterns.node_count, patterns.word_count) == (3, 4)
    assert patterns.match("a.b") == []
    patterns.remove("a.x", "a.x")
    assert (patterns.node_count, patterns.word_count) == (1, 3)
    assert patterns.match("a.b.c") == ["a.b.c.#"]


def test_keys_leave_nothing_behind():
    patterns = made_of(["a.#"])
    for number in range(100):
        patterns.match(f"a.b{number}")
    assert patterns.word_count == 1


def test_spellings_of_one_pattern_share_a_node_and_are_told_apart():
    patterns = made_of(["#.*", "*.#", "#.*.#", "#.#.*"])
    assert patterns.node_count == 1
    assert patterns.match("a") == ["#.*", "*.#", "#.*.#", "#.#.*"]
    patterns.remove("*.#", "*.#")
    assert patterns.match("a.b") == ["#.*", "#.*.#", "#.#.*"]


def test_what_is_kept_under_one_pattern_comes_in_order():
    patterns = Patterns()
    for value in "cab":
        patterns.add("x.*", value)
    assert patterns.match("x.y") == ["c", "a", "b"]


def test_the_longest_patterns():
    # Each is the next one's beginning, so that the tree is as deep as it can be.
    texts = ["." * count for count in range(WORDS_MAX)]
    patterns = made_of(texts)
    assert patterns.node_count == WORDS_MAX - 1  # no text is one empty word
    for text in texts:
        assert patterns.match(text) == [text]
    with pytest.raises(ValueError, match="at most 256 words, not 257"):
        patterns.add("." * WORDS_MAX, "too long")
    assert patterns.match("." * WORDS_MAX) == []


def test_removing_what_is_not_there_is_a_defect():
    with pytest.raises(KeyError):
        Patterns().remove("a", "a")


# So many that twice each is too seldom for a mask: see `Walk`.
LETTERS = string.ascii_letters + "0123"


def hostile(number: int, choice: tuple[str, str], rest: str) -> str:
    """A pattern of 255 bytes or a little less that shares only its beginning with the others."""
    head = ".".join(choice[number >> bit & 1] for bit in range(14))
    return f"#.{head}.{rest}"[:254].rstrip(".*#") + ".#"


@pytest.mark.parametrize(
    ("choice", "rest", "key"),
    [
        pytest.param(("#.a", "a"), "#.a." * 64, ".".join(["a"] * 128), id="# between words"),
        pytest.param(("*", "a"), "*.a." * 64, ".".join(["a"] * 128), id="* between words"),
        pytest.param(("*", ""), "b" + "." * 255, "." * 120 + "b" + "." * 134, id="empty words"),
        pytest.param(
            ("*", "a"), ".".join(LETTERS * 2), ".".join("a" * 15 + LETTERS * 2), id="words"
        ),
    ],
)
def test_ten_thousand_patterns_of_255_bytes(choice: tuple[str, str], rest: str, key: str):
    patterns = made_of([hostile(number, choice, rest) for number in range(10_000)])
    assert patterns.node_count > 10_000
    begun = time.process_time()
    patterns.match(key)
    # It takes 10 to 25 ms. A set of nodes that takes the key word by word needs more than a minute,
    # one that backtracks has no end.
    assert time.process_time() - begun < 0.5
