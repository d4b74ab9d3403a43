# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of connections.pyx."""

from typing import Final

from leporid.engine.bounds.jobs import Jobs
from leporid.engine.connection.connection import Connection
from leporid.engine.connection.timeouts import Timeouts
from leporid.engine.publishing.publishing import Publishing
from leporid.engine.selecting.filtered_consumers import Searches
from leporid.engine.stream.stream import Streams

MESSAGE_BYTES_MAX: Final[int]
TRANSACTION_ENTRIES_MAX: Final[int]

class Connections:
    """What all connections share; made by `Engine`."""

    publishers_blocked: bool
    """Do not read from connections that have published."""
    message_bytes_max: int
    transaction_entries_max: int
    """Publishes and settles of one transaction."""
    consumer_timeout_ms: int
    """How long a delivery may stay unsettled if queue and consumer do not say; 0: no limit."""

    def __init__(
        self, jobs: Jobs, publishing: Publishing, streams: Streams, searches: Searches
    ) -> None: ...
    @property
    def timeouts(self) -> Timeouts: ...
    @property
    def received_bytes(self) -> int: ...
    @property
    def sent_bytes(self) -> int: ...
    @property
    def publishers(self) -> int:
        """Open channels that have published."""

    @property
    def output_bytes(self) -> int:
        """Bytes of the output buffers of all connections, whatever is in them."""

    @property
    def inbox_bytes(self) -> int:
        """Size of the input buffer of all connections."""

    def set_consumer_timeout(self, timeout_ms: int) -> None:
        """Set `consumer_timeout_ms`, for deliveries that are there, too."""

    def take_touched(self) -> list[Connection]:
        """Connections that have output or want to be closed, since the last call."""
