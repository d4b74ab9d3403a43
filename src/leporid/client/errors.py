"""What can go wrong, as exceptions.

    ClientError
    ├── LocalProtocolError    the program asked for what AMQP or this broker does not have
    ├── RemoteProtocolError   the broker sent what AMQP does not allow
    ├── ConnectFailed         no address could be connected to
    ├── ConnectionLost        the connection is gone, and will not come back by itself
    ├── Timeout               an answer did not come in time; also a TimeoutError
    ├── ConsumerCancelled     the broker ended a consumer, as when its queue is deleted
    ├── ApiError              the HTTP API refused a request, or nobody answers there
    ├── ServerClosed          the broker closed a channel or the connection; a class for each code
    └── PublishError          a message that was published was not kept
        ├── Returned          no queue wanted it
        └── Nacked            the broker refused it, as when a queue is full

Must not know who raises. Invariant: `server_closed` gives the class that `code` has.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from leporid.amqp.constants import METHOD_IDS, ReplyCode

if TYPE_CHECKING:
    from leporid.client.message import Message

_E = TypeVar("_E", bound=BaseException)
_METHOD_NAMES = {ids: name for name, ids in METHOD_IDS.items()}


class ClientError(Exception):
    """Above every error of the client."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and pickled without `__init__`, which wants what the text was made from."""
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(kind: type[_E], args: tuple[Any, ...], attributes: dict[str, Any]) -> _E:
    made = kind.__new__(kind, *args)
    made.args = args
    made.__dict__.update(attributes)
    return made


def fresh(error: _E) -> _E:
    """Returns an error to be raised once, of one that is kept.

    One object that is raised again and again collects a traceback of all these times, and keeps
    what was held there: messages, and consumers that have to end when nobody holds them.
    """
    return copy.copy(error) if isinstance(error, ClientError) else error.with_traceback(None)


class LocalProtocolError(ClientError):
    """The program asked for what cannot be done; nothing was sent.

    It says what to do instead.
    """


class RemoteProtocolError(ClientError):
    """The broker sent what AMQP 0-9-1 does not allow; the connection is given up."""


class ConnectFailed(ClientError):
    """No address could be connected to; the text has each with its reason."""


class ConnectionLost(ClientError):
    """The connection is gone, and what was asked for may have happened or not."""


class Timeout(ClientError, TimeoutError):
    """An answer did not come in time; the text says which, and how long it was waited for."""


class ApiError(ClientError):
    """The broker's HTTP API refused a request, or nobody answers there.

    Attributes:
        status: the status of HTTP; 0 without an answer.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ConsumerCancelled(ClientError):
    """The broker ended a consumer: its queue was deleted, or moved.

    Attributes:
        queue: the queue's name.
        consumer_tag: the consumer's tag.
    """

    def __init__(self, queue: str, consumer_tag: str) -> None:
        super().__init__(
            f"the broker cancelled consumer {consumer_tag!r} of queue {queue!r}: "
            "the queue was deleted or is not available"
        )
        self.queue = queue
        self.consumer_tag = consumer_tag


class ServerClosed(ClientError):
    """The broker closed a channel or the connection.

    Attributes:
        code: the reply code (AMQP 0-9-1, 1.3).
        text: the broker's words.
        method: the method that the broker blames, such as `queue.declare`; "" if it blames none.
        class_id: the class of that method, 0 if none.
        method_id: the method's number in its class, 0 if none.
        connection: whether the whole connection was closed.
    """

    CODE: ClassVar[int] = 0

    def __init__(
        self, code: int, text: str, class_id: int = 0, method_id: int = 0, *, connection: bool
    ) -> None:
        self.code = code
        self.text = text
        self.class_id = class_id
        self.method_id = method_id
        self.method: str = _METHOD_NAMES.get((class_id, method_id), "")
        self.connection = connection
        closed = "connection" if connection else "channel"
        blamed = f" (for {self.method})" if self.method else ""
        super().__init__(f"the broker closed the {closed}: {code} {text}{blamed}")


class ContentTooLarge(ServerClosed):
    """311: a message is larger than the broker takes."""

    CODE: ClassVar[int] = ReplyCode.CONTENT_TOO_LARGE


class NoRoute(ServerClosed):
    """312: a message has no queue."""

    CODE: ClassVar[int] = ReplyCode.NO_ROUTE


class NoConsumers(ServerClosed):
    """313: a message has no consumer."""

    CODE: ClassVar[int] = ReplyCode.NO_CONSUMERS


class ConnectionForced(ServerClosed):
    """320: an administrator, or the broker's shutdown, ended the connection."""

    CODE: ClassVar[int] = ReplyCode.CONNECTION_FORCED


