import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from leporid.client.delivery import Delivery, Inbox, Settler
from leporid.client.encoder import EncodedProperties, Output
from leporid.client.message import Body, Message
from leporid.client.publishes import Batch, Unconfirmed

class ChannelCodec(Settler):
    connection: ConnectionCodec
    number: int
    unconfirmed: Unconfirmed | None
    def __init__(self, connection: ConnectionCodec, number: int, owner: Any) -> None: ...
    @property
    def unsettled(self) -> int: ...
    def attach(self, inbox: Inbox) -> None: ...
    def detach(self, inbox: Inbox, requeue: bool) -> None: ...
    def end(self, error: Exception) -> None: ...
    def free(self) -> None: ...
    def no_ack(self, delivery: Delivery) -> None: ...
    def begin_transaction(self) -> None: ...
    def end_transaction(self, committed: bool) -> None: ...
    def requeue(self, tag: int) -> None: ...
    def write(self, payload: bytes) -> None: ...
    def publish(
        self,
        exchange: str,
        key: str,
        properties: EncodedProperties,
        body: bytes,
        mandatory: bool,
        waiter: asyncio.Future[None] | Batch | None,
    ) -> None: ...
    def publish_run(
        self,
        batch: Batch,
        messages: Iterator[Body | Message],
        exchange: str,
        key: str,
        properties: EncodedProperties,
        mandatory: bool,
        most: int,
    ) -> bool: ...
    def publish_one(
        self,
        batch: Batch,
        message: Body | Message,
        exchange: str,
        key: str,
        properties: EncodedProperties,
        mandatory: bool,
    ) -> None: ...
    def republish(self) -> int: ...

class ConnectionCodec:
    output: Output
    loop: asyncio.AbstractEventLoop
    paused: bool
    thread: int
    payload_max: int
    message_bytes_max: int
    received: int
    sent: int
    def __init__(
        self,
        owner: Any,
        loop: asyncio.AbstractEventLoop,
        flusher: Callable[[], None],
        frame_bytes_max: int,
        message_bytes_max: int,
    ) -> None: ...
    def tune(self, frame_bytes_max: int) -> None: ...
    def get_buffer(self) -> memoryview: ...
    def buffer_updated(self, n: int) -> None: ...
    def write(self, payload: bytes) -> None: ...
    def write_heartbeat(self) -> None: ...
    def write_octets(self, octets: bytes) -> None: ...
    def pause(self, paused: bool) -> None: ...
    def output_bytes(self) -> bytes: ...
