"""Joins the data plane to the sync thread: when a generation is closed, and what happens after.

Responsible for having at most one generation on its way to the disk. While it is, the next one
collects everything that happens, so that one sync serves every publisher of the moment. It does
not know sockets. Invariants: whatever the engine or the broker calls durable is in exactly one job;
no generation is closed before everything of the last one is noted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from leporid.durable import Change
from leporid.engine.engine import Engine
from leporid.server.histograms import BYTES, SYNC_SECONDS, Histogram
from leporid.server.repeating import Repeating
from leporid.storage.definitions import Definitions, DefinitionsError
from leporid.storage.segments import SegmentFiles
from leporid.storage.streams import StreamLogs, StreamWork
from leporid.storage.syncer import Job, Rest, Syncer

# Durable facts that nobody waits for reach the disk this much later at most.
IDLE_SYNC_S: Final = 0.05
# A disk that has not answered for so long may never do: clients wait for confirms meanwhile, and
# should go elsewhere. Where it works, a sync of all that memory can hold takes less.
SILENT_S: Final = 30.0
WATCH_EVERY_S: Final = 5.0

logger = logging.getLogger(__name__)


class Durability:
    """Collects durable changes and syncs them, generation by generation.

    Args:
        wake: called on the loop when a turn should follow: after each generation, as deliveries
            and confirms may be due, and when there was no time for all streams of one.
        no_room: called on the loop when the disk gets full (True) or has room again (False).
        failed: called on the loop when nothing can be written any more.

    Attributes:
        seconds: how long generations took.
        bytes: how large they were.
    """

    def __init__(
        self,
        engine: Engine,
        files: SegmentFiles,
        definitions: Definitions,
        streams: StreamLogs,
        *,
        wake: Callable[[], None],
        no_room: Callable[[bool], None],
        failed: Callable[[BaseException], None],
        sync: bool = True,
    ) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._wake = wake
        self._changes: list[Change] = []
        # Of the generation that is closed: it gets its streams, and then it is written.
        self._closed: Job | None = None
        self._job: Job | None = None
        self._began = 0.0
        self.seconds = Histogram("From closing a generation to knowing it on disk", SYNC_SECONDS)
        self.bytes = Histogram("Bytes of the logs that one sync wrote", BYTES)
        self._timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._waiting: list[tuple[int, asyncio.Future[bool]]] = []
        self._error: BaseException | None = None

        def call(what: Callable[..., None], *arguments: object) -> None:
            self._loop.call_soon_threadsafe(what, *arguments)

        self._syncer = Syncer(
            files,
            definitions,
            streams,
            done=lambda job: call(self._finish, job),
            no_room=lambda full: call(no_room, full),
            failed=lambda error: call(self._fail, error),
            sync=sync,
        )
        self._failed = failed
        self._said_silent = False
        self._watch = Repeating(WATCH_EVERY_S, self._look)
        definitions.copy_failed = lambda error: call(self._note_copy, error)
        engine.logs.map_segment = files.map
        engine.streams.map_segment = streams.map

    def record(self, change: Change) -> None:
        """A definition changed; it belongs to the current generation."""
        self._changes.append(change)
        self._engine.logs.note_change()

    @property
    def waits_s(self) -> float:
        """How long the generation that is on its way to the disk has been so; 0 without one."""
        return 0.0 if self._job is None else self._loop.time() - self._began

    @property
    def silent(self) -> bool:
        """Whether the disk has not answered for long."""
        return self.waits_s > SILENT_S

    def _look(self) -> None:
        if self.silent == self._said_silent:
            return
        self._said_silent = self.silent
        if self.silent:
            logger.error("the disk has not finished a sync for %.0f s", self.waits_s)
        else:
            logger.warning("the disk has finished its sync")

    @staticmethod
    def _note_copy(error: DefinitionsError) -> None:
        logger.error("no copy of the definitions until the next start: %s", error)

    def poll(self) -> None:
        """Start a sync if somebody waits for one, or soon if something should not wait long."""
        if self._job is not None or self._error is not None:
            return
        if self._closed is not None:
            self._submit(self._engine.collected_streams())
            return
        if self._engine.noting_streams:
            return  # a turn follows, and asks again
        if self._engine.logs.awaited:
            self._begin()
        elif self._engine.logs.dirty and self._timer is None:
            self._timer = self._loop.call_later(IDLE_SYNC_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._job is None and self._closed is None and not self._engine.noting_streams:
            self._begin()

    def _begin(self) -> None:
        closed = self._engine.close_generation()
        if closed is None:
            return
        generation, writes, drops = closed
        self._closed = Job(generation, self._changes, writes, drops)
        self._changes = []
        self._idle.clear()
        self._began = self._loop.time()
        self._submit(self._engine.collected_streams())

    def _submit(self, streams: list[StreamWork] | None) -> None:
        """Have the closed generation written, if its streams are collected."""
        if streams is None:
            self._wake()
            return
        assert self._closed is not None
        self._job, self._closed = self._closed, None
        self._job.streams = streams
        self._syncer.submit(self._job)

    def _finish(self, job: Job) -> None:
        self._job = None
        self.seconds.note(self._loop.time() - self._began)
        self.bytes.note(job.log_bytes)
        self._engine.end_sync(job.generation, job.writes, job.streams, whole=False)
        self._idle.set()
        self._release()
        self._wake()
        self.poll()

    async def rest(self, rest: Rest) -> int:
        """Begin a rest between two generations; returns the number of the one before it.

        No file is deleted until the rest is ended, which is up to the caller.
        """
        begun = self._loop.create_future()
        begin = rest.begin

        def notify() -> None:
            if not begun.done():  # else the caller is gone
                begun.set_result(None)

        def beginning() -> None:
            begin()
            self._loop.call_soon_threadsafe(notify)

        rest.begin = beginning
        # The job that is under way comes before it.
        generation = self._job.generation if self._job is not None else self._engine.logs.synced
        self._syncer.rest(rest)
        await begun
        return generation

    async def until(self, generation: int) -> bool:
        """Return True when that generation is on disk; False if it never is, as the disk failed."""
        if self._engine.logs.synced < generation and self._error is None:
            future: asyncio.Future[bool] = self._loop.create_future()
            self._waiting.append((generation, future))
            return await future
        return self._engine.logs.synced >= generation

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for generation, future in waiting:
            if future.done():
                continue  # nobody waits for it any more
            if generation <= self._engine.logs.synced:
                future.set_result(True)
            elif self._error is not None:
                future.set_result(False)
            else:
                self._waiting.append((generation, future))

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._idle.set()
        self._release()
        self._failed(error)

    @property
    def _owes(self) -> bool:
        under_way = self._job is not None or self._closed is not None
        return under_way or self._engine.logs.dirty or self._engine.logs.awaited

    async def drain(self) -> None:
        """Everything that is durable now is on disk when this returns, unless storage failed."""
        while self._error is None and self._owes:
            if self._closed is not None:
                self._submit(self._engine.collected_streams(whole=True))
            elif self._job is None:
                self._begin()
                continue
            self._idle.clear()
            await self._idle.wait()

    def stop(self) -> None:
        """End the sync thread; call `drain` before."""
        self._watch.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._syncer.stop()
