"""The C headers, each entry point by itself, under the sanitizers: nothing reads past its input.

Through the engine a byte read too many has no consequence that a test could see.
"""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engine.frames import properties
from tests.engine.wire.test_due_time import DELAYS, headers
from tests.engine.wire.test_rewrites import ODD

from leporid.filters.compiler import program
from leporid.filters.dialects import Dialect

HERE = Path(__file__).parent
ENGINE = Path(__file__).parents[3] / "src" / "leporid" / "engine"
pytestmark = pytest.mark.slow

COMPILER = shutil.which("gcc") or shutil.which("cc")
FLAGS = ["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
PROPERTIES, VALUE, PROGRAM, BYTES, BEYOND = range(5)

SELECTORS = [
    ("a = 1 OR b > c OR p.type = 'x' OR p.timestamp > 1 OR routing_key = 'k'", Dialect.JMS),
    ("x LIKE '%\xff_b%c' AND NOT (y IN ('a', 'b', 3) OR z BETWEEN 1 AND 2.5)", Dialect.JMS),
    ("d * 2 + 1 > l / 3 - -s AND exchange LIKE 'e%'", Dialect.JMS),
    (f"x LIKE '{'_%' * 60}b'", Dialect.JMS),
    ("TAGS = 'a' OR x CONTAINS 'b' OR x STARTSWITH 'c' OR x ENDSWITH 'd'", Dialect.ROCKETMQ),
    ("a > 1 AND b = TRUE AND c BETWEEN 1 AND 2 AND d IN ('x')", Dialect.ROCKETMQ),
]


def changed(data: bytes, chance: random.Random, times: int) -> Iterator[bytes]:
    """The bytes, cut everywhere, and with a few of them changed."""
    yield data
    for length in range(len(data)):
        yield data[:length]
    for _ in range(times):
        raw = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            raw[chance.randrange(len(raw))] = chance.choice((0, 1, 127, 128, 255, 83, 70, 65))
        yield bytes(raw)


def inputs() -> Iterator[tuple[int, bytes]]:
    chance = random.Random(1)
    odd = properties(headers=ODD, message_id="m", delivery_mode=2, timestamp=5)
    every = properties(headers=ODD, priority=3, reply_to="r", expiration="60", user_id="u")
    programs = [program(text, dialect).code for text, dialect in SELECTORS]
    for data in (b"\0\0", b"\x10\0\x02", odd, every):
        for raw in changed(data, chance, 400):
            yield PROPERTIES, raw
            yield PROGRAM, chance.choice(programs)
    for raw in changed(ODD[4:], chance, 300):
        yield VALUE, raw
    for encoded, _, _ in DELAYS:
        yield PROPERTIES, headers(**{"x-delay": encoded})
    yield PROPERTIES, every
    for code in programs:
        for raw in changed(code, chance, 200):
            yield PROGRAM, raw
    for length in range(40):
        yield BYTES, chance.randbytes(length)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that calls the headers; skipped where the sanitizers are not installed."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    built = tmp_path_factory.mktemp("fuzz") / "fuzz"
    folders = [f"-I{ENGINE / name}" for name in ("wire", "selectors")]
    probe = [COMPILER, *FLAGS, "-x", "c", "-", "-o", str(built)]
    if subprocess.run(probe, input=b"int main(void){return 0;}", capture_output=True).returncode:
        pytest.skip("no sanitizers")
    command = [COMPILER, *FLAGS, *WARNINGS, *folders, str(HERE / "fuzz.c"), "-o", str(built), "-lm"]
    compiled = subprocess.run(command, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    return built


def test_whatever_comes_no_byte_beyond_it_is_read(driver):
    stream = b"".join(struct.pack("=II", kind, len(raw)) + raw for kind, raw in inputs())
    ran = subprocess.run([driver], input=stream, capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, b"done\n"), ran.stderr.decode()[-3000:]


def test_a_byte_too_many_would_be_seen(driver):
    stream = struct.pack("=II", BEYOND, 5) + b"bytes"
    ran = subprocess.run([driver], input=stream, capture_output=True, check=False)
    assert b"heap-buffer-overflow" in ran.stderr
