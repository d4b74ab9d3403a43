"""An event loop in a thread of its own, and calls to it from other threads.

Responsible for starting and ending the thread, for waiting for coroutines that run on its loop, and
for handing it many small calls at the price of one. It must not know what is called. Invariants: a
call that is interrupted, as by KeyboardInterrupt, is cancelled on the loop before the exception
goes on; nothing that is asked of a loop that has ended, or that belongs to another process, waits.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from leporid.client.errors import ClientError, LocalProtocolError

logger: Final[logging.Logger] = logging.getLogger("leporid.client")

T = TypeVar("T")

STOP_SECONDS: Final = 10.0
"""For tasks to end that were cancelled, and then for the thread."""

SIGNAL_SECONDS: Final = 1.0
"""So often who waits looks for signals. Python wakes it only if the system gave the signal to its
thread, and while it slept: a Ctrl-C right before that would be seen after the wait."""


class LoopThread:
    """An event loop in a thread of its own.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._calls: deque[Callable[[], object]] = deque()
        self._posted = self._stopped = False
        # A daemon, since a program that ends without having closed its connections must not hang.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<LoopThread {self._thread.name}, {'running' if self.is_running else 'ended'}>"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    @property
    def is_running(self) -> bool:
        """Whether calls are possible from this process."""
        return self._pid == os.getpid() and not self._stopped

    def check(self) -> None:
        """Raise LocalProtocolError if whoever calls cannot wait for the loop; it says why."""
        if self._pid != os.getpid():
            raise LocalProtocolError(
                "this process was forked from the one that opened the connection, and has no part "
                "in it: open another connection here"
            )
        if threading.current_thread() is self._thread:
            raise LocalProtocolError(
                "a blocking call from the connection's own thread would wait for itself: make it "
                "from another thread"
            )
        if self._stopped:
            raise LocalProtocolError("the connection is closed: close() was called")

    def begin(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Have a coroutine run on the loop, and do not wait for it; cancelling cancels it."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._begin(work, future)
        return future

    def _begin(self, work: Coroutine[Any, Any, T], future: concurrent.futures.Future[T]) -> None:
        try:
            self.check()
        except BaseException:
            work.close()
            raise
        self._loop.call_soon_threadsafe(self._run_task, work, future)

    def _run_task(self, work: Coroutine[Any, Any, T], future: concurrent.futures.Future[T]) -> None:
        if future.cancelled():
            work.close()
            return
        task = self._loop.create_task(work)

        # Neither function refers to what it is a callback of: a circle would keep the result, which
        # may be a consumer that has to end when nobody holds it.
        def finished(task: asyncio.Task[T]) -> None:
            error = None if task.cancelled() else task.exception()
            # Who has waited may have given up in this very moment.
            with contextlib.suppress(concurrent.futures.InvalidStateError):
                if task.cancelled():
                    future.cancel()
                elif error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(task.result())

        def given_up(future: concurrent.futures.Future[T]) -> None:
            if future.cancelled():
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    self._loop.call_soon_threadsafe(task.cancel)

        task.add_done_callback(finished)
        future.add_done_callback(given_up)

    def result(self, begun: concurrent.futures.Future[T]) -> T:
        """Wait for what was begun; return what it returns, or raise what it raises."""
        try:
            while not begun.done():
                with contextlib.suppress(TimeoutError):
                    return begun.result(SIGNAL_SECONDS)
            return begun.result()
        except concurrent.futures.CancelledError:
            raise LocalProtocolError("the connection was closed meanwhile") from None
        except BaseException:
            begun.cancel()
            raise

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Have a coroutine run on the loop, and wait for it."""
        # Before it is begun, so that an interrupt at any later moment cancels it.
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        try:
            self._begin(work, future)
            return self.result(future)
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Have a function called on the loop; return what it returns."""

        async def called() -> T:
            return function()

        return self.wait(called())

    def post(self, function: Callable[[], object]) -> None:
        """Have a function called on the loop, soon; nobody learns what it returns.

        Functions are called in the order in which they were posted. Those that one thread posts
        before the loop has its turn cost one wake-up together.
        """
        self.check()
        self._calls.append(function)
        if not self._posted:
            self._posted = True
            self._loop.call_soon_threadsafe(self._call_posted)

    def post_last(self, function: Callable[[], object]) -> None:
        """Have a function called on the loop, for finalizers: from any thread, if it still runs."""
        if self.is_running:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(function)

    def _call_posted(self) -> None:
        # Before the first is taken: who posts from now on wakes the loop again.
        self._posted = False
        while self._calls:
            try:
                self._calls.popleft()()
            except ClientError as error:
                # A delivery whose channel was closed by the broker: it has the message again.
                logger.info("a call on a connection's thread failed: %s", error)

    def stop(self) -> None:
        """End the thread, after what was posted; tasks that still run are cancelled."""
        if not self.is_running:
            return
        self.check()
        self._stopped = True
        try:
            asyncio.run_coroutine_threadsafe(self._end_tasks(), self._loop).result(STOP_SECONDS)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_SECONDS)

    async def _end_tasks(self) -> None:
        self._call_posted()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()
