"""What the broker has of the streams that a query reads: which, how far, since when.

The one place where options about streams and places become questions to the broker. Must not know
Spark.

Invariant: an answer covers every stream that was asked for, or is an error that names the one that
is not there.
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from leporid.spark.checks import EARLIEST, LATEST, STORED
from leporid.spark.errors import BrokerError, OptionError
from leporid.spark.http import Client
from leporid.spark.offsets import Key, Offsets, Part, initial, lag, named, resolve
from leporid.spark.options import POLL_MS_MAX, Reading, Start
from leporid.spark.schema import nearest

# How often a pattern is compared with the streams that there are.
PATTERN_SECONDS = 10.0

# What a poll comes back with.
Answer = dict[Key, Part] | Exception


class Survey:
    """Asks about the streams of a query; remembers which ones match its pattern for a while."""

    def __init__(self, client: Client, reading: Reading) -> None:
        self._client = client
        self._reading = reading
        self._names: list[str] = []
        self._names_until = 0.0
        self._watch: Watch | None = None
        self._watched: list[str] = []
        self._seen: dict[Key, Part] = {}

    def names(self) -> list[str]:
        """Return the streams to read."""
        if self._reading.streams is not None:
            return list(self._reading.streams)
        now = time.monotonic()
        if now >= self._names_until:
            self._names = self._client.streams(self._reading.pattern)
            self._names_until = now + PATTERN_SECONDS
        return self._names

    def reads(self, stream: str) -> bool:
        """Return whether a stream of that name is to be read, if there is one."""
        if self._reading.streams is not None:
            return stream in self._reading.streams
        return re.fullmatch(self._reading.pattern or "", stream) is not None

    def __str__(self) -> str:
        """Return what is read, for messages."""
        if self._reading.streams is None:
            return f"streamPattern {self._reading.pattern!r}"
        names = ", ".join(map(repr, self._reading.streams))
        return f"stream{'s' if len(self._reading.streams) > 1 else ''} {names}"

    def check(self) -> None:
        """Ask once, so that a wrong name or a missing right shows now.

        Raises:
            OptionError: a stream does not exist, with the nearest that does.
            BrokerError: the broker refuses.
        """
        for name in self.names():
            try:
                self._client.info(name)
            except BrokerError as error:
                if error.status != 404:
                    raise
                if self._is_queue(name):
                    raise OptionError(
                        f"{name!r} in vhost {self._client.to.vhost!r} is a queue, not a stream: "
                        f"read it as a batch with the option queue = {name} instead, or declare it "
                        f"with x-queue-type = stream"
                    ) from error
                there = self._client.streams()
                raise OptionError(
                    f"there is no stream {name!r} in vhost {self._client.to.vhost!r}"
                    f"{nearest(name, there)} ({error})"
                ) from error

    def _is_queue(self, name: str) -> bool:
        try:
            self._client.check_queue(name)
        except BrokerError:
            return False
        return True

    def no_match(self) -> str:
        """Return the sentence for a pattern that no stream matches."""
        return f"{self}: no stream that may be read in vhost {self._client.to.vhost!r} matches it"

    def parts(self, *, missing: bool = False) -> dict[Key, Part]:
        """Return all partitions.

        Args:
            missing: whether a stream may be missing, as one that was deleted under a query.
        """
        found: dict[Key, Part] = {}
        for name in self.names():
            try:
                found.update(parts_of(self._client.info(name)))
            except BrokerError as error:
                if error.status != 404 or not missing:
                    raise
        return found

    def wait(self, current: Offsets, poll_ms: int) -> dict[Key, Part]:
        """Return all partitions, as soon as there is something beyond a position, or in time."""
        names = self.names()
        if len(names) == 1:
            try:
                return parts_of(self._client.info(names[0], beyond(current, names[0]), poll_ms))
            except BrokerError as error:
                if error.status != 404:
                    raise
                return {}
        if self._watch is None:
            self._watch = Watch(self._client)
            self._seen = self.parts(missing=True)
        elif lag(current, self._seen) or self._watched != names:
            self._seen = self.parts(missing=True)
        self._watched = names
        current = with_new(current, self._seen)
        if not lag(current, self._seen):
            for name, parts in self._watch.wait(names, current, poll_ms).items():
                for key in [key for key in self._seen if key.stream == name]:
                    del self._seen[key]
                self._seen.update(parts)
        return dict(self._seen)

    def at_time(self, place: Start, parts: Mapping[Key, Part]) -> dict[Key, int]:
        """Return the first offset not older than the place says, of each partition it names."""
        found: dict[Key, int] = {}
        asked: dict[tuple[str, int], dict[int, int]] = {}
        for key, part in parts.items():
            moment = place.moment_ms
            if place.moments_ms is not None:
                moment = named(place.moments_ms, key)
            if moment is None:
                continue
            answer = asked.get((key.stream, moment))
            if answer is None:
                answer = self._client.offset_for(key.stream, moment)
                asked[key.stream, moment] = answer
            found[key] = answer.get(key.partition, part.end)
        return found

    def resolve(
        self, place: Start, parts: Mapping[Key, Part], option: str, others: int = LATEST
    ) -> dict[Key, int]:
        """Return the offset of each partition at a start or an end.

        Args:
            place: what the options say.
            parts: what there is.
            option: `starting` or `ending`.
            others: EARLIEST or LATEST: what is meant of partitions that the place does not name.
        """
        if place.at == STORED:
            place = Start(at=self._stored(parts))
        by_time = place.at is None
        return resolve(
            place,
            parts,
            self.at_time(place, parts) if by_time else {},
            option=option,
            # A time after the end ends at the end; only a start has to be asked for.
            beyond_end=self._reading.beyond_end if option == "starting" else "latest",
            fail_on_loss=self._reading.fail_on_loss,
            others=others,
        )

    def _stored(self, parts: Mapping[Key, Part]) -> dict[str, dict[int, int]]:
        """Return the offset after the last one that the named reader has read, of each partition.

        That is the first one kept where the reader has read nothing.

        Raises:
            OptionError: a stored offset is beyond the partition's end.
        """
        reader = self._reading.reader_name
        assert reader is not None
        found = {
            stream: self._client.reader_positions(stream, reader)
            for stream in {key.stream for key in parts}
        }
        for key, part in parts.items():
            start = found[key.stream].setdefault(key.partition, EARLIEST)
            if start > part.end:
                raise OptionError(
                    f"reader {reader!r} has a next offset of {start} in {key}, which ends at "
                    f"{part.end}: store the offset from which it shall go on"
                )
        return found


def parts_of(info: Mapping[str, Any]) -> dict[Key, Part]:
    """Read the broker's answer about one stream."""
    found = {}
    for part in info["partitions"]:
        key = Key(info["stream"], part["partition"])
        found[key] = Part(key, part["first"], part["end"], part["incarnation"], part["bytes"])
    return found


