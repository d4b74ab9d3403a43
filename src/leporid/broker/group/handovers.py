"""When partitions of groups go from one member to the next.

Responsible for how long a member that was stopped may take to settle its deliveries, and for groups
whose streams have changed. Must not know how a partition is stopped or started. Invariant: a
handover that was added ends HANDOVER_MS after the next round at the latest, apart from the steps of
the job that a round is.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from leporid.broker.group.members import Group, Reading
    from leporid.broker.registry import Steps
    from leporid.engine.bounds.jobs import Job, Jobs

logger = logging.getLogger(__name__)

HANDOVER_MS: Final = 500
"""What a member that loses a partition has to settle what it was sent of it. Everybody else is to
have their share within a second."""

POLL_MS: Final = 10
"""Between two looks at whether it has."""


class Handovers:
    """Those of all virtual hosts.

    Args:
        jobs: those of the broker.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._round: Job | None = None
        self._readings: dict[Reading, None] = {}
        self._changed: dict[Group, None] = {}
        self._now_ms = 0
        self._added = False

    def __repr__(self) -> str:
        return f"<Handovers readings={len(self._readings)} changed={len(self._changed)}>"

    @property
    def next_due_ms(self) -> int:
        """When there is something to do; 0 for never, and before now for at once."""
        if self._changed or self._added:
            return 1
        return self._now_ms + POLL_MS if self._readings else 0

    def add(self, reading: Reading) -> None:
        """A reading was stopped, and something of it is not settled."""
        self._readings[reading] = None
        self._added = True

    def look_at(self, group: Group) -> None:
        """A stream of a group is going."""
        self._changed[group] = None

    def run(self, now_ms: int) -> None:
        """Hand on what is settled or out of time: a job, unless the one before goes on."""
        self._now_ms = now_ms
        if self._round is None or self._round.ended:
            self._round = self._jobs.start(self._run(now_ms))

    def _run(self, now_ms: int) -> Steps:
        self._added = False
        changed, self._changed = self._changed, {}
        for group in changed:
            try:
                group.groups.look(group)
            except Exception:
                # Everybody's turn goes on.
                logger.exception("defect: %s could not be looked at", group.title)
            yield None
        for reading in tuple(self._readings):
            if not reading.until_ms:
                reading.until_ms = now_ms + HANDOVER_MS
            if reading.is_settled or now_ms >= reading.until_ms:
                self._hand_on(reading)
            yield None

    def _hand_on(self, reading: Reading) -> None:
        del self._readings[reading]
        try:
            reading.member.group.release(reading)
        except Exception:
            logger.exception("defect: %s could not be handed on", reading.queue.title)
