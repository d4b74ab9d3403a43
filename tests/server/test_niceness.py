"""Threads stand back behind the broker's own."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from leporid.server.niceness import NICENESS_MAX, yield_to_messages


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="only there threads have a priority each")
@pytest.mark.parametrize("more", [5, 1000])
def test_a_thread_stands_back_and_no_other(more: int):
    before = niceness()
    with ThreadPoolExecutor(1, initializer=yield_to_messages, initargs=(more,)) as pool:
        assert pool.submit(niceness).result() == min(before + more, NICENESS_MAX)
    assert niceness() == before