class InvalidPath(ServerClosed):
    """402: there is no such virtual host, as older brokers say it."""

    CODE: ClassVar[int] = ReplyCode.INVALID_PATH


class AccessRefused(ServerClosed):
    """403: the user may not do this, or the password is wrong."""

    CODE: ClassVar[int] = ReplyCode.ACCESS_REFUSED


class NotFound(ServerClosed):
    """404: there is no such queue or exchange."""

    CODE: ClassVar[int] = ReplyCode.NOT_FOUND


class ResourceLocked(ServerClosed):
    """405: the queue is another connection's alone."""

    CODE: ClassVar[int] = ReplyCode.RESOURCE_LOCKED


class PreconditionFailed(ServerClosed):
    """406: what is asked for conflicts with what exists."""

    CODE: ClassVar[int] = ReplyCode.PRECONDITION_FAILED


class FrameError(ServerClosed):
    """501: the broker could not read a frame."""

    CODE: ClassVar[int] = ReplyCode.FRAME_ERROR


class SyntaxRefused(ServerClosed):
    """502: a frame has values that the broker cannot decode."""

    CODE: ClassVar[int] = ReplyCode.SYNTAX_ERROR


class CommandInvalid(ServerClosed):
    """503: a method that is not possible now."""

    CODE: ClassVar[int] = ReplyCode.COMMAND_INVALID


class ChannelFault(ServerClosed):
    """504: the channel is not open, or is open already."""

    CODE: ClassVar[int] = ReplyCode.CHANNEL_ERROR


class UnexpectedFrame(ServerClosed):
    """505: a frame where another kind was due."""

    CODE: ClassVar[int] = ReplyCode.UNEXPECTED_FRAME


class ResourceError(ServerClosed):
    """506: the broker lacks the resources."""

    CODE: ClassVar[int] = ReplyCode.RESOURCE_ERROR


class NotAllowed(ServerClosed):
    """530: the broker's rules forbid it, such as a virtual host that does not exist."""

    CODE: ClassVar[int] = ReplyCode.NOT_ALLOWED


class NotImplementedByBroker(ServerClosed):
    """540: the broker does not have this."""

    CODE: ClassVar[int] = ReplyCode.NOT_IMPLEMENTED


class InternalError(ServerClosed):
    """541: the broker has a defect."""

    CODE: ClassVar[int] = ReplyCode.INTERNAL_ERROR


_BY_CODE: dict[int, type[ServerClosed]] = {
    int(cls.CODE): cls for cls in ServerClosed.__subclasses__()
}


def server_closed(
    code: int, text: str, class_id: int = 0, method_id: int = 0, *, connection: bool
) -> ServerClosed:
    """Makes the error for a reply code; `ServerClosed` itself for one that AMQP does not have."""
    return _BY_CODE.get(code, ServerClosed)(code, text, class_id, method_id, connection=connection)


class PublishError(ClientError):
    """A message was published and not kept.

    Attributes:
        message: the message, with its key and properties.
        exchange: what it was published to.
    """

    def __init__(self, text: str, message: Message, exchange: str) -> None:
        super().__init__(text)
        self.message = message
        self.exchange = exchange


class Returned(PublishError):
    """No queue wanted a mandatory message.

    Attributes:
        code: the reply code, 312 for a message without a route.
        text: the broker's words.
    """

    def __init__(self, message: Message, exchange: str, code: int, text: str) -> None:
        super().__init__(
            f"the broker returned a message to exchange {exchange!r} with key {message.key!r}: "
            f"{code} {text}; bind a queue, or publish with mandatory=False",
            message,
            exchange,
        )
        self.code = code
        self.text = text


class Nacked(PublishError):
    """The broker refused a message, as when a queue is full and has `overflow="reject-publish"`."""

    def __init__(self, message: Message, exchange: str) -> None:
        super().__init__(
            f"the broker refused a message to exchange {exchange!r} with key {message.key!r} "
            "(basic.nack): a queue is full, or could not store it",
            message,
            exchange,
        )
