import io
import json
import os
import signal
import threading
from typing import ClassVar

import pytest
from prometheus_client.parser import text_string_to_metric_families

from leporid.spark.errors import OptionError
from leporid.spark.pipelines import runner
from leporid.spark.pipelines.runner import Progress, Run, Step, run


class Scripted:
    """A pipeline whose steps are listed: a Step, an exception, or something to call."""

    name = "scripted"
    interval_seconds = 0.0
    spark = None
    labels: ClassVar = {"stream": "orders", "vhost": "/", "target": 'a "b"'}

    def __init__(self, *steps):
        self.steps = list(steps)
        self.waits = 0

    def check(self):
        pass

    def describe(self):
        return ["would do this"]

    def step(self):
        step = self.steps.pop(0)
        if callable(step):
            step = step()
        if isinstance(step, Exception):
            raise step
        return step

    def wait(self, seconds):
        self.waits += 1


def test_once_goes_on_until_nothing_is_left():
    out = io.StringIO()
    pipeline = Scripted(Step(10, 5), Step(5, 0), Step(99, 0))
    progress = run(pipeline, Run(once=True, out=out))
    assert progress.rows == 15
    assert pipeline.steps == [Step(99, 0)]
    assert "scripted: 15 records  [████████████████████] 100 %" in out.getvalue()


def test_progress_counts_what_was_gone_through_to_find_little():
    out = io.StringIO()
    progress = Progress("replay", out)
    progress.add(Step(1, 75, passed=25))
    progress.add(Step(0, 50, passed=25))
    assert "replay: 1 records  [█████···············] 25 %" in out.getvalue()
    assert "50 %" in progress.line(Step(0, 50, passed=25))


def test_a_dry_run_does_nothing():
    out = io.StringIO()
    pipeline = Scripted()
    assert run(pipeline, Run(dry_run=True, out=out)).steps == 0
    assert out.getvalue() == "would do this\n"


def test_sigterm_lets_the_step_end_and_then_stops():
    def terminated():
        os.kill(os.getpid(), signal.SIGTERM)
        return Step(7, 100)

    before = signal.getsignal(signal.SIGTERM)
    progress = run(Scripted(terminated), Run(out=io.StringIO()))
    assert progress.rows == 7
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_second_signal_interrupts():
    def twice():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        return Step(7, 100)

    with pytest.raises(KeyboardInterrupt):
        run(Scripted(twice), Run(out=io.StringIO()))


def test_going_on_survives_a_failure_and_once_does_not(monkeypatch):
    monkeypatch.setattr(runner, "PAUSE_SECONDS_FIRST", 0.0)
    stop = threading.Event()

    def last():
        stop.set()
        return Step(1, 0)

    assert run(Scripted(OSError("away"), last), Run(out=io.StringIO()), stop).rows == 1
    with pytest.raises(OSError, match="away"):
        run(Scripted(OSError("away")), Run(once=True, out=io.StringIO()))


def test_it_gives_up_after_many_failures_in_a_row(monkeypatch):
    monkeypatch.setattr(runner, "PAUSE_SECONDS_FIRST", 0.0)
    failures = [OSError(str(number)) for number in range(runner.FAILURES_MAX)]
    with pytest.raises(OSError, match=str(runner.FAILURES_MAX - 1)):
        run(Scripted(*failures), Run(out=io.StringIO()))


def test_of_an_error_in_java_its_own_line_is_told():
    error = RuntimeError("An error occurred while calling o51.load.\n: a.b.C: no such format\n\tat")
    assert runner.first(error) == "a.b.C: no such format"
    assert runner.first(RuntimeError("one\ntwo")) == "one"


def test_what_is_asked_for_wrongly_is_not_tried_again():
    pipeline = Scripted(OptionError("no such thing"), Step(1, 0))
    with pytest.raises(OptionError):
        run(pipeline, Run(out=io.StringIO()))
    assert len(pipeline.steps) == 1


def test_when_nothing_is_left_it_waits_for_more():
    stop = threading.Event()

    def last():
        stop.set()
        return Step(0, 0)

    pipeline = Scripted(Step(3, 0), last)
    run(pipeline, Run(out=io.StringIO()), stop)
    assert pipeline.waits == 1


def test_metrics_are_a_file_for_prometheus(tmp_path):
    target = tmp_path / "pipeline.prom"
    steps = Step(3, 4, put_aside=2), Step(4, 0)
    run(Scripted(*steps), Run(once=True, metrics=target, out=io.StringIO()))
    found = {family.name: family for family in text_string_to_metric_families(target.read_text())}
    values = {name: family.samples[0].value for name, family in found.items()}
    assert values["leporid_pipeline_records"] == 7
    assert values["leporid_pipeline_put_aside_records"] == 2
    assert values["leporid_pipeline_steps"] == 2
    assert values["leporid_pipeline_lag_records"] == 0
    assert set(values) >= {
        "leporid_pipeline_step_seconds",
        "leporid_pipeline_last_step_timestamp_seconds",
    }
    assert values["leporid_pipeline_running"] == 0
    assert values["leporid_pipeline_exit_code"] == 0
    for family in found.values():
        assert family.documentation
        assert family.samples[0].labels == {"pipeline": "scripted", **Scripted.labels}


def test_the_status_tells_of_steps_that_are_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "PAUSE_SECONDS_FIRST", 0.0)
    path, seen, stop = tmp_path / "status.json", [], threading.Event()

    def look():
        seen.append(json.loads(path.read_text()))
        return Step(2, 0)

    def last():
        seen.append(json.loads(path.read_text()))
        stop.set()
        return Step(0, 0)

    pipeline = Scripted(OSError("away\nat Java"), look, last)
    run(pipeline, Run(out=io.StringIO(), status=path, name="mine"), stop)
    retrying, running = seen
    assert (retrying["state"], retrying["error"], retrying["failures"]) == ("retrying", "away", 1)
    assert (running["state"], running["error"], running["records"]) == ("running", "", 2)
    end = json.loads(path.read_text())
    assert (end["state"], end["exit_code"], end["name"]) == ("stopped", 0, "mine")


def test_on_a_terminal_the_line_is_rewritten():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    out = Terminal()
    progress = Progress("p", out, iter([0.0, 1.0, 2.0]).__next__)
    progress.add(Step(50, 50, "note"))
    progress.add(Step(50, 0))
    progress.close()
    first, second = out.getvalue().split("\r")[1:]
    assert first == "p: 50 records  [██████████··········] 50 %  50/s  lag 50  note"
    assert second.rstrip(" \n") == "p: 100 records  [████████████████████] 100 %  50/s  lag 0"
    assert len(second) > len(first)
