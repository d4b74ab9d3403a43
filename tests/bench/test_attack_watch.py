import subprocess
import sys

import pytest
from bench.attacks import watch
from bench.attacks.target import LEPORID, Target
from bench.attacks.watch import Watcher, status

WAITS = "import sys; print(flush=True); sys.stdin.read()"
GROWS = (
    "import sys; print(flush=True); held = b'a' * 50_000_000; print(flush=True); sys.stdin.read()"
)


@pytest.fixture
def child(request: pytest.FixtureRequest):
    process = subprocess.Popen(
        [sys.executable, "-c", request.param], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def target(pid: int | None, *, ours: bool = True) -> Target:
    return Target(kind=LEPORID, amqp=("127.0.0.1", 1), http=None, pid=pid, ours=ours)


@pytest.mark.parametrize("child", [GROWS], indirect=True)
def test_the_peak_is_of_what_was_seen_since_the_beginning(child: subprocess.Popen[bytes]):
    assert child.stdout is not None
    child.stdout.readline()
    watcher = Watcher(target(child.pid))
    watcher.begin()
    assert watcher.sample() == watcher.peak_bytes > 50_000_000
    assert watcher.resident_peak_bytes() >= watcher.peak_bytes


@pytest.mark.parametrize("child", [WAITS], indirect=True)
def test_a_process_that_ends_is_noticed(child: subprocess.Popen[bytes]):
    watcher = Watcher(target(child.pid))
    assert watcher.until(lambda: True, 10)
    child.kill()
    assert not watcher.until(lambda: False, 10)
    assert watcher.ended == "it ended"
    assert status(child.pid) is None  # dead, though nobody has waited for it yet


@pytest.mark.parametrize("child", [WAITS], indirect=True)
def test_a_broker_of_ours_is_ended_before_it_takes_the_machine(child: subprocess.Popen[bytes]):
    watcher = Watcher(target(child.pid), kill_bytes=1000)
    assert "ended by us" in watcher.ended
    assert child.wait(10) == -9


@pytest.mark.parametrize("child", [WAITS], indirect=True)
def test_a_broker_that_is_not_ours_is_never_ended(child: subprocess.Popen[bytes]):
    watcher = Watcher(target(child.pid, ours=False), kill_bytes=1000)
    assert watcher.ended
    assert child.poll() is None


@pytest.mark.parametrize("child", [WAITS], indirect=True)
def test_a_machine_without_memory_ends_the_broker(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(watch, "machine_free_bytes", lambda: 0)
    assert Watcher(target(child.pid)).ended
    assert child.wait(10) == -9


def test_a_process_that_is_not_known_is_not_watched():
    watcher = Watcher(target(None))
    assert watcher.sample() == 0
    assert watcher.ended == ""
