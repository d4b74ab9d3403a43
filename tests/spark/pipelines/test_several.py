import io
import json
import threading
from dataclasses import replace

from tests.spark.pipelines.test_runner import Scripted

from leporid.spark.errors import OptionError
from leporid.spark.pipelines import several
from leporid.spark.pipelines.places import place_of
from leporid.spark.pipelines.runner import Run, Step
from leporid.spark.pipelines.several import Job, Lines, run_all
from leporid.spark.pipelines.store import keep_settings


def jobs_of(tmp_path, out=None, **pipelines):
    lines = Lines(out or io.StringIO())
    return [
        Job(pipeline, Run(once, out=lines, status=tmp_path / f"{name}.json", name=name))
        for name, (pipeline, once) in pipelines.items()
    ]


def status(tmp_path, name):
    return json.loads((tmp_path / f"{name}.json").read_text())


def test_one_that_fails_ends_alone(tmp_path):
    out = io.StringIO()
    failing = Scripted(Step(3, 1), OSError("the disk is full\nmore"))
    wrong = Scripted(OptionError("no such thing"))
    fine = Scripted(Step(1, 1), Step(1, 0))
    jobs = jobs_of(tmp_path, out, failing=(failing, True), wrong=(wrong, True), fine=(fine, True))
    assert run_all(jobs) == {"failing": 1, "wrong": 2, "fine": 0}
    assert "fine: 2 records" in out.getvalue()
    found = status(tmp_path, "failing")
    assert (found["state"], found["exit_code"], found["error"], found["records"]) == (
        "failed", 1, "the disk is full", 3,
    )  # fmt: skip
    assert status(tmp_path, "wrong")["exit_code"] == 2
    assert status(tmp_path, "fine")["state"] == "done"


class Watched(threading.Event):
    """Tells that somebody waits for it."""

    def __init__(self):
        super().__init__()
        self.waited_for = threading.Event()

    def wait(self, timeout=None):
        self.waited_for.set()
        return super().wait(timeout)


def test_what_reads_an_archive_begins_when_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(several, "LOOK_SECONDS", 0.01)
    place = place_of(tmp_path / "archive")
    done: list[str] = []

    def ran(make, more, *, once):
        done.clear()
        stop = Watched()

        def made():
            # The reader waits, or has begun too early and does not come to wait.
            assert stop.waited_for.wait(10)
            return make()

        def read():
            done.append("read")
            if not once:
                stop.set()
            return Step(1, 0)

        reading, making = jobs_of(
            tmp_path,
            reading=(Scripted(read), once),
            making=(Scripted(made, lambda: more(stop)), once),
        )
        run_all([replace(reading, reads=place), replace(making, makes=place)], stop)
        return done

    def make():
        done.append("made")
        keep_settings(place, {"kind": "delta"})
        return Step(1, 1)

    # The archive goes on, and ends only after the other one has begun.
    assert ran(make, lambda stop: Step(int(threading.Event.wait(stop, 10)), 0), once=False) == [
        "made",
        "read",
    ]

    def more(_):
        done.append("more")
        return Step(1, 0)

    assert ran(make, more, once=True) == ["made", "more", "read"]


def test_a_signal_ends_all_of_them_after_their_steps(tmp_path):
    stop, under_way, may_end = threading.Event(), threading.Barrier(3), threading.Event()
    ended = []

    def step():
        under_way.wait(10)
        assert may_end.wait(10)
        ended.append(1)
        return Step(1, 5)

    def ask():
        under_way.wait(10)
        stop.set()
        may_end.set()

    asking = threading.Thread(target=ask)
    asking.start()
    pipelines = {name: (Scripted(step, Step(1, 0)), False) for name in ("a", "b")}
    assert run_all(jobs_of(tmp_path, **pipelines), stop) == {"a": 0, "b": 0}
    asking.join()
    assert len(ended) == 2
    for name in ("a", "b"):
        found = status(tmp_path, name)
        assert (found["state"], found["exit_code"], found["records"], found["lag"]) == (
            "stopped", 0, 1, 5,
        )  # fmt: skip


def test_lines_of_threads_are_no_terminal():
    out = io.StringIO()
    lines = Lines(out)
    assert not lines.isatty()
    lines.write("a\n")
    lines.flush()
    assert out.getvalue() == "a\n"
