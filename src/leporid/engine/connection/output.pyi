# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of output.pyx."""

from leporid.engine.connection.connections import Connections

class Output:
    """What waits to be sent to one peer; made by its `Connection`."""

    frame_max: int
    """The largest frame, its eight bytes of frame included."""
    last_sent_ms: int
    """When the peer was last sent something."""

    def __init__(self, connections: Connections, owner: object) -> None: ...
    @property
    def pending_bytes(self) -> int:
        """Bytes not sent yet."""

    def outgoing(self) -> memoryview | None:
        """What to send now, valid until anything else here or of its connection is called."""
