"""What all tests share: where files are, how brokers start, Spark, and the order of tests.

A process is given one module after the other. Those with slow tests go first, since one that is
begun last would leave the other processes without work. All that starts Spark is given to one
process, so that there is one Java, and it stays warm: its start takes ten seconds.
"""

import contextlib
import gc
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests import folder_in_memory
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

# How long an example takes says something of the machine alone.
settings.register_profile("leporid", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("leporid")

SLOW = (SPARK, "crash", "conformance", "slow")

FULL_S = 0.02
"""After a test in which a full collection takes longer, later ones pass over what that one kept."""
OLDEST = 2

PASSED = pytest.StashKey[bool]()
"""All tests did: then temporary folders go."""


class Scheduling(LoadScopeScheduling):
    """By modules, in the order in which they were collected, with Spark's tests together."""

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if SPARK in nodeid else super()._split_scope(nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the place of temporary folders, and have brokers forked.

    Not if the user has chosen a place, and not if brokers are those of another build. The other
    processes of a run are told of the place: by their environment, and by pytest.
    """
    chosen = config.option.basetemp or "TMPDIR" in os.environ
    if not hasattr(config, "workerinput") and not chosen and folder_in_memory.is_large():
        use_memory(config)
    if COMMAND_VARIABLE not in os.environ:
        preloaded = Preloaded(default_command()[0])
        BrokerProcess.launch = preloaded
        config.add_cleanup(preloaded.close)


def use_memory(config: pytest.Config) -> None:
    """Have temporary folders in memory, in this process and in those that it starts."""
    folder = folder_in_memory.hold()
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    config.option.basetemp = str(folder / "t")

    def clear() -> None:
        if config.stash.get(PASSED, False):
            shutil.rmtree(folder, ignore_errors=True)

    config.add_cleanup(clear)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling | None:
    return Scheduling(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(sched: LoadScopeScheduling) -> None:
    sched.config.stash[CRASHED] = True


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    COLLECTIONS.look_at_all()
    gc.freeze()  # pytest looks several times
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
        gc.callbacks.append(COLLECTIONS)


class Collections:
    """Keeps the garbage collector from what tests leave: those that come after would pay for it.

    Libraries that they load stay, and so do engines that they let go of with unsettled deliveries:
    these are in C's memory, where the collector does not look, so that such cycles look used.

    What is frozen is still freed with its last reference. In between tests little is about to
    become garbage that only the collector would find, and at the end it looks at all.
    """

    def __init__(self) -> None:
        self._began = 0.0
        self._slow = False

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        """A collection starts or stops."""
        if info["generation"] != OLDEST:
            return
        if phase == "start":
            self._began = time.process_time()
        elif time.process_time() - self._began > FULL_S:
            self._slow = True

    def freeze(self) -> None:
        """Have it look no more at what there is, if that has taken long."""
        if self._slow:
            gc.collect()
            gc.freeze()
            self._slow = False

    def look_at_all(self) -> None:
        """Find whatever is garbage, so that it is told what was not closed."""
        gc.unfreeze()
        gc.collect()
        self._slow = False


COLLECTIONS = Collections()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Have Spark prepared for tests on it, before the time of the first of them is taken."""
    if item.get_closest_marker(SPARK) and SPARK_OPTIONS not in os.environ:
        # Not at the top, since most tests need nothing of it.
        from tests.spark.java_classes import make_archive, use_archive, use_home

        # Without Java or Spark it is the test that says what is missing.
        with contextlib.suppress(ImportError, RuntimeError):
            use_home()
            marked = [each for each in item.session.items if each.get_closest_marker(SPARK)]
            if len(marked) >= SPARK_MANY:
                make_archive()
            use_archive()
    done = yield
    COLLECTIONS.freeze()
    return done


def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Have the last test of a process fail if something was not closed; later it may be unheard."""
    if nextitem is None:
        COLLECTIONS.look_at_all()


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
            # To compile a query costs more than a few rows do; the tests of the documentation, of
            # a cluster and of the command line run compiled ones.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        },
    )
    # It would stay slow for all tests that come after.
    assert SPARK_OPTIONS in os.environ, "a test on Spark that is not marked as one was the first"
    yield spark
    spark.stop()
