"""Methods: the payload of a method frame, read and written.

The refusals are faults, each with a code that AMQP has. What is read must be written so that it is
read as the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.drawing import Drawing
from fuzz.methods_drawn import METHODS, a_method, drawn

from leporid.amqp.errors import Fault
from leporid.amqp.methods import decode


def one(data: bytes) -> None:
    """Read a method, as it is and cut short."""
    try:
        method = decode(data)
    except Fault as fault:
        assert 300 <= fault.code < 600
        assert fault.text.encode()
        return
    written = method.encode()
    assert decode(written) == method
    assert written[:4] == data[:4]
    repr(method).encode("utf-8", "backslashreplace")
    try:
        decode(data[:-1])
    except Fault:
        pass


def seeds() -> Iterator[bytes]:
    """Every method, several times."""
    drawing = Drawing(1)
    for _ in range(4):
        for made in METHODS:
            yield drawn(made, drawing).encode()


def mutate(_data: bytes, drawing: Drawing) -> bytes:
    """Another method."""
    return a_method(drawing).encode()
