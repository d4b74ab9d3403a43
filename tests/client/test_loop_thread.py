"""Calls to an event loop in another thread: results, errors, interrupts, order and the end."""

import asyncio
import logging
import os
import signal
import threading
import warnings
from functools import partial

import pytest

from leporid.client.errors import ConnectionLost, LocalProtocolError
from leporid.client.loop_thread import LoopThread

SECONDS = 10


@pytest.fixture
def thread():
    thread = LoopThread("a loop for a test")
    yield thread
    thread.stop()
    assert "a loop for a test" not in {each.name for each in threading.enumerate()}


async def where() -> str:
    return threading.current_thread().name


def test_coroutines_run_on_the_thread(thread: LoopThread):
    assert thread.wait(where()) == "a loop for a test"
    assert thread.begin(where()).result(SECONDS) == "a loop for a test"
    assert thread.call(lambda: threading.current_thread().name) == "a loop for a test"


def test_a_timeout_of_theirs_is_raised_as_it_is(thread: LoopThread):
    """And is none of the pauses in which who waits looks for signals."""

    async def fail() -> None:
        raise TimeoutError("theirs")

    with pytest.raises(TimeoutError, match="theirs") as raised:
        thread.wait(fail())
    assert raised.value.__context__ is None


def test_what_they_raise_is_raised(thread: LoopThread):
    async def fail() -> None:
        raise ConnectionLost("gone")

    with pytest.raises(ConnectionLost, match="gone"):
        thread.wait(fail())


def test_posted_calls_are_made_in_their_order(thread: LoopThread):
    found: list[int] = []
    for number in range(1000):
        thread.post(partial(found.append, number))
    assert thread.call(lambda: list(found)) == list(range(1000))


def test_calls_of_several_threads_are_all_made(thread: LoopThread):
    found: list[int] = []

    def work() -> None:
        for number in range(2000):
            thread.post(partial(found.append, number))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert thread.call(lambda: sorted(found)) == sorted(4 * list(range(2000)))


def test_a_posted_call_that_fails_is_logged(thread: LoopThread, caplog: pytest.LogCaptureFixture):
    def fail() -> None:
        raise LocalProtocolError("the channel is closed")

    with caplog.at_level(logging.INFO, "leporid.client"):
        thread.post(fail)
        assert thread.call(lambda: "goes on") == "goes on"
    assert "the channel is closed" in caplog.text


def test_what_is_posted_before_the_end_is_called():
    thread = LoopThread("ends soon")
    found: list[int] = []
    for number in range(100):
        thread.post(partial(found.append, number))
    thread.stop()
    assert found == list(range(100))


def test_tasks_are_cancelled_at_the_end():
    thread = LoopThread("ends soon")
    future = thread.begin(asyncio.sleep(3600))
    thread.stop()
    assert future.cancelled()
    thread.stop()


def test_after_the_end_nothing_waits():
    thread = LoopThread("ended")
    thread.stop()
    assert not thread.is_running
    with pytest.raises(LocalProtocolError, match="closed"):
        thread.wait(where())
    with pytest.raises(LocalProtocolError, match="closed"):
        thread.post(lambda: None)


def test_a_call_that_waits_when_the_end_comes():
    thread = LoopThread("ends meanwhile")
    began, errors = threading.Event(), []

    async def wait() -> None:
        began.set()
        await asyncio.sleep(3600)

    def work() -> None:
        try:
            thread.wait(wait())
        except LocalProtocolError as error:
            errors.append(str(error))

    worker = threading.Thread(target=work)
    worker.start()
    assert began.wait(SECONDS)
    thread.stop()
    worker.join(SECONDS)
    assert errors == ["the connection was closed meanwhile"]


def test_a_thread_does_not_wait_for_itself(thread: LoopThread):
    def call_again() -> str:
        with pytest.raises(LocalProtocolError, match="own thread"):
            thread.call(lambda: None)
        return "told"

    assert thread.call(call_again) == "told"


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_call_is_cancelled(thread: LoopThread):
    """As when a user presses Ctrl-C."""
    began, cancelled = threading.Event(), threading.Event()

    async def wait() -> None:
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()

    def interrupt() -> None:
        began.wait(SECONDS)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        thread.wait(wait())
    assert cancelled.wait(SECONDS)


def test_a_forked_process_is_told(thread: LoopThread):
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # From Python 3.12 on, a fork beside threads is warned of; that is what this is about.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        try:
            thread.call(lambda: None)
        except LocalProtocolError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        assert b"forked" in told.read()
    os.waitpid(pid, 0)
    assert thread.call(lambda: "goes on") == "goes on"
