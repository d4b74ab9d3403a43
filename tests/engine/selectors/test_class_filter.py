"""A filter whose last word a filter class has."""

from __future__ import annotations

import pytest
from tests.engine import frames

from leporid.engine.selectors.class_filter import ClassFilter
from leporid.engine.selectors.tags import Tags


@pytest.mark.parametrize(("first", "passes"), [(None, True), (Tags([b"a"]), False)])
def test_what_the_filter_beside_the_class_lets_pass_may_be_judged(first, passes):
    wanted = ClassFilter("C", first)
    assert wanted.name == "C"
    with_tag = frames.properties(headers=frames.table(**{"x-tag": frames.longstr("a")}))
    assert wanted.matches_message("", "q", with_tag)
    assert wanted.matches_message("", "q", frames.properties()) is passes
