"""What a method is, and the one codec for all of them.

    class_id:uint16 method_id:uint16 arguments

A method is declared as a class whose annotations, in order, are the arguments on the wire. Those
under ClassVar are reserved by the specification: sent as zero, and not looked at on arrival.
Must not know any particular method. Invariant: `decode` raises nothing but a `Fault`, and
`decode(method.encode()) == method`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from inspect import get_annotations
from itertools import groupby
from typing import Any, ClassVar, Final, TypeVar, dataclass_transform, get_args, get_origin

from leporid.amqp.constants import METHOD_IDS
from leporid.amqp.errors import CommandInvalid, Fault, FrameError
from leporid.amqp.fields import BIT, OCTET, SHORT, CutShort, FieldType

_IDS_BYTES: Final = 4
"""Class and method, in front of the arguments."""

_SHOWN_BYTES_MAX: Final = 128
"""Octets of a malformed method that go into the reply text; they fill its 255 characters."""


class Method:
    """One method, client's or server's. The subclasses are frozen dataclasses.

    Attributes:
        CLASS_ID: Number of the class, such as 50 for queue.
        METHOD_ID: Number of the method within the class.
        NAME: The name in the specification, such as `queue.declare-ok`.
    """

    __slots__ = ()

    CLASS_ID: ClassVar[int]
    METHOD_ID: ClassVar[int]
    NAME: ClassVar[str]
    _PREFIX: ClassVar[bytes]
    _STEPS: ClassVar[tuple["_Step", ...]]

    def encode(self) -> bytes:
        """Encodes the payload of a method frame.

        Raises:
            ValueError: A field has no encoding, such as a short string of more than 255 bytes.
        """
        return self._PREFIX + b"".join([step.write(self) for step in self._STEPS])


class _Step:
    """One argument, or several bits that share an octet."""

    def write(self, method: Method) -> bytes:
        raise NotImplementedError

    def read(self, data: bytes, at: int, values: dict[str, Any]) -> int:
        """Puts what stands at `at` among the values, and returns the position after it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Plain(_Step):
    name: str
    kind: FieldType

    def write(self, method: Method) -> bytes:
        return self.kind.write(getattr(method, self.name))

    def read(self, data: bytes, at: int, values: dict[str, Any]) -> int:
        values[self.name], at = self.kind.read(data, at)
        return at


@dataclass(frozen=True, slots=True)
class _Reserved(_Step):
    kind: FieldType

    def write(self, method: Method) -> bytes:
        return self.kind.zero

    def read(self, data: bytes, at: int, values: dict[str, Any]) -> int:
        return self.kind.read(data, at)[1]


@dataclass(frozen=True, slots=True)
class _Bits(_Step):
    """Neighbouring bits, the first in the lowest place (§4.2.5.2). A reserved one has no name."""

    names: tuple[str | None, ...]

    def write(self, method: Method) -> bytes:
        octet = 0
        for place, name in enumerate(self.names):
            if name is not None and getattr(method, name):
                octet |= 1 << place
        return OCTET.write(octet)

    def read(self, data: bytes, at: int, values: dict[str, Any]) -> int:
        octet, at = OCTET.read(data, at)
        for place, name in enumerate(self.names):
            if name is not None:
                values[name] = bool(octet & 1 << place)
        return at


_M = TypeVar("_M", bound=Method)
_BY_IDS: Final[dict[tuple[int, int], type[Method]]] = {}


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def method(name: str) -> Callable[[type[_M]], type[_M]]:
    """Makes a class the method of that name: a frozen dataclass that `decode` knows."""

    def declare(cls: type[_M]) -> type[_M]:
        steps = tuple(_steps(get_annotations(cls)))
        declared = dataclass(frozen=True, slots=True)(cls)
        declared.NAME = name
        declared.CLASS_ID, declared.METHOD_ID = METHOD_IDS[name]
        declared._PREFIX = SHORT.write(declared.CLASS_ID) + SHORT.write(declared.METHOD_ID)
        declared._STEPS = steps
        _BY_IDS[METHOD_IDS[name]] = declared
        return declared

    return declare


def _steps(annotations: dict[str, Any]) -> Iterator[_Step]:
    """Compiles annotations to steps; neighbouring bits become one."""
    for is_bit, group in groupby(map(_argument, annotations.items()), lambda each: each[1] is BIT):
        if is_bit:
            names = tuple(name for name, _ in group)
            assert len(names) <= 8, names
            yield _Bits(names)
        else:
            for name, kind in group:
                yield _Reserved(kind) if name is None else _Plain(name, kind)


def _argument(item: tuple[str, Any]) -> tuple[str | None, FieldType]:
    """Splits an annotation into the field's name, None for a reserved one, and its type."""
    name, annotation = item
    reserved = get_origin(annotation) is ClassVar
    if reserved:
        (annotation,) = get_args(annotation)
    kind = annotation.__metadata__[0]
    assert isinstance(kind, FieldType), name
    return (None if reserved else name), kind


def kind_of(payload: bytes) -> type[Method] | None:
    """Says what method the payload of a frame begins with, without a look at its arguments."""
    if len(payload) < _IDS_BYTES:
        return None
    return _BY_IDS.get((SHORT.read(payload, 0)[0], SHORT.read(payload, 2)[0]))


def decode(payload: bytes) -> Method:
    """Decodes the payload of a method frame.

    Raises:
        CommandInvalid: There is no such method.
        FrameError: The arguments are cut short or followed by something else (501, as in RabbitMQ).
        SyntaxFault: They are malformed otherwise. Either fault names the method.
    """
    if len(payload) < _IDS_BYTES:
        raise _undecodable(payload)
    class_id, at = SHORT.read(payload, 0)
    method_id, at = SHORT.read(payload, at)
    cls = _BY_IDS.get((class_id, method_id))
    if cls is None:
        raise CommandInvalid(f"unknown method {{{class_id},{method_id}}}")
    values: dict[str, Any] = {}
    try:
        _read_all(cls._STEPS, payload, at, values)
    except Fault as fault:
        fault.class_id, fault.method_id = class_id, method_id
        raise
    return cls(**values)


def _read_all(steps: tuple[_Step, ...], payload: bytes, at: int, values: dict[str, Any]) -> None:
    """Reads all arguments; words what is too short or too long as RabbitMQ does."""
    try:
        for step in steps:
            at = step.read(payload, at, values)
    except CutShort:
        at = -1
    if at != len(payload):
        raise _undecodable(payload[_IDS_BYTES:])


def _undecodable(octets: bytes) -> FrameError:
    """Makes the fault for arguments that do not parse: 501, as in RabbitMQ."""
    shown = ",".join(map(str, octets[:_SHOWN_BYTES_MAX]))
    return FrameError(f"cannot decode <<{shown}>>", logged=f"cannot decode {len(octets)} octets")
