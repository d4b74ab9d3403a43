"""What administrators say of a virtual host: what it is for, its limits, whether it may be deleted.

Responsible for these values, and for recording each change. Must not know what is in the virtual
host, nor what a limit counts. Invariant: what is in force is what the recorded changes add up to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from leporid.broker.stored import (
    Recorder,
    StoredVhostLimit,
    StoredVhostMetadata,
    StoredVhostProtection,
)

# As RabbitMQ describes it.
FIRST_DESCRIPTIONS: Final = {"/": "Default virtual host"}


class VhostMetadata:
    """The base of a virtual host.

    Args:
        name: of the virtual host.
        recorder: told of what is to last.
        described: it was described anew.
        limited: its limits are others.

    Attributes:
        description, tags: what it is for.
        default_queue_type: of queues that ask for none; "" for none.
        protected: whether it may not be deleted over HTTP.
        limits: those of `limits.VHOST_LIMITS` that are set.
    """

    def __init__(
        self,
        name: str,
        recorder: Recorder,
        described: Callable[[], None],
        limited: Callable[[], None],
    ) -> None:
        self.name = name
        self.description = FIRST_DESCRIPTIONS.get(name, "")
        self.tags: tuple[str, ...] = ()
        self.default_queue_type = ""
        self.protected = False
        self.limits: dict[str, int] = {}
        self._recorder = recorder
        self._described, self._limited = described, limited

    def describe(self, description: str, tags: Iterable[str], default_queue_type: str) -> None:
        """Say what the virtual host is for, and of what type queues are that ask for none."""
        given = description, tuple(tags), default_queue_type
        if given != (self.description, self.tags, self.default_queue_type):
            self.description, self.tags, self.default_queue_type = given
            self._recorder.put(StoredVhostMetadata.of(self.name, *given))
            self._described()

    def protect(self, protected: bool) -> None:
        """Say whether it may be deleted over HTTP."""
        if protected != self.protected:
            self.protected = protected
            if protected:
                self._recorder.put(StoredVhostProtection(self.name))
            else:
                self._recorder.drop(StoredVhostProtection, self.name)

    def limit(self, name: str, value: int) -> None:
        """Set a limit, of `limits.VHOST_LIMITS`; what is there already stays."""
        if self.limits.get(name) != value:
            self.limits[name] = value
            self._recorder.put(StoredVhostLimit(self.name, name, value))
            self._limited()

    def unlimit(self, name: str) -> None:
        """Take a limit away, if it is set."""
        if self.limits.pop(name, None) is not None:
            self._recorder.drop(StoredVhostLimit, self.name, name)
            self._limited()
