# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of assembly.pyx."""

from typing import Final, TypeVar

from leporid.amqp.errors import Fault, FrameError

_F = TypeVar("_F", bound=Fault)

SNIPPET_BYTES: Final[int]

class Assembly:
    """A message that is assembled from its frames; used by the engine only."""

    def __init__(self, method_id: int, method: bytes) -> None: ...

def basic_fault(method: int, fault: _F) -> _F:
    """The fault, with class basic and that method as its cause."""

def snippet(payload: bytes) -> str:
    """The first bytes of a frame in the words of RabbitMQ's faults."""

def undecodable(arguments: bytes) -> FrameError:
    """The fault for arguments that do not parse, with RabbitMQ's text."""

def quoting(fault: type[_F], kind: int, payload: bytes, wrong: str, told: str | None = None) -> _F:
    """A fault with the beginning of a frame in its text, and the frame's length in the log."""
