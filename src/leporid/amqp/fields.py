"""The elementary types of AMQP 0-9-1 from which methods and properties are declared.

Must not know methods or properties. Invariant: a reader takes only octets that are there and
raises nothing but `SyntaxFault`; a writer raises `ValueError` for what does not fit.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from leporid.amqp.constants import SHORTSTR_BYTES_MAX
from leporid.amqp.errors import SyntaxFault
from leporid.amqp.tables import Value, check_count, decode_table, encode_table

ARGUMENT_VALUES_MAX: Final = 256
"""In the table of a method, with those in tables and arrays within it: each takes three to six
microseconds to decode, to count and to store, in one piece: 1.4 ms for the largest of a binding."""

LONG_BYTES: Final = 4


class CutShort(SyntaxFault):
    """A value's octets are not all there."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """How values of one type are read and written.

    Attributes:
        name: The type's name in the specification.
        read: From octets and a position to the value and the position after it.
        write: From the value to octets.
        zero: What is written for a field that the specification reserves.
    """

    name: str
    read: Callable[[bytes, int], tuple[Any, int]]
    write: Callable[[Any], bytes]
    zero: bytes


def _number(name: str, form: str) -> FieldType:
    packed = struct.Struct(form)

    def read(data: bytes, at: int) -> tuple[int, int]:
        end = at + packed.size
        if end > len(data):
            raise CutShort(f"{name} reaches past the end")
        return packed.unpack_from(data, at)[0], end

    def write(value: int) -> bytes:
        try:
            return packed.pack(value)
        except struct.error as error:
            raise ValueError(f"{value!r} is out of range for {name}") from error

    return FieldType(name, read, write, bytes(packed.size))


def read_shortstr_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Reads a short string as it stands there, UTF-8 or not."""
    start = at + 1
    if start <= len(data):
        end = start + data[at]
        if end <= len(data):
            return data[start:end], end
    raise CutShort("shortstr reaches past the end")


def write_shortstr_bytes(octets: bytes) -> bytes:
    """Writes octets as a short string."""
    if len(octets) > SHORTSTR_BYTES_MAX:
        raise ValueError(f"shortstr is longer than {SHORTSTR_BYTES_MAX} bytes: {octets[:40]!r}…")
    return bytes((len(octets),)) + octets


def _read_shortstr(data: bytes, at: int) -> tuple[str, int]:
    octets, end = read_shortstr_bytes(data, at)
    try:
        return octets.decode("utf-8"), end
    except UnicodeDecodeError:
        raise SyntaxFault("Malformed UTF-8 in shortstr") from None


def _write_shortstr(value: str) -> bytes:
    return write_shortstr_bytes(value.encode("utf-8"))


def _read_longstr(data: bytes, at: int) -> tuple[bytes, int]:
    size, start = LONG.read(data, at)
    end = start + size
    if end > len(data):
        raise CutShort("longstr reaches past the end")
    return data[start:end], end


def _write_longstr(value: bytes) -> bytes:
    return LONG.write(len(value)) + value


def _read_table(data: bytes, at: int) -> tuple[dict[str, Value], int]:
    size, start = LONG.read(data, at)
    if start + size > len(data):
        raise CutShort("table reaches past the end")
    return decode_table(data, at)


def _read_arguments(data: bytes, at: int) -> tuple[dict[str, Value], int]:
    size, _ = LONG.read(data, at)
    # Each value takes an octet at least.
    if size > ARGUMENT_VALUES_MAX and at + LONG_BYTES + size <= len(data):
        check_count(data, at, ARGUMENT_VALUES_MAX)
    return _read_table(data, at)


def _no_codec(*_: object) -> Any:
    raise AssertionError("bits are packed together by what declares them")


OCTET: Final = _number("octet", ">B")
SHORT: Final = _number("short", ">H")
LONG: Final = _number("long", ">I")
LONGLONG: Final = _number("longlong", ">Q")
SHORTSTR: Final = FieldType("shortstr", _read_shortstr, _write_shortstr, b"\x00")
LONGSTR: Final = FieldType("longstr", _read_longstr, _write_longstr, bytes(4))
TABLE: Final = FieldType("table", _read_table, encode_table, bytes(4))
ARGUMENTS: Final = FieldType("table", _read_arguments, encode_table, bytes(4))
"""A table in a method: of `ARGUMENT_VALUES_MAX` values at most."""
BIT: Final = FieldType("bit", _no_codec, _no_codec, b"")

Octet = Annotated[int, OCTET]
Short = Annotated[int, SHORT]
Long = Annotated[int, LONG]
LongLong = Annotated[int, LONGLONG]
ShortStr = Annotated[str, SHORTSTR]
LongStr = Annotated[bytes, LONGSTR]
Table = Annotated[dict[str, Value], ARGUMENTS]
Bit = Annotated[bool, BIT]
