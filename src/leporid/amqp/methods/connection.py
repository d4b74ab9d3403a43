"""The methods of classes connection and channel: a connection's own affairs.

Must not know when which is allowed. Field order is the order on the wire.
"""

from dataclasses import field
from typing import ClassVar

from leporid.amqp.fields import Bit, Long, LongStr, Octet, Short, ShortStr, Table
from leporid.amqp.methods.declaration import Method, method


@method("connection.start")
class ConnectionStart(Method):
    """The server introduces itself."""

    version_major: Octet = 0
    version_minor: Octet = 9
    server_properties: Table = field(default_factory=dict)
    mechanisms: LongStr = b"PLAIN"
    locales: LongStr = b"en_US"


@method("connection.start-ok")
class ConnectionStartOk(Method):
    """The client introduces itself and begins to authenticate."""

    client_properties: Table = field(default_factory=dict)
    mechanism: ShortStr = "PLAIN"
    response: LongStr = b""
    locale: ShortStr = "en_US"


@method("connection.secure")
class ConnectionSecure(Method):
    """The server asks for another step of authentication."""

    challenge: LongStr = b""


@method("connection.secure-ok")
class ConnectionSecureOk(Method):
    """The client answers the challenge."""

    response: LongStr = b""


@method("connection.tune")
class ConnectionTune(Method):
    """The server names its limits; 0 is none."""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


@method("connection.tune-ok")
class ConnectionTuneOk(Method):
    """The client settles the limits."""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


@method("connection.open")
class ConnectionOpen(Method):
    """The client chooses a virtual host."""

    virtual_host: ShortStr = "/"
    reserved_1: ClassVar[ShortStr]
    reserved_2: ClassVar[Bit]


@method("connection.open-ok")
class ConnectionOpenOk(Method):
    """The connection is ready."""

    reserved_1: ClassVar[ShortStr]


@method("connection.close")
class ConnectionClose(Method):
    """Either side ends the connection, and says why."""

    reply_code: Short = 0
    reply_text: ShortStr = ""
    class_id: Short = 0
    method_id: Short = 0


@method("connection.close-ok")
class ConnectionCloseOk(Method):
    """The last method on a connection."""


@method("connection.blocked")
class ConnectionBlocked(Method):
    """The server does not read publishers for now."""

    reason: ShortStr = ""


@method("connection.unblocked")
class ConnectionUnblocked(Method):
    """The server reads publishers again."""


@method("connection.update-secret")
class ConnectionUpdateSecret(Method):
    """The client renews its credentials, such as a token about to expire."""

    new_secret: LongStr = b""
    reason: ShortStr = ""


@method("connection.update-secret-ok")
class ConnectionUpdateSecretOk(Method):
    """The new secret is accepted."""


@method("channel.open")
class ChannelOpen(Method):
    """The client opens a channel."""

    reserved_1: ClassVar[ShortStr]


@method("channel.open-ok")
class ChannelOpenOk(Method):
    """The channel is ready."""

    reserved_1: ClassVar[LongStr]


@method("channel.flow")
class ChannelFlow(Method):
    """Either side asks the other to stop or resume sending content."""

    active: Bit = False


@method("channel.flow-ok")
class ChannelFlowOk(Method):
    """The request is heeded."""

    active: Bit = False


@method("channel.close")
class ChannelClose(Method):
    """Either side ends the channel, and says why."""

    reply_code: Short = 0
    reply_text: ShortStr = ""
    class_id: Short = 0
    method_id: Short = 0


@method("channel.close-ok")
class ChannelCloseOk(Method):
    """The last method on a channel."""
