"""The bytes of programs, against their drawing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leporid.filters import program as program_module
from leporid.filters.dialects import Dialect
from leporid.filters.like import Wild
from leporid.filters.limits import PATTERN_BYTES_MAX
from leporid.filters.program import Assembler, Opcode
from leporid.filters.values import NUMBER_BYTES_MAX

# Not where the package is installed, which leaves out headers.
ENGINE = Path(__file__).parents[2] / "src" / "leporid" / "engine"


def test_bytes_are_as_drawn():
    assembler = Assembler(Dialect.ROCKETMQ)
    assembler.emit(Opcode.HEADER, assembler.header("é"))
    assembler.emit(Opcode.CONSTANT, assembler.constant(-2))
    assembler.emit(Opcode.EQUAL)
    program = assembler.finish("é = -2")
    assert program.text == "é = -2"
    assert program.dialect is Dialect.ROCKETMQ
    assert program.code == bytes.fromhex(
        "01 01 01 01 0004"  # version, dialect, headers, constants, instructions
        "02 c3a9"  # header
        "02 fffffffffffffffe"  # constant
        "02 00 0000  01 00 0000  11 00 0000  00 00 0000"
    )


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (None, "00"),
        (False, "01 00"),
        (True, "01 01"),
        (5, "02 0000000000000005"),
        (1.0, "03 3ff0000000000000"),
        (b"", "04 0000"),
        (b"ab", "04 0002 6162"),
        ((Wild.MANY, b"a", Wild.ONE), "05 0003 ff 61 fe"),
        ((), "05 0000"),
    ],
)
def test_constants(value, encoded):
    assembler = Assembler(Dialect.JMS)
    assembler.emit(Opcode.CONSTANT, assembler.constant(value))
    code = assembler.finish("").code
    assert code[6:-8] == bytes.fromhex(encoded)


def test_what_is_the_same_is_there_once():
    assembler = Assembler(Dialect.JMS)
    assert [assembler.header(name) for name in ("a", "b", "a")] == [0, 1, 0]
    # Neither true and 1, nor 1 and 1.0, are the same.
    assert [assembler.constant(one) for one in (1, True, 1.0, 1, b"1")] == [0, 1, 2, 0, 3]


def test_constants_of_a_list_stand_together():
    assembler = Assembler(Dialect.JMS)
    assembler.constant(1)
    assert assembler.constants([2, 1, 3]) == 1
    assert assembler.constant(4) == 4


def test_a_jump_leads_to_what_comes_next():
    assembler = Assembler(Dialect.JMS)
    assembler.emit(Opcode.CONSTANT, assembler.constant(True))
    jump = assembler.emit(Opcode.UNLESS_TRUE)
    assembler.emit(Opcode.CONSTANT, assembler.constant(True))
    assembler.emit(Opcode.OR)
    assembler.land(jump)
    code = assembler.finish("").code
    assert code[-16:-12] == bytes((Opcode.UNLESS_TRUE, 0, 0, 4))


def test_a_program_that_leaves_two_values_is_a_defect():
    assembler = Assembler(Dialect.JMS)
    for _ in range(2):
        assembler.emit(Opcode.ROUTING_KEY)
    with pytest.raises(AssertionError):
        assembler.finish("")


def numbers_in(header: str) -> dict[str, int]:
    """What the enumerations of a C header say."""
    text = (ENGINE / "selectors" / header).read_text(encoding="utf-8")
    body = " ".join(re.findall(r"enum \{(.*?)\}", text, re.DOTALL))
    return {name: int(value, 0) for name, value in re.findall(r"(\w+) = (0x[0-9a-f]+|-?\d+)", body)}


def test_the_engine_has_the_same_numbers():
    engine = numbers_in("selector.h")
    opcodes = {name: number for name, number in engine.items() if name.startswith("OP_")}
    assert opcodes.pop("OP_COUNT") == len(Opcode)
    assert opcodes == {f"OP_{opcode.name}": opcode.value for opcode in Opcode}
    for name in ("HEADERS_MAX", "STACK_MAX"):
        assert engine[name] == getattr(program_module, name)
    assert engine["PROGRAM_VERSION"] == program_module.VERSION
    assert engine["DIALECT_JMS"] == program_module.DIALECTS[Dialect.JMS]
    assert engine["DIALECT_ROCKETMQ"] == program_module.DIALECTS[Dialect.ROCKETMQ]
    pattern = numbers_in("pattern.h")
    assert pattern["PLACES_MAX"] == PATTERN_BYTES_MAX
    assert pattern["PLACES_MAX"] < pattern["LIMBS_MAX"] * 64
    assert numbers_in("matching.h")["NUMBER_BYTES_MAX"] == NUMBER_BYTES_MAX
