# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of channel.pyx."""

from collections.abc import Generator, Iterator
from typing import Any, TypeAlias

from leporid.engine.bounds.accounts import Account
from leporid.engine.connection.confirms import Confirms
from leporid.engine.connection.connections import Connections
from leporid.engine.connection.consumer import Consumer
from leporid.engine.connection.credit import ChannelCredit, Credit
from leporid.engine.connection.output import Output
from leporid.engine.connection.stream_consumer import StreamConsumer
from leporid.engine.selectors.filter import Filter
from leporid.engine.stream.choice import Choice

# The control plane holds these objects under wider types of its own and passes them back; the
# engine checks them when it is called.
_Queue: TypeAlias = Any
_Consumer: TypeAlias = Any
_Credit: TypeAlias = Any

class Channel:
    """One channel of a connection; made by `Connection.open_channel`."""

    prefetch_count: int
    """For consumers made from now on; 0: no limit."""
    trace: object | None
    """Told of what is published and delivered here; None: nobody is. See `tracing`."""

    def __init__(
        self,
        connections: Connections,
        out: Output,
        number: int,
        session: object,
        account: Account,
    ) -> None: ...
    @property
    def number(self) -> int: ...
    @property
    def closing(self) -> bool:
        """channel.close was sent: all but close and close-ok is ignored."""

    @property
    def closed(self) -> bool:
        """Nothing is delivered or confirmed any more."""

    @property
    def confirming(self) -> bool: ...
    @property
    def transactional(self) -> bool: ...
    @property
    def unacked_count(self) -> int:
        """Unsettled deliveries, to consumers or by basic.get."""

    @property
    def published(self) -> int:
        """Messages that were sent here; those of transactions once they are committed."""

    @property
    def duplicates(self) -> int:
        """Mandatory messages that came to no queue, each as a duplicate of another one."""

    @property
    def acked(self) -> int:
        """Deliveries that were acknowledged."""

    @property
    def delivery_tag(self) -> int:
        """The last one; so many deliveries there were to its consumers and by basic.get."""

    @property
    def confirms(self) -> Confirms: ...
    @property
    def uncommitted(self) -> tuple[int, int]:
        """How many publishes, and how many settles, the transaction at hand has."""

    @property
    def global_credit(self) -> ChannelCredit | None:
        """The limit `prefetch_global`; None: there never was one."""

    @property
    def prefetch_global(self) -> int:
        """The limit of unsettled deliveries of all consumers of the channel; 0: none."""

    @prefetch_global.setter
    def prefetch_global(self, limit: int) -> None: ...
    def consume(
        self,
        queue: _Queue,
        tag: str,
        no_ack: bool,
        priority: int,
        prefetch: int,
        timeout_ms: int | None = None,
        timeout_requeues: bool | None = None,
        filter: Filter | None = None,  # noqa: A002 - the engine's word
    ) -> Consumer:
        """Start a consumer; deliveries begin with the next `Engine.run`.

        It gets the messages that pass its filter. Its timeout, and what happens to an overdue
        delivery, are its queue's unless they are given.
        """

    def credit(self, limit: int) -> Credit:
        """Make a limit of unsettled deliveries that several consumers of streams share."""

    def consume_stream(
        self,
        stream: _Queue,
        tag: str,
        prefetch: int,
        offset: int,
        choice: Choice | None = None,
        credit: _Credit | None = None,
        filter_class: str | None = None,
    ) -> StreamConsumer:
        """Start a consumer of a stream at an offset.

        It gets the messages of `choice` (None: all) that `filter_class` lets pass. It may share a
        `credit` with others.
        """

    def consume_retries(self, retries: _Queue, tag: str, credit: _Credit) -> Consumer:
        """Start a consumer of a group's retries, on the credit of one member."""

    def cancel(self, consumer: _Consumer) -> None:
        """End a consumer; its unsettled deliveries stay with the channel."""

    def mute(self) -> None:
        """Close: from now on nothing is delivered here, and nothing confirmed."""

    def end(self) -> Iterator[None]:
        """Close, in steps: end the consumers and requeue every unsettled delivery."""

    def drop_unsettled(self, consumer: _Consumer) -> None:
        """Forget the unsettled deliveries of a stream consumer; settling them later is no fault."""

    def get(self, queue: _Queue, no_ack: bool) -> bool:
        """Write basic.get-ok and the next message; returns False if the queue is empty."""

    def recovering(self) -> Generator[None]:
        """Requeue every unsettled delivery in its place, in steps."""

    def settling(self) -> Iterator[None]:
        """The steps of a settle of many deliveries that has begun."""

    def settling_all(self) -> Generator[None]:
        """The same, if none is requeued."""

    def requeuing(self) -> Generator[None]:
        """The same, if all are requeued."""

    def forget_exchange(self) -> None:
        """Ask the session again at the next publish: the user's permissions have changed."""

    def select_confirm(self) -> None: ...
    def select_tx(self) -> None: ...
    def append_to_streams(self) -> bool:
        """Append messages to streams before their commit, in a slice; return if there are more."""

    def commit(self) -> int:
        """tx.commit; returns the generation to wait for, 0 for none."""

    @property
    def tx_refused(self) -> bool:
        """A full queue refused a message of the last transaction that was committed."""

    def rollback(self) -> None: ...
