"""What is freed is kept, so that the kernel is not asked for it again and again."""

import ctypes
import resource
import subprocess
import sys

import pytest

from leporid.server import allocator

# Takes and frees what a batch takes, many times; prints how many pages the kernel had to give.
PROGRAM = """
import resource, sys
from leporid.server.allocator import keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory()
def use():
    parts = [bytearray(3 << 20) for _ in range(3)]
for _ in range(3):
    use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

ROUND_PAGES = 3 * (3 << 20) // resource.getpagesize()

# Frees every other block, which the C library keeps, and gives them back; prints the memory in use
# at each point.
SCATTERED = """
from leporid.server.alarms import memory_used
from leporid.server.allocator import give_back_freed_memory, keep_freed_memory
keep_freed_memory()
print(memory_used())
blocks = [bytearray(1 << 20) for _ in range(100)]
print(memory_used())
del blocks[::2]
print(memory_used())
give_back_freed_memory()
print(memory_used())
"""


def faults(kind: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.slow
def test_memory_that_was_freed_is_used_again():
    if not hasattr(ctypes.CDLL(None), "mallopt"):
        pytest.skip("this C library has no mallopt")
    assert faults("kept") < ROUND_PAGES < faults("as it is")


def test_a_c_library_without_such_settings_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert not allocator.keep_freed_memory()


@pytest.mark.slow
def test_what_is_free_between_used_blocks_is_given_back():
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("this C library has no malloc_trim")
    done = subprocess.run(
        [sys.executable, "-c", SCATTERED], capture_output=True, text=True, check=True
    )
    before, full, freed, given_back = [int(line) >> 20 for line in done.stdout.split()]
    assert full - before >= 95
    assert full - freed <= 10
    assert 45 <= given_back - before <= 60


def test_a_c_library_that_cannot_give_back(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    allocator.give_back_freed_memory()
