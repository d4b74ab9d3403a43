"""Work that goes on for many turns."""

from collections.abc import Callable, Generator, Iterator
from itertools import count

import pytest
from tests.engine.session_fake import make_engine

from leporid.engine.bounds.clock import Party
from leporid.engine.bounds.jobs import AWAITS
from leporid.engine.engine import Engine

MS = 1_000_000


@pytest.fixture
def engine() -> Engine:
    return make_engine()


def steps(name: str, number: int, done: list[str]) -> Generator[None, None, str]:
    for at in range(number):
        done.append(f"{name}{at}")
        yield
    return name


def test_what_is_short_is_done_at_once(engine: Engine) -> None:
    done: list[str] = []
    values: list[str] = []
    job = engine.jobs.start(steps("a", 3, done), values.append)
    assert (done, values, job.ended) == (["a0", "a1", "a2"], ["a"], True)
    assert not engine.busy


def test_whoever_runs_turns_is_told_of_a_job_that_needs_another_one(engine: Engine) -> None:
    told: list[str] = []
    engine.jobs.on_left = lambda: told.append("left")
    engine.jobs.start(steps("a", 3, []))
    assert told == []
    engine.clock.monotonic_ns = count(0, MS).__next__
    engine.jobs.start(steps("b", 3, []))
    assert told == ["left"]
    assert engine.busy


def test_jobs_that_are_long_take_turns(engine: Engine) -> None:
    engine.clock.monotonic_ns = count(0, MS).__next__
    done: list[str] = []
    values: list[str] = []
    for name in "ab":
        engine.jobs.start(steps(name, 6, done), values.append)
    while engine.busy:
        engine.run()
    assert sorted(done) == sorted(f"{name}{at}" for name in "ab" for at in range(6))
    assert done.index("b0") < done.index("a3")
    assert done.index("a3") < done.index("b5")
    assert values == ["a", "b"]


def test_a_turn_ends_though_jobs_are_left(engine: Engine) -> None:
    engine.clock.monotonic_ns = count(0, MS).__next__
    done: list[str] = []
    for at in range(50):
        engine.jobs.start(steps(str(at), 4, done))
    before = len(done)
    engine.run()
    assert len(done) - before < 10
    assert engine.jobs.waiting > 40


def test_a_job_that_waits_for_another_one_gives_its_slice_away(engine: Engine) -> None:
    gone: list[bool] = []

    def until_gone() -> Iterator[object]:
        while not gone:
            yield AWAITS

    job = engine.jobs.start(until_gone())
    engine.run()
    assert not job.ended
    gone.append(True)
    engine.run()
    assert job.ended


def test_who_started_it_is_told_how_it_failed(engine: Engine) -> None:
    def failing() -> Iterator[None]:
        yield
        raise ValueError("no")

    errors: list[Exception] = []
    engine.jobs.start(failing(), None, errors.append)
    assert [str(error) for error in errors] == ["no"]


def test_a_defect_ends_one_job_and_no_other(engine: Engine) -> None:
    engine.clock.monotonic_ns = count(0, MS).__next__
    defects: list[Exception] = []
    done: list[str] = []
    engine.jobs.on_defect = defects.append

    def failing() -> Iterator[None]:
        yield
        yield
        raise ValueError("no")

    engine.jobs.start(failing())
    engine.jobs.start(steps("a", 3, done))
    while engine.busy:
        engine.run()
    assert len(defects) == 1
    assert done == ["a0", "a1", "a2"]


class Starting:
    """A session that starts a job as soon as there is input."""

    def __init__(self, start: Callable[[], object]) -> None:
        self.on_greeting = start


def start_as(engine: Engine, party: Party, steps: Iterator[object], ended: list[object]) -> None:
    """Start a job as a method of a party's connection does."""
    session = Starting(lambda: engine.jobs.start(steps, ended.append))
    connection = engine.connection(session)  # type: ignore[arg-type]
    connection.party = party
    connection.feed(b"AMQP\0\0\x09\x01")


def test_jobs_of_one_party_keep_another_one_from_nothing(engine: Engine) -> None:
    engine.clock.monotonic_ns = count(0, MS // 10).__next__
    many, one = Party(), Party()
    ended: list[object] = []
    for at in range(200):
        start_as(engine, many, steps(f"many{at}", 30, []), ended)
    start_as(engine, one, steps("one", 30, []), ended)
    turns = 0
    while "one" not in ended:
        engine.run()
        turns += 1
    assert turns < 30
    assert len(ended) < 20


def turns_until_one(engine: Engine, parties: list[Party], one: Party) -> int:
    """How many turns a job of one party takes, beside one of each of many."""
    engine.clock.monotonic_ns = count(0, MS // 10).__next__
    ended: list[object] = []
    for at, party in enumerate(parties):
        start_as(engine, party, steps(f"many{at}", 300, []), ended)
    start_as(engine, one, steps("one", 300, []), ended)
    turns = 0
    while "one" not in ended:
        engine.run()
        turns += 1
    return turns


def test_parties_of_one_group_keep_another_one_from_no_more_than_one_of_them(
    engine: Engine,
) -> None:
    """Who has many addresses is one peer, as far as users are concerned."""
    group = Party()
    beside_one = turns_until_one(Engine(), [Party()], Party())
    beside_many = turns_until_one(engine, [Party(group) for _ in range(100)], Party())
    assert beside_many <= 2 * beside_one


def test_parties_of_one_group_have_one_part_of_the_input_together(engine: Engine) -> None:
    engine.clock.monotonic_ns = count(0, MS // 10).__next__
    group = Party()
    engine.run()
    while engine.clock.has_slice(Party(group)):
        start_as(engine, Party(group), steps("one of many", 300, []), [])
    assert not engine.clock.stage_is_over
    assert not engine.clock.has_slice(Party(group))
    assert not engine.clock.has_slice(group)
    assert engine.clock.has_slice(Party())
    assert engine.clock.has_slice(None)


def test_parties_of_one_group_take_turns(engine: Engine) -> None:
    group = Party()
    alone = turns_until_one(Engine(), [], Party())
    many = [Party(group)] * 200
    assert turns_until_one(engine, many, Party(group)) <= 4 * alone


def test_jobs_of_a_party_keep_the_broker_from_nothing_that_it_starts_after_them(
    engine: Engine,
) -> None:
    engine.clock.monotonic_ns = count(0, MS // 10).__next__
    party = Party()
    ended: list[object] = []
    for at in range(200):
        start_as(engine, party, steps(f"many{at}", 30, []), ended)
    engine.jobs.start(steps("own", 30, []), ended.append)
    turns = 0
    while "own" not in ended:
        engine.run()
        turns += 1
    assert turns < 30


def test_a_party_alone_has_all_its_jobs_done(engine: Engine) -> None:
    engine.clock.monotonic_ns = count(0, MS // 10).__next__
    party = Party()
    ended: list[object] = []
    for at in range(20):
        start_as(engine, party, steps(str(at), 10, []), ended)
    while engine.busy:
        engine.run()
    assert len(ended) == 20
