import pytest

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.exchange.types.strict_keys import check_pattern, check_plain_key


@pytest.mark.parametrize("key", ["", "a", "A_1.b2", "a.", ".a", "a..b", "_", "0"])
def test_letters_digits_underscores_and_dots_are_allowed_everywhere(key: str):
    check_plain_key(key)
    check_pattern(key)


@pytest.mark.parametrize("key", ["a b", "a-b", "a/b", "é", "a\n", "a.b:c", "日本"])
def test_other_characters_are_refused_everywhere(key: str):
    with pytest.raises(PreconditionFailed) as refused:
        check_plain_key(key)
    assert refused.value.text == (
        "PRECONDITION_FAILED - x-strict-keys allows only letters, digits, underscores and dots: "
        f"'{key}'"
    )
    with pytest.raises(PreconditionFailed, match="only letters, digits, underscores, dots and wil"):
        check_pattern(key)


@pytest.mark.parametrize("key", ["*", "#", "a.*", "a*", "#.#"])
def test_wildcards_are_refused_where_there_are_no_patterns(key: str):
    with pytest.raises(PreconditionFailed) as refused:
        check_plain_key(key)
    assert refused.value.text == (
        "PRECONDITION_FAILED - x-strict-keys allows no wildcards in a key that is not a pattern: "
        f"'{key}'"
    )


@pytest.mark.parametrize("key", ["*", "#", "*.*", "a.*.b.#", "#.a.#", "*.*.*", "*.a.*", "#.a.*"])
def test_wildcards_are_whole_words(key: str):
    check_pattern(key)


@pytest.mark.parametrize("key", ["a*", "*a", "#a.b", "a.b#", "**", "##", "*#"])
def test_wildcards_as_part_of_a_word_are_refused(key: str):
    with pytest.raises(PreconditionFailed) as refused:
        check_pattern(key)
    assert refused.value.text == (
        f"PRECONDITION_FAILED - x-strict-keys allows wildcards only as whole words: '{key}'"
    )


@pytest.mark.parametrize(
    ("key", "pair"),
    [("#.#", "#.#"), ("#.*", "#.*"), ("*.#", "*.#"), ("a.*.*.#", "*.#"), ("a.#.#.b", "#.#")],
)
def test_ambiguous_neighbours_are_refused(key: str, pair: str):
    with pytest.raises(PreconditionFailed) as refused:
        check_pattern(key)
    assert refused.value.text == (
        f"PRECONDITION_FAILED - x-strict-keys allows no '{pair}' side by side: '{key}'"
    )


def test_the_reason_survives_a_key_of_the_greatest_length():
    with pytest.raises(PreconditionFailed, match="only letters") as refused:
        check_plain_key("-" * 255)
    assert len(refused.value.text.encode()) <= 255
