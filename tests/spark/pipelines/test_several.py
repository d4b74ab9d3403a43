import io
import json
import threading

from tests.spark.pipelines.test_runner import Scripted

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.runner import Run, Step
from leporid.spark.pipelines.several import Job, Lines, run_all


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
