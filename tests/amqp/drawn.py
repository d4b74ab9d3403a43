"""What Hypothesis draws to fill tables, properties and methods."""

from decimal import Decimal

from hypothesis import strategies as st

from leporid.amqp.tables import (
    ByteArray,
    Float32,
    Int8,
    Int16,
    Int32,
    Int64L,
    LongString,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
    Value,
)


def is_text(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def unsigned(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << bits) - 1)


# What st.text() would draw, but asked for by category: by codec, a first run without Hypothesis's
# cache spends seconds on trying every character, and fails the check that drawing is quick.
characters = st.characters(exclude_categories=["Cs"])


def text(bytes_max: int) -> st.SearchStrategy[str]:
    """Strings that can be sent, up to a length in UTF-8."""
    drawn = st.text(characters, max_size=bytes_max)
    return drawn.filter(lambda value: len(value.encode()) <= bytes_max)


def decimals() -> st.SearchStrategy[Decimal]:
    return st.builds(
        lambda unscaled, scale: Decimal(
            (int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale)
        ),
        signed(32),
        unsigned(8),
    )


scalars: st.SearchStrategy[Value] = st.one_of(
    st.none(),
    st.booleans(),
    signed(64),
    signed(8).map(Int8),
    unsigned(8).map(UInt8),
    signed(16).map(Int16),
    unsigned(16).map(UInt16),
    signed(32).map(Int32),
    unsigned(32).map(UInt32),
    signed(64).map(Int64L),
    unsigned(64).map(Timestamp),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(Float32),
    decimals(),
    st.text(characters),
    st.binary().map(ByteArray),
    st.binary().filter(lambda octets: not is_text(octets)).map(LongString),
)

keys = text(20)

values: st.SearchStrategy[Value] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=6,
)

tables: st.SearchStrategy[dict[str, Value]] = st.dictionaries(keys, values, max_size=4)
