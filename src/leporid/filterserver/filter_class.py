"""What an administrator registers: a source in Python and the class in it; and how it is doing.

Must not know who keeps it, or where it runs. Invariant: what is registered has a name that AMQP can
carry, and is small enough to be sent to its process at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NAME_BYTES_MAX: Final = 255
"""AMQP's short strings."""

SOURCE_BYTES_MAX: Final = 1024 * 1024
"""A filter is a page of code; what is longer belongs into a package beside the broker."""

VERSION_MAX: Final = 2**63 - 1
"""What the definitions keep."""


class FilterClassError(Exception):
    """What was given is no filter class; the text says why."""


@dataclass(frozen=True, slots=True)
class FilterClass:
    """A registered class. Making one raises `FilterClassError`."""

    name: str
    version: int
    class_name: str
    source: bytes

    def __post_init__(self) -> None:
        if not 1 <= len(self.name.encode("utf-8", "surrogateescape")) <= NAME_BYTES_MAX:
            raise FilterClassError(f"its name must be a text of 1 to {NAME_BYTES_MAX} bytes")
        if not 1 <= self.version <= VERSION_MAX:
            raise FilterClassError(f"its version must be a whole number from 1 to {VERSION_MAX}")
        if not self.class_name.isidentifier():
            raise FilterClassError(f"{self.class_name!r} is no name of a class in Python")
        if len(self.source) > SOURCE_BYTES_MAX:
            raise FilterClassError(
                f"its source has {len(self.source)} bytes; at most {SOURCE_BYTES_MAX} are taken"
            )


@dataclass(frozen=True, slots=True)
class FilterClassStatus:
    """How a filter class is.

    Attributes:
        state: `idle` has no process, `running` has one, `waiting` failed and has to wait.
        pid: of its process, 0 without one.
        judged: messages that it gave a verdict about, since the broker's start.
        passed: those of them that it let pass.
        failures: how often it failed, since the broker's start.
        error: what happened the last time, empty if this version never failed.
        failed_at: when that was, in seconds of Unix time.
        retry_seconds: until it is tried again; 0: it is not waiting.
    """

    state: str = "idle"
    pid: int = 0
    judged: int = 0
    passed: int = 0
    failures: int = 0
    error: str = ""
    failed_at: float = 0.0
    retry_seconds: float = 0.0
