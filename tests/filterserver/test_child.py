"""The loop of the process, in this one; `test_host` starts real ones."""

import io
import re

import pytest
from tests.filterserver.asked import GREATER, judging, numbers

from leporid.filterserver import frames
from leporid.filterserver.child import WrongAnswerError, load, serve, verdicts


def answers(*requests: bytes) -> list[tuple[int, bytes]]:
    """What the process says to these frames."""
    said = io.BytesIO()
    serve(io.BytesIO(b"".join(requests)), said, 60)
    said.seek(0)
    found: list[tuple[int, bytes]] = []
    while head := said.read(frames.ANSWER_HEAD.size):
        kind, size, number = frames.ANSWER_HEAD.unpack(head)
        assert number == len(found)
        found.append((kind, said.read(size)))
    return found


def payload(batch: bytes) -> bytes:
    return batch[frames.HEAD.size :]


def test_loads_and_judges():
    found = answers(frames.load_frame("Filter", GREATER), numbers(7, 5, 6), numbers(1))
    assert found == [
        (frames.READY, b""),
        (frames.VERDICTS, b"\1\0\1"),
        (frames.VERDICTS, b"\0"),
    ]


def test_a_filter_may_judge_whole_batches():
    judge = load(
        "Even",
        b"class Even:\n"
        b"    def match_batch(self, messages):\n"
        b"        return [each.headers['n'] % 2 == 0 for each in messages]\n",
    )
    assert verdicts(judge, payload(numbers(1, 2, 3, 4))) == b"\0\1\0\1"


def test_a_filter_keeps_what_it_remembers():
    judge = load(
        "Filter",
        b"class Filter:\n"
        b"    def __init__(self):\n"
        b"        self.seen = set()\n"
        b"    def match(self, message):\n"
        b"        new = message.headers['n'] not in self.seen\n"
        b"        self.seen.add(message.headers['n'])\n"
        b"        return new\n",
    )
    assert verdicts(judge, payload(numbers(1, 2, 1))) == b"\1\1\0"
    assert verdicts(judge, payload(numbers(2, 3))) == b"\0\1"


def test_a_source_may_use_dataclasses():
    judge = load(
        "Filter",
        b"from __future__ import annotations\n"
        b"from dataclasses import dataclass\n"
        b"@dataclass\n"
        b"class Filter:\n"
        b"    least: int = 2\n"
        b"    def match(self, message):\n"
        b"        return message.headers['n'] >= self.least\n",
    )
    assert verdicts(judge, payload(numbers(1, 2))) == b"\0\1"


@pytest.mark.parametrize("answer", ["1", "None", "'yes'", "message"])
def test_what_is_no_bool_is_no_verdict(answer):
    judge = load("Filter", judging(f"return {answer}"))
    with pytest.raises(WrongAnswerError, match=r"bool\(…\)"):
        verdicts(judge, payload(numbers(1)))


def test_of_another_class_called_bool_its_module_is_said():
    source = b"import collections\n" + judging("return collections.Counter()")
    found = answers(frames.load_frame("Filter", source), numbers(1))
    assert frames.error_text(found[1][1]) == (
        "a verdict is True or False, and this filter gave collections.Counter; bool(…) makes one"
    )


@pytest.mark.parametrize("answer", ["[]", "[True] * 3"])
def test_a_batch_has_as_many_verdicts_as_messages(answer):
    judge = load("Filter", f"class Filter:\n    def match_batch(self, m): return {answer}".encode())
    with pytest.raises(WrongAnswerError, match="for 2 messages"):
        verdicts(judge, payload(numbers(1, 2)))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (b"class Filter(\n", "SyntaxError"),
        (b"import nothing_of_that_name\n", "ModuleNotFoundError"),
        (b"raise SystemExit\n", "SystemExit"),
        (b"class Other: pass\n", "^there is no class Filter"),
        (b"class Filter: pass\n", "^Filter has neither a method match nor match_batch"),
        (b"class Filter:\n    async def match(self, m): return True\n", "^match .* async def"),
        (
            b"class Filter:\n    async def match_batch(self, m): return []\n",
            "^match_batch .* async",
        ),
        (b"class Filter:\n    def __init__(self, x): pass\n", "TypeError"),
        (b"\xff", "SyntaxError"),
    ],
)
def test_a_source_that_does_not_load_says_why(source, expected):
    [(kind, error)] = answers(frames.load_frame("Filter", source))
    assert kind == frames.FAILED
    assert re.search(expected, frames.error_text(error))


def test_an_exception_says_where_and_about_which_message():
    source = (
        b"class Filter:\n    def match(self, m):\n        return 1 / (m.headers['n'] - 3) > 0\n"
    )
    found = answers(frames.load_frame("Filter", source), numbers(4, 5, 3, 6))
    kind, raw = found[1]
    error = frames.error_text(raw)
    assert kind == frames.FAILED
    assert 'File "<filter class>", line 3, in match' in error
    assert "ZeroDivisionError" in error
    assert "message 2 of its batch" in error
    assert "child.py" not in error


def test_after_an_exception_others_are_judged():
    source = judging("return {1: True, 2: False}[message.headers['n']]")
    found = answers(frames.load_frame("Filter", source), numbers(3), numbers(1, 2))
    assert [kind for kind, _ in found] == [frames.READY, frames.FAILED, frames.VERDICTS]


@pytest.mark.parametrize("leaving", ["raise SystemExit", "raise KeyboardInterrupt"])
def test_leaving_is_no_answer(leaving):
    found = answers(frames.load_frame("Filter", judging(leaving)), numbers(1))
    assert found[1][0] == frames.FAILED


def test_of_a_long_error_the_end_is_said():
    source = judging("raise ValueError('a' * 1_000_000 + 'end')")
    found = answers(frames.load_frame("Filter", source), numbers(1))
    assert len(found[1][1]) == frames.ERROR_BYTES_MAX
    assert b"end\nIt was asked" in found[1][1]
