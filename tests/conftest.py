"""What all tests share: temporary folders, how brokers start, Spark, order and place of tests.

A process is given one module after the other. Those with slow tests go first, since one that is
begun last would leave the other processes without work. All that starts Spark is given to one
process, so that there is one Java, and it stays warm: its start takes ten seconds.

Temporary folders are in memory where there is enough, as a sync costs nothing there and the suite
waits for many thousands. The tests that kill a broker lose nothing by it: what a killed process has
written is in the kernel's pages, and so survives, on a disk just as well. What is synced, and in
which order, is asserted of the calls (`tests/storage`), not of the disk.
"""

import contextlib
import fcntl
import gc
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.preloaded import Preloaded
from xdist.scheduler import LoadScopeScheduling

from leporid.testing.process import COMMAND_VARIABLE, BrokerProcess, default_command

SPARK = "spark"
SPARK_OPTIONS = "SPARK_SUBMIT_OPTS"
SPARK_MANY = 50
"""With so many tests on Spark its classes are archived first, as long as four starts take."""

CRASHED = pytest.StashKey[bool]()
CRASHED_STATUS = 70
"""A process of the run ended: that is never put down to other tests, as the Makefile does it."""

SLOW = (SPARK, "crash", "conformance", "slow")

MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 4 * 2**30
"""For two processes and what failed tests leave; containers have 64 MB there."""
PASSED = pytest.StashKey[bool]()


class Scheduling(LoadScopeScheduling):
    """By modules, in the order in which they were collected, with Spark's tests together."""

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if SPARK in nodeid else super()._split_scope(nodeid)


def memory_free() -> int:
    """Return how many bytes of files fit into memory."""
    if not os.access(MEMORY, os.W_OK):
        return 0
    try:
        found = os.statvfs(MEMORY)
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    available = (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    return min(found.f_bavail * found.f_frsize, *available, 2**62)


def _made_ns(folder: os.DirEntry[str]) -> int:
    try:
        return folder.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def hold_folder() -> Path:
    """Make a folder in memory that is this run's until its process ends; clear those of others.

    A run that was killed leaves its folder, and one in which tests failed leaves theirs to be
    looked at: the newest stays, so that failed tests which are run once more do not take away
    what they left the first time.
    """
    beginning = f"leporid-{os.getuid()}-"
    memory = os.open(MEMORY, os.O_RDONLY)
    try:
        # Between its making and its lock no other run may take the folder for one that was left.
        fcntl.flock(memory, fcntl.LOCK_EX)
        left = [each for each in os.scandir(MEMORY) if each.name.startswith(beginning)]
        for each in sorted(left, key=_made_ns)[:-1]:
            # It may be another run's, or go at this moment with the end of one.
            with contextlib.suppress(OSError):
                held = os.open(each.path, os.O_RDONLY)
                try:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(each.path, ignore_errors=True)
                finally:
                    os.close(held)
        folder = Path(tempfile.mkdtemp(prefix=beginning, dir=MEMORY))
        # Never closed: the lock goes with the process, however that ends.
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)
    finally:
        os.close(memory)
    return folder


def use_memory(config: pytest.Config) -> None:
    """Have temporary folders in memory, in this process and in those that it starts."""
    folder = hold_folder()
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    config.option.basetemp = str(folder / "t")

    def clear() -> None:
        if config.stash.get(PASSED, False):
            shutil.rmtree(folder, ignore_errors=True)

    config.add_cleanup(clear)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the place of temporary folders, and have brokers forked.

    Not if the user has chosen a place, and not if brokers are those of another build. The other
    processes of a run are told of the place: by their environment, and by pytest.
    """
    chosen = config.option.basetemp or "TMPDIR" in os.environ
    if not hasattr(config, "workerinput") and not chosen and memory_free() >= MEMORY_BYTES_MIN:
        use_memory(config)
    if COMMAND_VARIABLE not in os.environ:
        preloaded = Preloaded(default_command()[0])
        BrokerProcess.launch = preloaded
        config.add_cleanup(preloaded.close)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling | None:
    return Scheduling(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(sched: LoadScopeScheduling) -> None:
    sched.config.stash[CRASHED] = True


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash[PASSED] = session.exitstatus in (
        pytest.ExitCode.OK,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    )
    if session.config.stash.get(CRASHED, False):
        session.exitstatus = CRASHED_STATUS


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not hasattr(config, "workerinput"):
        return
    slow = Counter(item.path for item in items if any(map(item.get_closest_marker, SLOW)))
    items.sort(key=lambda item: (SPARK not in item.nodeid, -slow[item.path]))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from what stays until the end: a million objects of all tests.

    While they come it would look at them again and again, and later at each full collection, which
    some tests ask for: half a second each time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Have Java prepared for tests on Spark, before the time of the first of them is taken."""
    if item.get_closest_marker(SPARK) and SPARK_OPTIONS not in os.environ:
        # Not at the top, since most tests need nothing of it.
        from tests.spark.java_classes import make_archive, use_archive

        # Without Java or Spark it is the test that says what is missing.
        with contextlib.suppress(ImportError, RuntimeError):
            marked = [each for each in item.session.items if each.get_closest_marker(SPARK)]
            if len(marked) >= SPARK_MANY:
                make_archive()
            use_archive()
    return (yield)


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    # Not at the top, since most tests need nothing of it.
    from leporid.spark.session import session

    folder = tmp_path_factory.mktemp("spark")
    spark = session(
        "tests",
        master="local[2]",
        settings={
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.driver.memory": "1g",
            "spark.log.level": "ERROR",
            # As users have it who do not use our session: see the tests of push-down.
            "spark.sql.python.filterPushdown.enabled": "false",
        },
    )
    yield spark
    spark.stop()
