# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of output.pyx."""

from leporid.engine.bounds.accounts import Account
from leporid.engine.connection.connections import Connections

class Output:
    """The bytes to be sent to one peer; made by its `Connection`."""

    frame_max: int
    """The largest frame, its header and end included."""
    account: Account
    """What its buffers are charged to."""
    last_sent_ms: int
    """When bytes were last sent to the peer."""

    def __init__(self, connections: Connections, owner: object) -> None: ...
    @property
    def pending_bytes(self) -> int:
        """Bytes not sent yet."""

    @property
    def memory_bytes(self) -> int:
        """Bytes of its buffers, whatever is in them."""

    def outgoing(self) -> memoryview | None:
        """The bytes to send now, or as many as there are at a time; None: there are none.

        Valid until any other call here, of its connection or of another output.
        """
