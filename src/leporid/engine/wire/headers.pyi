# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of headers.pyx."""

def text_value(text: str) -> bytes:
    """Text as the value of a field."""

def number_value(number: int, letter: bytes = b"l") -> bytes:
    """A number of 64 bits as the value of a field: `l`, or `T` for a time in seconds."""

def array_value(values: list[bytes]) -> bytes:
    """An array of encoded values as the value of a field."""

def table_value(fields: dict[bytes, bytes]) -> bytes:
    """A table of encoded values, by name, as the value of a field."""

def text_in(value: bytes | None) -> str | None:
    """The text of an encoded value; None: it is none."""

def number_in(value: bytes | None) -> int | None:
    """The number of an encoded value of any integer type; None: it has another one."""

def texts_in(value: bytes | None) -> list[str]:
    """The texts in an encoded array, without its other elements; [] if it is no array."""

def first_in(value: bytes | None) -> bytes | None:
    """The first element of an encoded array, as it is encoded; None: it has none."""

def field_in(value: bytes | None, name: bytes) -> bytes | None:
    """The encoded value of a field of an encoded table; None: it has none of that name."""

def header_of(properties: bytes, name: bytes) -> bytes | None:
    """The encoded value of a header, its type first; None: there is none."""

def with_headers(
    properties: bytes, changes: dict[bytes, bytes | None], expires: bool = True
) -> bytes:
    """The properties with other headers; None for one that goes. Those that are new come last.

    `expires` says whether the property expiration stays.
    """

def expiration_of(properties: bytes) -> str | None:
    """The property expiration; None: there is none."""

def with_reply_to(properties: bytes, address: str) -> bytes:
    """The properties with another reply-to address in the place of the one that they have."""

class Deaths:
    """The header x-death of a message that dies once more."""

    @property
    def first(self) -> bool:
        """It has not died before."""

    @property
    def own(self) -> bytes | None:
        """Its entry for this queue and reason, encoded, with this time counted."""

    @property
    def others(self) -> bytes:
        """All other entries, encoded one after the other."""

    @property
    def before(self) -> set[str]:
        """The queues in which it has died since a consumer rejected it."""

    def __init__(self, value: bytes | None, queue: str, reason: str) -> None: ...
