"""Members of a definition: taken as they should be, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from leporid.broker.definitions.members import (
    WrongDefinition,
    flag_in,
    name_in,
    object_in,
    table_in,
    tags_in,
    text_in,
)


def test_what_is_right():
    given = {"name": "n", "flag": True, "table": {"x": 1}, "tags": "a, b,a", "list": ["c,d"]}
    assert name_in(given) == "n"
    assert flag_in(given, "flag") is True
    assert flag_in(given, "other", False) is False
    assert table_in(given, "table") == {"x": 1}
    assert table_in({"arguments": []}) == table_in({}) == {}
    assert (tags_in(given), tags_in(given, "list"), tags_in({})) == (["a", "b"], ["c", "d"], [])
    assert object_in({"o": []}, "o") == object_in({}, "o") == {}
    assert text_in({}, "t", "default") == "default"


@pytest.mark.parametrize(
    ("read", "given", "reason"),
    [
        (lambda item: name_in(item), {}, "name is missing"),
        (lambda item: name_in(item), {"name": ""}, "name is empty"),
        (lambda item: name_in(item), {"name": 7}, "name should be a string"),
        (lambda item: name_in(item), {"name": "\ud800"}, "name should be Unicode text"),
        (lambda item: name_in(item), {"name": "x" * 300}, "name has 300 bytes; at most 255"),
        (lambda item: flag_in(item, "f"), {"f": "true"}, "f should be true or false"),
        (lambda item: table_in(item), {"arguments": {"x": 2**70}}, "arguments: "),
        (lambda item: object_in(item, "o"), {"o": 7}, "o should be an object"),
        (lambda item: tags_in(item), {"tags": 7}, "tags should be a list, or a string"),
        (lambda item: tags_in(item), {"tags": "a," * 99 + "b," + ",".join(map(str, range(70)))},
         "tags; at most 64 are allowed"),
    ],
)  # fmt: skip
def test_what_is_wrong(read: Callable[[Any], Any], given: Any, reason: str):
    with pytest.raises(WrongDefinition, match=reason):
        read(given)
