import pytest
from tests.broker.exchange.types.bindings import binding, message, queues

from leporid.broker.exchange.types.topic import TopicRouter

KEYS = ["", ".", "a", "a.", ".a", "a.b", "a..b", "..", "*", "#", "a.b.c", "a.b.c.d", "b.a"]
NOT_EMPTY = [key for key in KEYS if key]

# Each pattern, and which of KEYS a RabbitMQ 3.10.8 routed through it.
SEEN = {
    "": [""],
    "a": ["a"],
    "*": ["a", "*", "#"],
    "#": KEYS,
    "..": [".."],
    # Empty words are words.
    "*.*": [".", "a.", ".a", "a.b", "b.a"],
    "*.": [".", "a."],
    ".*": [".", ".a"],
    ".#": [".", ".a", ".."],
    "#.": [".", "a.", ".."],
    "#..#": [".", "a.", ".a", "a..b", ".."],
    # Wildcards side by side.
    "#.#": KEYS,
    "#.#.#": KEYS,
    "#.*": NOT_EMPTY,
    "*.#": NOT_EMPTY,
    "#.*.#": NOT_EMPTY,
    "*.#.*": [key for key in NOT_EMPTY if "." in key],
    # Wildcards and words.
    "a.*": ["a.", "a.b"],
    "a.#": ["a", "a.", "a.b", "a..b", "a.b.c", "a.b.c.d"],
    "#.a": ["a", ".a", "b.a"],
    "a.#.b": ["a.b", "a..b"],
    "#.a.#": ["a", "a.", ".a", "a.b", "a..b", "a.b.c", "a.b.c.d", "b.a"],
    # Within a word they are ordinary characters.
    "a*": [],
    "a#": [],
    "#a.b": [],
}


@pytest.mark.parametrize("pattern", SEEN)
def test_matches_what_rabbitmq_matches(pattern: str):
    router = TopicRouter()
    router.add(binding(pattern))
    assert [key for key in KEYS if queues(router, key)] == SEEN[pattern]


def test_many_patterns_in_one_trie_do_not_disturb_each_other():
    router = TopicRouter()
    for pattern in SEEN:
        router.add(binding(pattern, queue=pattern))
    for key in KEYS:
        met = queues(router, key)
        assert sorted(met) == sorted(pattern for pattern in SEEN if key in SEEN[pattern])


def test_a_binding_is_met_once_however_many_ways_lead_to_it():
    router = TopicRouter()
    router.add(binding("#.a.#.a.#"))
    router.add(binding("#.#", queue="r"))
    assert sorted(queues(router, "a.a.a.a")) == ["q", "r"]


def test_one_queue_may_be_bound_several_times():
    router = TopicRouter()
    plain, other = binding("a.#"), binding("a.#", {"n": 1})
    router.add(plain)
    router.add(other)
    assert list(router.match(message("a.b"))) == [plain, other]
    router.remove(plain)
    assert list(router.match(message("a.b"))) == [other]


def test_a_key_without_wildcards_concerns_only_itself():
    router = TopicRouter()
    assert router.only_key("a.b") == "a.b"
    assert router.only_key("a*.b#") == "a*.b#"
    assert router.only_key("") == ""
    assert router.only_key("a.*") is router.only_key("#") is router.only_key("#.a") is None


def test_bindings_that_come_and_go_leave_the_others():
    router = TopicRouter()
    router.add(binding("stays.here"))
    router.add(binding("stays.here.and.there"))
    for number in range(100):
        router.add(binding(f"stays.{number}.*.#.x"))
        assert queues(router, f"stays.{number}.y.x") == ["q"]
        router.remove(binding(f"stays.{number}.*.#.x"))
        assert queues(router, f"stays.{number}.y.x") == []
    router.remove(binding("stays.here.and.there"))
    assert queues(router, "stays.here") == ["q"]
    assert queues(router, "stays.here.and.there") == []


# With backtracking this would take longer than the universe has been there.
@pytest.mark.parametrize("wildcards", [".".join(["#"] * 128), ".".join(["#", "*"] * 60)])
def test_many_wildcards_do_not_explode(wildcards: str):
    router = TopicRouter()
    router.add(binding(wildcards))
    router.add(binding(wildcards + ".end", queue="never"))
    assert queues(router, ".".join(["a"] * 128)) == ["q"]


def test_many_wildcards_between_words_do_not_explode():
    router = TopicRouter()
    router.add(binding(".".join(["#", "a"] * 60) + ".#.b"))
    assert queues(router, ".".join(["a"] * 128)) == []
    assert queues(router, ".".join(["a"] * 127 + ["b"])) == ["q"]


def test_of_several_keys_each_binding_is_met_once():
    router = TopicRouter()
    both, one = binding("#"), binding("a.*")
    router.add(both)
    router.add(one)
    assert list(router.match(message("b", "a.b"))) == [both, one]


def costly(number: int) -> str:
    """One of 2,048 patterns, the most of which can only be told from a key at the end."""
    words = ["a" if number >> bit & 1 else "*" for bit in range(11)]
    return ".".join([*words * 5, "#", str(number)])


def steps_to_match(router: TopicRouter, *keys: str) -> tuple[int, set[str]]:
    """How many steps there are, and the queues that are met."""
    steps = router.matching(message(*keys))
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, {each.destination for each in end.value}
        count += 1


def test_a_message_is_matched_in_steps_by_the_work_there_is():
    """A key that was compared with 20,000 patterns of 60 words took 37 ms, and there may be many
    keys."""
    router = TopicRouter()
    for number in range(2000):
        router.add(binding(costly(number), queue=f"{number}"))
    keys = [".".join(["a"] * 60 + [f"{number}"]) for number in range(40)]
    one = steps_to_match(router, keys[7])
    assert one[1] == {"7"}
    assert one[0] > 2
    count, met = steps_to_match(router, *keys)
    assert count > 30 * one[0]
    assert met == {f"{number}" for number in range(40)}


def test_patterns_may_come_and_go_while_a_message_is_matched():
    router = TopicRouter()
    for number in range(2000):
        router.add(binding(costly(number), queue=f"other {number}"))
    router.add(binding(costly(2001) + ".#", queue="there"))
    steps = router.matching(message(".".join(["a"] * 60 + ["2001"])))
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            met = [each.destination for each in end.value]
            break
        # What is looked at later is divided, united and removed.
        router.remove(binding(costly(1999 - count), queue=f"other {1999 - count}"))
        router.add(binding(costly(count) + ".new", queue="new"))
        count += 1
    assert count > 2
    assert met == ["there"]
