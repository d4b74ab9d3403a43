"""The faults of AMQP 0-9-1: what a peer did wrong, as an exception with a reply code.

    Fault
    ├── closes the channel:    ContentTooLarge 311, AccessRefused 403, NotFound 404,
    │                          ResourceLocked 405, PreconditionFailed 406
    └── closes the connection: ConnectionForced 320, InvalidPath 402, FrameError 501,
                               SyntaxFault 502, CommandInvalid 503, ChannelFault 504,
                               UnexpectedFrame 505, ResourceError 506, NotAllowed 530,
                               NotImplementedFault 540, InternalFault 541

Must not know who raises or who answers. Invariant: `text` fits the reply-text of a close method.
Misuse of this package by our own code is a `ValueError`, never a fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from leporid.amqp.constants import CHANNEL_REPLY_CODES, SHORTSTR_BYTES_MAX, ReplyCode

if TYPE_CHECKING:
    from leporid.amqp.methods import Method


class Fault(Exception):
    """An error that closes a channel or a connection. Raise one of the subclasses.

    Attributes:
        code: The reply code.
        text: The reply text, `NAME - reason`, cut as RabbitMQ does when it is too long.
        class_id: Class of the method at fault, 0 if none; the dispatcher calls `blame`.
        method_id: Number of the method at fault, 0 if none; likewise.
        logged: What a log may say: the text, without what it quotes from a frame. That may be a
            password, or somebody's message.
    """

    CODE: ClassVar[ReplyCode] = ReplyCode.INTERNAL_ERROR

    def __init__(
        self, reason: str, *, connection: bool | None = None, logged: str | None = None
    ) -> None:
        """Makes the fault.

        Args:
            reason: What was wrong, without the name of the code.
            connection: True or False to close the connection or only the channel, where that
                is not what the code says.
            logged: What the log says in the reason's place, where that quotes octets of a frame.
        """
        self.code: int = int(self.CODE)
        self.text: str = _fit(f"{self.CODE.name} - {reason}")
        self.logged: str = self.text if logged is None else f"{self.CODE.name} - {logged}"
        self.class_id: int = 0
        self.method_id: int = 0
        self._connection = connection
        super().__init__(self.text)

    @property
    def closes_connection(self) -> bool:
        """Whether the whole connection goes, and not only the channel."""
        if self._connection is None:
            return self.code not in CHANNEL_REPLY_CODES
        return self._connection

    def blame(self, method: type[Method]) -> Self:
        """Name the method at fault (AMQP 0-9-1 §1.4.2.7), unless the fault names one itself."""
        if not self.class_id:
            self.class_id, self.method_id = method.CLASS_ID, method.METHOD_ID
        return self


def _fit(text: str) -> str:
    """Makes a text a short string; what it quotes from a peer may be long, or not UTF-8."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > SHORTSTR_BYTES_MAX:
        return encoded[: SHORTSTR_BYTES_MAX - 3].decode("utf-8", "ignore") + "..."
    return encoded.decode("utf-8")


class ContentTooLarge(Fault):
    """The message body is larger than we take."""

    CODE = ReplyCode.CONTENT_TOO_LARGE


class AccessRefused(Fault):
    """The user may not do this, or failed to log in."""

    CODE = ReplyCode.ACCESS_REFUSED


class NotFound(Fault):
    """There is no such exchange, queue or virtual host."""

    CODE = ReplyCode.NOT_FOUND


class ResourceLocked(Fault):
    """Somebody else holds the queue exclusively."""

    CODE = ReplyCode.RESOURCE_LOCKED


class PreconditionFailed(Fault):
    """What is asked for conflicts with what exists."""

    CODE = ReplyCode.PRECONDITION_FAILED


class BeingDeleted(PreconditionFailed):
    """What is asked for needs a name whose bearer is being deleted; asked again soon, it works.

    Clients over AMQP never see it: their method waits.
    """


class ConnectionForced(Fault):
    """The broker ends the connection for reasons of its own."""

    CODE = ReplyCode.CONNECTION_FORCED


class InvalidPath(Fault):
    """The virtual host's name makes no sense."""

    CODE = ReplyCode.INVALID_PATH


class FrameError(Fault):
    """A frame is malformed or too large."""

    CODE = ReplyCode.FRAME_ERROR


class SyntaxFault(Fault):
    """A frame holds values that cannot be decoded."""

    CODE = ReplyCode.SYNTAX_ERROR


class CommandInvalid(Fault):
    """The method is unknown or not possible in this state."""

    CODE = ReplyCode.COMMAND_INVALID


class ChannelFault(Fault):
    """The channel is not open, or is open already."""

    CODE = ReplyCode.CHANNEL_ERROR


class UnexpectedFrame(Fault):
    """A frame came where another kind was due."""

    CODE = ReplyCode.UNEXPECTED_FRAME


class ResourceError(Fault):
    """The broker lacks the resources to do this."""

    CODE = ReplyCode.RESOURCE_ERROR


class NotAllowed(Fault):
    """The request breaks a rule the peer agreed to."""

    CODE = ReplyCode.NOT_ALLOWED


class NotImplementedFault(Fault):
    """The broker does not offer this part of the protocol."""

    CODE = ReplyCode.NOT_IMPLEMENTED


class InternalFault(Fault):
    """The broker has a defect."""

    CODE = ReplyCode.INTERNAL_ERROR
