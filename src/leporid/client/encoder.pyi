from leporid.amqp.tables import Value

class EncodedProperties:
    @property
    def flags(self) -> int: ...
    @property
    def head(self) -> bytes: ...
    @property
    def tail(self) -> bytes: ...
    def raw(self) -> bytes: ...

class Output:
    def __len__(self) -> int: ...

def check_name(text: object, what: str) -> None: ...
def encode_properties(
    *,
    content_type: str | None = None,
    content_encoding: str | None = None,
    headers: dict[str, Value] | None = None,
    delivery_mode: int | None = None,
    priority: int | None = None,
    correlation_id: str | None = None,
    reply_to: str | None = None,
    expiration: str | None = None,
    message_id: str | None = None,
    timestamp: int | None = None,
    type: str | None = None,  # noqa: A002  (the property's name)
    user_id: str | None = None,
    app_id: str | None = None,
) -> EncodedProperties: ...
