"""What every filter has in common, by the one that lets everything pass; filters made of others."""

from __future__ import annotations

from threading import Thread

import pytest
from tests.engine import frames
from tests.engine.disk_fake import Disk
from tests.engine.frames import publish
from tests.engine.session_fake import Peer, make_engine
from tests.engine.stream_world import World

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value
from leporid.engine.selectors.filter import ClassFilter, Conjunction, Filter, FilterCounters
from leporid.engine.selectors.selector import Selector
from leporid.engine.selectors.tags import Tags
from leporid.engine.stream.stream import Stream
from leporid.filters.compiler import program

EMPTY = encode_properties(Properties())


@pytest.fixture
def stream() -> Stream:
    """A hundred messages whose header n counts them, every tenth with tag A."""
    engine, disk = make_engine(), Disk()
    disk.attach(engine)
    stream: Stream = engine.stream(1, "s")
    stream.set_retention(segment_bytes=4096)
    peer = Peer(engine, {"s": stream})
    for number in range(100):
        headers: dict[str, Value] = {"n": number}
        if number % 10 == 0:
            headers["x-tag"] = "A"
        raw = encode_properties(Properties(headers=headers, delivery_mode=2))
        peer.feed(publish(1, "s", bytes(100), raw=raw))
    disk.sync(engine)
    engine.run()
    return stream


def test_everything_passes_where_nothing_is_asked_for():
    assert Filter().outcome("exchange", "key", EMPTY) == 1
    assert Filter().matches_message("", "", b"what is this")


def test_names_that_no_message_has_are_refused():
    with pytest.raises(ValueError, match="longer than 255 bytes"):
        Filter().outcome("é" * 128, "", EMPTY)
    with pytest.raises(ValueError, match="longer than 255 bytes"):
        Filter().outcome("", "é" * 128, EMPTY)


def test_counts_what_passes_of_a_window(stream):
    with stream.window(0, 100, 100, 1 << 20) as window:
        assert Filter().count_in(window) == 100
        assert Tags([b"A"]).count_in(window) == 10
        assert Selector(program("n >= 90").code).count_in(window) == 10
        assert Selector(program("routing_key = 's'").code).count_in(window) == 100
    with stream.window(5, 16, 100, 1 << 20) as window:
        assert Tags([b"A"]).count_in(window) == 1


def test_counts_messages_and_no_facts_between_them():
    world = World()
    for number in range(3000):
        world.send(b"%d" % number)
        if number % 97 == 0:
            world.sync()
    world.sync()
    with world.stream.window(0, 3000, 3000, 1 << 20) as window:
        assert window.rows == 3000
        assert Filter().count_in(window) == 3000


def test_type_errors_are_counted_on_any_thread(stream):
    selector = Selector(program("n > 'a'").code)
    assert selector.type_errors == 0
    with stream.window(0, 100, 100, 1 << 20) as window:
        threads = [Thread(target=selector.count_in, args=(window,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert selector.type_errors == 400


def test_a_window_of_nothing_has_nothing_that_passes():
    world = World()
    with world.stream.window(0, 0, 1, 1) as window:
        assert Filter().count_in(window) == 0


# ------------------------------------------------------------------ two filters as one


def encoded(**headers: Value) -> bytes:
    return encode_properties(Properties(headers=headers))


def selector(text: str) -> Selector:
    return Selector(program(text).code)


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({"x-tag": "late", "n": 5}, True),
        ({"x-tag": "late", "n": 4}, False),
        ({"x-tag": "early", "n": 5}, False),
        ({}, False),
    ],
)
def test_both_must_let_a_message_pass(headers, passes):
    both = Conjunction(Tags([b"late"]), selector("n > 4"))
    assert both.matches_message("", "", encoded(**headers)) is passes


def test_one_of_them_may_be_two_again():
    three = Conjunction(Conjunction(selector("a = 1"), selector("b = 2")), selector("c = 3"))
    assert three.matches_message("", "", encoded(a=1, b=2, c=3))
    for missing in "abc":
        headers: dict[str, Value] = {"a": 1, "b": 2, "c": 3}
        del headers[missing]
        assert not three.matches_message("", "", encoded(**headers))


def test_type_errors_are_counted_by_both():
    first, second = Tags([b"x"]), selector("n > 5")
    both = Conjunction(first, second)
    assert both.outcome("", "", encoded(**{"x-tag": "x", "n": "text"})) == -1
    # The second is not asked about what the first does not let pass.
    assert both.outcome("", "", encoded(**{"x-tag": "y", "n": "text"})) == 0
    assert (both.type_errors, first.type_errors, second.type_errors) == (1, 0, 1)


def test_it_takes_filters_only():
    with pytest.raises(TypeError):
        Conjunction(None, Filter())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Conjunction(Filter(), None)  # type: ignore[arg-type]


# ------------------------------------------------------------------ beside a filter class


@pytest.mark.parametrize(("first", "passes"), [(None, True), (Tags([b"a"]), False)])
def test_what_the_filter_beside_the_class_lets_pass_may_be_judged(first, passes):
    wanted = ClassFilter("C", first)
    assert wanted.name == "C"
    with_tag = frames.properties(headers=frames.table(**{"x-tag": frames.longstr("a")}))
    assert wanted.matches_message("", "q", with_tag)
    assert wanted.matches_message("", "q", frames.properties()) is passes


# ------------------------------------------------------------------ counters


def test_what_is_noted_adds_up():
    questions = FilterCounters()
    questions.note(10, 4, 2, 1)
    questions.note(1, 1, 0, 1)
    assert (questions.asked, questions.evaluated) == (11, 5)
    assert (questions.matched, questions.type_errors) == (2, 2)
    assert repr(questions) == "<FilterCounters asked=11 evaluated=5 matched=2 type_errors=2>"
