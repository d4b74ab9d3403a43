import array
import os
import signal
import time
from collections.abc import Callable

import pytest
from bench.attacks.canary import Canary, Phase, quantile, summary
from bench.attacks.peer import Peer, publish, queue_declare
from bench.attacks.target import LEPORID, started

READY_SECONDS = 60
BAD_MS = 250.0
# Room for a broker and some messages.
WATERMARK_BYTES = 128 * 2**20


def test_quantiles_of_what_was_waited_for():
    values = [float(one) for one in range(1000)]
    assert quantile(values, 0.99) == 990
    assert quantile(values, 0.999) == 999
    assert quantile([7.0], 0.999) == 7
    assert quantile([], 0.5) == 0


def test_a_phase_is_summed_up_with_health_by_itself():
    phase = Phase(late_ms=0.5, blocked_seconds=2.0)
    phase.waits_ms["confirm"] = array.array("d", [1.0, 9.0])
    phase.waits_ms["declaration"] = array.array("d", [3.0])
    phase.waits_ms["health"] = array.array("d", [40.0])
    found = summary(phase)
    assert found["stall_ms"] == found["p999_ms"] == 9.0
    assert found["health_ms"] == 40.0
    assert found["answers"] == 3
    assert found["blocked_seconds"] == 2.0


@pytest.mark.slow
def test_the_canary_sees_a_broker_that_stands_still_and_goes_on():
    with started(LEPORID, 10**9) as target:
        assert target.pid is not None
        canary = Canary(target, BAD_MS)
        try:
            canary.ready(READY_SECONDS)
            canary.begin("still")
            os.kill(target.pid, signal.SIGSTOP)
            stopped = time.monotonic()
            wait_until(lambda: canary.last_bad > stopped)
            os.kill(target.pid, signal.SIGCONT)
            sightings = canary.stop()
        finally:
            canary.close()
    assert sightings.lost == ""
    found = summary(sightings.phases["still"])
    # The first answer that is late enough may be that of the health alone.
    assert max(found["stall_ms"], found["health_ms"]) > BAD_MS
    assert found["blocked_seconds"] == 0.0


@pytest.mark.slow
def test_the_canary_sees_that_a_broker_has_gone():
    with started(LEPORID, 10**9) as target:
        assert target.pid is not None
        canary = Canary(target, BAD_MS)
        try:
            canary.ready(READY_SECONDS)
            gone = time.monotonic()
            os.kill(target.pid, signal.SIGKILL)
            wait_until(lambda: canary.last_bad > gone + 1)
            sightings = canary.stop()
        finally:
            canary.close()
    assert sightings.lost


@pytest.mark.slow
def test_the_canary_does_not_take_an_alarm_for_a_stall():
    with started(LEPORID, WATERMARK_BYTES) as target:
        canary = Canary(target, BAD_MS)
        try:
            canary.ready(READY_SECONDS)
            with Peer(target.url("other")) as peer:
                peer.push(queue_declare("full"))
                message = publish("", "full", bytes(2**20))
                left = memoryview(message * (WATERMARK_BYTES // 2**20))
                filling = time.monotonic()
                while canary.last_bad < filling + BAD_MS / 1000:
                    left = peer.offer(left)
                canary.begin("alarm")
                begun = time.monotonic()
                wait_until(lambda: canary.last_bad > begun + 1)
                sightings = canary.stop()
        finally:
            canary.close()
    found = summary(sightings.phases["alarm"])
    assert found["blocked_seconds"] > 0
    waits = sightings.phases["alarm"].waits_ms
    # What it publishes until it is told may be confirmed yet; what it asks for is answered always.
    assert len(waits["confirm"]) < len(waits["declaration"]) / 10


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.005)
