"""Brokers that are forked from a process with their code: no test notices that."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.preloaded import Forked, Preloaded

from leporid.spark.session import with_package
from leporid.testing import BrokerError, BrokerProcess
from leporid.testing.process import COMMAND_VARIABLE, default_command

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(COMMAND_VARIABLE in os.environ, reason="another build is tested"),
]


@pytest.fixture(scope="module")
def preloaded() -> Iterator[Preloaded]:
    made = Preloaded(default_command()[0])
    yield made
    made.close()


@pytest.fixture
def broker(
    preloaded: Preloaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BrokerProcess]:
    monkeypatch.setattr(BrokerProcess, "launch", preloaded)
    monkeypatch.setenv("LEPORID_LOG_FORMAT", "json")
    monkeypatch.chdir(tmp_path)
    made = BrokerProcess(tmp_path / "data")
    yield made
    made.close()


def test_it_has_the_environment_the_directory_and_streams_of_its_own(broker: BrokerProcess):
    broker.start()
    assert isinstance(broker._process, Forked)
    place = Path(f"/proc/{broker.pid}")
    assert (place / "cwd").readlink() == broker.data_dir.parent
    assert (place / "fd/0").readlink() == Path(os.devnull)
    assert (place / "fd/2").readlink() == broker.log_path
    assert broker.log_tail().startswith("{")
    # No pipe and no socket of the tests, but for its standard output.
    ours = {each.readlink() for each in Path("/proc/self/fd").iterdir() if each.exists()}
    theirs = {each.readlink() for each in (place / "fd").iterdir() if int(each.name) > 2}
    assert not {each for each in ours & theirs if each.name.startswith(("pipe:", "socket:"))}


def test_its_exit_code_and_the_signal_that_ended_it_are_known(broker: BrokerProcess):
    broker.start()
    assert broker.stop() == 0
    broker.start()
    process = broker._process
    assert isinstance(process, Forked)
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    broker.kill()
    assert process.poll() == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_two_of_them_end_apart(broker: BrokerProcess, tmp_path: Path):
    with broker, BrokerProcess(tmp_path / "other") as other:
        assert other.stop() == 0
        assert broker.stop() == 0


def test_a_data_directory_is_checked_by_one_of_them(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
):
    broker.start()
    assert broker.stop() == 0
    monkeypatch.setattr(subprocess, "Popen", None)
    code, said = broker.check()
    assert (code, said.rpartition(" ")[2]) == (0, "whole\n"), said
    (broker.data_dir / "log" / "foreign").write_bytes(b"")
    code, said = broker.check()
    assert code == 1
    assert "foreign is no segment of the log" in said


def test_one_that_does_not_start_says_why(preloaded: Preloaded, broker: BrokerProcess):
    wrong = BrokerProcess(broker.data_dir, options=["--nonsense"])
    with pytest.raises(BrokerError, match=r"ended with code 2(.|\n)*--nonsense"):
        wrong.start()


def test_what_an_interpreter_reads_at_its_start_has_the_executable_run(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    with broker:
        assert isinstance(broker._process, subprocess.Popen)
        assert b"leporid\0serve\0" in Path(f"/proc/{broker.pid}/cmdline").read_bytes()
        assert broker.stop() == 0


def test_what_the_package_sets_for_itself_leaves_it_forked(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "system")
    kinds: list[type] = []
    for path in (os.environ.get("PYTHONPATH", ""), "/else"):
        monkeypatch.setenv("PYTHONPATH", with_package(path))
        with broker:
            kinds.append(type(broker._process))
    assert kinds == [Forked, subprocess.Popen]
