"""Counts of questions to filters."""

from leporid.engine.selectors.filter_counters import FilterCounters


def test_what_is_noted_adds_up():
    questions = FilterCounters()
    questions.note(10, 4, 2, 1)
    questions.note(1, 1, 0, 1)
    assert (questions.asked, questions.evaluated) == (11, 5)
    assert (questions.matched, questions.type_errors) == (2, 2)
    assert repr(questions) == "<FilterCounters asked=11 evaluated=5 matched=2 type_errors=2>"
