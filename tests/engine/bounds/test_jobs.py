"""Work that goes on for many turns."""

from collections.abc import Generator, Iterator
from itertools import count

import pytest

from leporid.engine.bounds.jobs import AWAITS
from leporid.engine.engine import Engine

MS = 1_000_000


@pytest.fixture
def engine() -> Engine:
    return Engine()


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
    assert len(engine.jobs.waiting) > 40


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
