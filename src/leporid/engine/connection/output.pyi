# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of output.pyx."""

from leporid.engine.connection.connections import Connections

class Output:
    """The bytes to be sent to one peer; made by its `Connection`."""

    frame_max: int
    """The largest frame, its header and end included."""
    last_sent_ms: int
    """When bytes were last sent to the peer."""

    def __init__(self, connections: Connections, owner: object) -> None: ...
    @property
    def pending_bytes(self) -> int:
        """Bytes not sent yet."""

    def outgoing(self) -> memoryview | None:
        """The bytes to send now, valid until any other call here or of its connection."""
