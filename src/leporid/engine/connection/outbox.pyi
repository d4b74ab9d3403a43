# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of outbox.pyx."""

from leporid.engine.plane import Plane

class Outbox:
    """What waits to be sent to one peer."""

    frame_max: int
    """The largest frame, its eight bytes of frame included."""
    last_sent_ms: int
    """When the peer was last sent something."""

    def __init__(self, plane: Plane) -> None: ...
    @property
    def plane(self) -> Plane: ...
    @property
    def pending_bytes(self) -> int:
        """Bytes not sent yet."""

    def outgoing(self) -> memoryview | None:
        """What to send now, valid until anything else here is called."""

    def sent(self, count: int) -> None:
        """The first `count` bytes of `outgoing` have left."""
