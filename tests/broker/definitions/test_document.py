"""Documents of definitions: the JSON is read one definition at a time, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.broker.definitions import document as module
from leporid.broker.definitions.document import (
    NOUNS,
    Document,
    DocumentError,
    DocumentTooLarge,
    reading,
)
from leporid.broker.registry import finished


def read(data: bytes | str) -> Document:
    return finished(reading(data.encode() if isinstance(data, str) else data))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ITEMS = st.lists(st.dictionaries(st.text(), VALUES, max_size=4), max_size=5)
DOCUMENTS = st.dictionaries(st.sampled_from(NOUNS), ITEMS) | st.dictionaries(
    st.text().filter(lambda name: name not in NOUNS), VALUES, max_size=3
)


@given(DOCUMENTS, st.sampled_from([None, 1]), st.booleans(), st.integers(1, 9))
def test_a_document_is_what_json_says(
    value: dict[str, Any], indent: int | None, ascii_only: bool, window: int
):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    data = text.encode("utf-8", "surrogatepass")
    if b"\xed" in data:
        data = json.dumps(value, indent=indent).encode()
    before, module._WINDOW_BYTES = module._WINDOW_BYTES, window  # type: ignore[misc]
    try:
        found = read(data)
    finally:
        module._WINDOW_BYTES = before  # type: ignore[misc]
    assert found.items | found.facts == value


@pytest.mark.parametrize("text", ["", "  \n", "{}", "\ufeff{ }"])
def test_nothing_defines_nothing(text: str):
    assert read(text) == Document()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "'{' was expected, at character 0"),
        ('{"queues": 7}', "queues is not a list, at character 11"),
        ('{"queues": [7]}', r"queues\[0\] is not an object"),
        ('{"queues": [{}}', "',' or ']' was expected"),
        ('{"queues": [{}', "',' or ']' was expected"),
        ('{"queues": [{},]}', "Expecting value"),
        ('{"a": 1} x', "something follows the document"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": [-1e400]}', "the number -1e400 is too large"),
        ("{7: 1}", "a member's name was expected"),
        ("nope", "'{' was expected"),
        ('{"a": "', "Unterminated string"),
        ('{"a": ' + "[" * 5000, "too deep|Expecting value"),
    ],
)
def test_what_is_no_document_is_refused_with_its_place(text: str, reason: str):
    with pytest.raises(DocumentError, match=reason):
        read(text)


def test_what_is_no_text_is_refused():
    with pytest.raises(DocumentError, match="it is not UTF-8"):
        read(b'{"a": "\xff"}')


@pytest.mark.parametrize(
    ("name", "most", "limit"),
    [
        ("BYTES_MAX", 30, "definitions_bytes"),
        ("ITEMS_MAX", 2, "definitions_items"),
        ("VALUES_MAX", 2, "definitions_values"),
        ("ITEM_CHARACTERS_MAX", 8, "definitions_item_characters"),
    ],
)
def test_limits(monkeypatch: pytest.MonkeyPatch, name: str, most: int, limit: str):
    text = '{"queues": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}'
    assert len(read(text).items["queues"]) == 3
    monkeypatch.setattr(module, name, most)
    with pytest.raises(DocumentTooLarge) as caught:
        read(text)
    assert (caught.value.limit, caught.value.value) == (limit, most)


def test_a_step_reads_one_definition():
    text = json.dumps({"queues": [{"name": str(count)} for count in range(50)]}).encode()
    assert sum(1 for _ in reading(text)) >= 50
