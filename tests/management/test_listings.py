"""Long lists as JSON: the same text as in one go, a bounded piece in each turn."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import JSONResponse

from leporid.broker.access.remote_rights import RemoteRights, RightQuery, decided
from leporid.engine.engine import Engine
from leporid.management.answer_turns import AnswerTurns
from leporid.management.listings import (
    PIECE_ITEMS,
    SENT_BYTES,
    Listing,
    Written,
    draining,
    in_order,
    texts_of,
)

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def lazily(value: Any) -> Any:
    """The same, with an iterator in place of each list that nothing else would be made of."""
    if isinstance(value, list):
        return iter([lazily(each) for each in value])
    if isinstance(value, dict):
        return {name: lazily(each) for name, each in value.items()}
    return value


def without_none(value: Any) -> Any:
    if isinstance(value, list):
        return [without_none(each) for each in value if each is not None]
    if isinstance(value, dict):
        return {name: without_none(each) for name, each in value.items()}
    return value


@given(PLAIN)
def test_the_text_is_that_of_a_response_in_one_go(value: Any):
    plain = without_none(value)
    assert "".join(texts_of(lazily(value))).encode() == JSONResponse(plain).body


@pytest.mark.parametrize("wrong", [object(), {"a": {1}}, [b"x"], {"a": iter([1, {"b": b"x"}])}])
def test_what_is_no_json_is_an_error(wrong: Any):
    with pytest.raises(TypeError, match=r"object|set|list|bytes"):
        list(texts_of(iter([1, wrong])))


def test_what_is_written_already_stands_as_it_is():
    value = {"a": iter([1]), "b": Written(iter(["", "[", "2", "]"])), "c": {"d": iter("x")}}
    assert "".join(texts_of(value)) == '{"a":[1],"b":[2],"c":{"d":["x"]}}'


@given(st.lists(st.integers() | st.none(), max_size=3000), st.booleans())
def test_sorting_in_runs_is_sorting(items: list[int | None], downwards: bool):
    def key(item: int) -> int:
        return -item if downwards else item

    found = [item for item in in_order(items, key) if item is not None]
    assert found == sorted((item for item in items if item is not None), key=key)


async def sent(listing: Listing, gone: asyncio.Event | None = None) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    await listing({"state": {"gone": gone or asyncio.Event()}}, None, send)
    return messages


def body_of(messages: list[dict[str, Any]]) -> bytes:
    assert [each["more_body"] for each in messages[1:]] == [True] * (len(messages) - 2) + [False]
    return b"".join(each["body"] for each in messages[1:])


async def test_a_short_answer_says_its_length_and_ends_with_the_end_of_a_line():
    head, body = await sent(Listing(AnswerTurns(), "ann", {"a": iter([1, 2])}))
    assert body["body"] == b'{"a":[1,2]}\n'
    assert (b"content-length", b"12") in head["headers"]


async def test_a_turn_makes_a_bounded_number_of_items():
    made: list[int] = []
    rounds: list[int] = []

    def items() -> Iterator[int]:
        for number in range(10 * PIECE_ITEMS):
            made.append(number)
            yield number

    async def watch() -> None:
        while True:
            rounds.append(len(made))
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    messages = await sent(Listing(AnswerTurns(), "ann", items(), lambda: 0.0))
    watching.cancel()
    assert json.loads(body_of(messages)) == made
    assert max(b - a for a, b in itertools.pairwise(rounds)) <= PIECE_ITEMS
    # What these turns make is little, and sent in one go.
    assert len(messages) == 2
    assert (b"content-length", b"%d" % len(body_of(messages))) in messages[0]["headers"]


async def test_a_long_answer_is_sent_while_it_is_made():
    text = "x" * 100
    messages = await sent(Listing(AnswerTurns(), "ann", iter([text] * 3000), lambda: 0.0))
    assert json.loads(body_of(messages)) == [text] * 3000
    assert not any(name == b"content-length" for name, _ in messages[0]["headers"])
    sizes = [len(message["body"]) for message in messages[1:]]
    assert all(SENT_BYTES <= size < SENT_BYTES + PIECE_ITEMS * 110 for size in sizes[:-1])
    assert len(sizes) > 2


async def test_a_turn_ends_when_its_time_is_over():
    clock = iter(range(1000))
    messages = await sent(Listing(AnswerTurns(), "ann", iter(range(5)), lambda: next(clock)))
    assert body_of(messages) == b"[0,1,2,3,4]\n"
    assert len(messages) > 5


async def test_items_that_are_nothing_take_turns_too(monkeypatch: pytest.MonkeyPatch):
    turns, taken = AnswerTurns(), []
    next_turn = turns.next

    async def counting(key: object) -> None:
        taken.append(key)
        await next_turn(key)

    monkeypatch.setattr(turns, "next", counting)
    items = iter([None] * 3 * PIECE_ITEMS)
    messages = await sent(Listing(turns, "ann", items, lambda: 0.0))
    assert body_of(messages) == b"[]\n"
    assert len(taken) >= 3


async def test_an_answer_whose_client_is_gone_is_not_made_any_further():
    gone, ended = asyncio.Event(), []

    def items() -> Iterator[int]:
        yield from range(PIECE_ITEMS)
        gone.set()
        yield from range(PIECE_ITEMS)
        raise AssertionError("nobody reads it")

    listing = Listing(AnswerTurns(), "ann", items(), lambda: 0.0, lambda: ended.append(True))
    messages = await sent(listing, gone)
    assert messages[-1]["more_body"]
    assert ended == [True]


async def test_the_end_is_told_when_the_answer_fails():
    ended = []

    def items() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError

    listing = Listing(AnswerTurns(), "ann", items(), ended=lambda: ended.append(True))
    with pytest.raises(ZeroDivisionError):
        await sent(listing)
    assert ended == [True]


def test_a_list_is_empty_when_it_was_gone_through():
    run = [1, 2, 3]
    left = draining(run)
    assert next(left) == 1
    assert len(run) == 2
    assert list(left) == [2, 3]
    assert run == []


async def test_a_right_in_a_list_is_waited_for():
    told: list[Callable[[bool | None], None]] = []
    rights = RemoteRights(
        lambda query, answered: told.append(answered),
        lambda: 60.0,
        lambda: 0.0,
        lambda: None,
        Engine().jobs,
    )

    def may(name: str) -> bool:
        return rights.grants(RightQuery("queue", "/", name, "read"))

    def rows() -> Iterator[object]:
        for name in ("b", "c", "a"):
            yield name if (yield from decided(partial(may, name))) else None

    listing = Listing(AnswerTurns(), "key", {"names": in_order(rows()), "more": 1})
    sent: list[bytes] = []

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    sending = asyncio.create_task(listing({}, None, send))
    for granted in (True, False, True):
        while not told:
            await asyncio.sleep(0)
        told.pop()(granted)
    await sending
    assert json.loads(b"".join(sent)) == {"names": ["a", "b"], "more": 1}
