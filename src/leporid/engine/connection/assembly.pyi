# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of assembly.pyx."""

from typing import TypeVar

from leporid.amqp.errors import Fault

_F = TypeVar("_F", bound=Fault)

class Assembly:
    """A message that is assembled from its frames; used by the engine only."""

    def __init__(self, method_id: int, method: bytes) -> None: ...

def basic_fault(method: int, fault: _F) -> _F:
    """The fault, with class basic and that method as its cause."""
