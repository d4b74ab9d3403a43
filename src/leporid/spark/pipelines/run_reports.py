"""What a run tells the broker of itself, for its pages and for programs: names, and reports.

Responsible for what a run and its reader are called if nobody says so, and for sending the status
of a run. Must not know what a pipeline does. Invariants: a run has the same name each time it is
started; a report that does not arrive costs the run two seconds at most, and a line in the log.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from leporid.spark.errors import BrokerError, SparkSourceError
from leporid.spark.http import Client
from leporid.spark.pipelines.status import Status

log = logging.getLogger(__name__)

# Between the beginning and the end, a run is reported this often at most.
EVERY_SECONDS = 10.0
TIMEOUT_MS = 2000
# AMQP's names, which the broker's are, and its limit of an error's text.
NAME_BYTES_MAX = 255
TEXT_BYTES_MAX = 1024


def run_name(pipeline: str, labels: Mapping[str, str]) -> str:
    """Return what a run is called that has no name: `archive:/srv/lake`, or `deadletters:letters`.

    Args:
        pipeline: which one it is.
        labels: its target, an absolute place of which is the same from every folder, and stream.
    """
    target = labels.get("target", "")
    if target and "://" not in target:
        target = str(Path(target).absolute())
    return _short(f"{pipeline}:{target or labels.get('stream', '')}", NAME_BYTES_MAX)


def reader_name(user: str, run: str) -> str:
    """Return the name under which a run's position is stored; the user needs no right for it."""
    return _short(f"{user}.{run}", NAME_BYTES_MAX)


def _short(text: str, bytes_max: int) -> str:
    data = text.encode()
    if len(data) <= bytes_max:
        return text
    digest = hashlib.sha256(data).hexdigest()[:8]
    return f"{data[: bytes_max - 9].decode('utf-8', 'ignore')}~{digest}"


class Reports:
    """Sends how one run is.

    Args:
        client: the broker.
        name: of the run.
        reader: the named reader that has its position; empty without one.
        clock: seconds.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        reader: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # One attempt: the next step has more to tell, and is what the run is for.
        self._client = Client(replace(client.to, retry_ms=-1, timeout_ms=TIMEOUT_MS))
        self._name = name
        self._reader = reader
        self._clock = clock
        self._state = ""
        self._due = 0.0
        self._told = False
        self._given_up = False

    def send(self, status: Status) -> None:
        """Report a status, unless one was reported a moment ago, and the state is the same."""
        now = self._clock()
        if self._given_up or (status.state == self._state and now < self._due):
            return
        self._state, self._due = status.state, now + EVERY_SECONDS
        try:
            self._client.report_run(self._name, facts_of(status, self._reader))
            self._told = False
        except SparkSourceError as error:
            # Nothing changes as long as it runs if the broker is of a version without this.
            self._given_up = isinstance(error, BrokerError) and error.status in (404, 405)
            # A wrong password, say, is what the run itself is told, and tells.
            if reason_of(str(error)) == reason_of(status.error):
                return
            if not self._told:
                log.warning("run %r is not shown at the broker: %s", self._name, error)
            self._told = True
        finally:
            if status.exit_code is not None:
                self._client.close()


def reason_of(error: str) -> str:
    """Return an error's sentence without the request that it begins with."""
    return error.partition(": ")[2]


def facts_of(status: Status, reader: str = "") -> dict[str, Any]:
    """Return a status as the broker takes it; what is not known is left out."""
    facts = {
        "pipeline": status.pipeline,
        "stream": status.labels.get("stream"),
        "target": status.labels.get("target"),
        "reader": reader,
        "state": status.state,
        "error": status.error.encode()[:TEXT_BYTES_MAX].decode("utf-8", "ignore"),
        "exit_code": status.exit_code,
        "records": status.records,
        "put_aside": status.put_aside,
        "steps": status.steps,
        "failures": status.failures,
        "lag": status.lag,
        "started_ms": _ms(status.started_at),
        "step_ms": _ms(status.step_at),
        "ended_ms": _ms(status.ended_at),
    }
    return {name: value for name, value in facts.items() if value not in (None, "")}


def _ms(at: str | None) -> int | None:
    """Return the milliseconds since 1970 of a time in ISO 8601."""
    return None if not at else round(datetime.fromisoformat(at).timestamp() * 1000)