def with_new(current: Offsets, parts: Mapping[Key, Part]) -> Offsets:
    """Return a position to which partitions are added that the query has not begun to read."""
    new = {key: part for key, part in parts.items() if key not in current}
    return {**current, **initial({key: part.first for key, part in new.items()}, new)}


def beyond(current: Offsets, stream: str) -> dict[int, int]:
    """Return a position in one stream as the broker's long poll wants it."""
    return {key.partition: at.offset for key, at in current.items() if key.stream == stream}


class Watch:
    """Long polls on several streams at once: one is out for each, and stays out if another ends.

    So the number of requests in a second does not grow with the number of streams, and none has
    to wait for the poll of another. The threads are daemons: Spark ends the process without a word.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._out: set[str] = set()
        self._back: queue.SimpleQueue[tuple[str, Answer]] = queue.SimpleQueue()

    def wait(
        self, names: Iterable[str], current: Offsets, poll_ms: int
    ) -> dict[str, dict[Key, Part]]:
        """Return what the polls say that have come back, by stream; nothing of a stream is gone.

        Returns when one has come back, or after the time.

        Raises:
            SparkSourceError: a poll failed.
        """
        asked = [name for name in names if name not in self._out]
        # About two polls in a second, however many streams.
        wait_ms = min(POLL_MS_MAX, poll_ms * max(1, len(self._out) + len(asked)))
        for name in asked:
            self._out.add(name)
            threading.Thread(
                target=self._poll, args=(name, beyond(current, name), wait_ms), daemon=True
            ).start()
        found: dict[str, dict[Key, Part]] = {}
        try:
            name, answer = self._back.get(timeout=poll_ms / 1000)
            while True:
                self._out.discard(name)
                if isinstance(answer, Exception):
                    raise answer
                found[name] = answer
                name, answer = self._back.get_nowait()
        except queue.Empty:
            return found

    def _poll(self, name: str, current: dict[int, int], wait_ms: int) -> None:
        answer: Answer
        try:
            answer = parts_of(self._client.info(name, current, wait_ms))
        except Exception as caught:  # noqa: BLE001 - it is raised again where it is waited for
            # A stream that is gone has no partition; what that means, the caller knows.
            gone = isinstance(caught, BrokerError) and caught.status == 404
            answer = {} if gone else caught
        self._back.put((name, answer))
