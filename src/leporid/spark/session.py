"""A Spark session that finds Java, this package and the right settings.

What Spark does with a data source in Python depends on the environment of the JVM it starts: which
Python its workers run, what they can import, which Java. `session` sets all that and starts Spark.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import leporid
from leporid.spark.java import Java, find_java, home_for_spark

log = logging.getLogger(__name__)

# Settings for a broker's data on a small machine; each can be overridden.
SETTINGS: dict[str, str] = {
    # A service has no browser in front of it, and the UI keeps a history in memory.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # 200 tasks for a thousand rows cost more than the rows.
    "spark.sql.shuffle.partitions": "2",
    # The broker's timestamps are instants; show them the same everywhere.
    "spark.sql.session.timeZone": "UTC",
    # For the option pushDownFilters; Spark refuses every query over such a reader without it.
    "spark.sql.python.filterPushdown.enabled": "true",
    # Two attempts of a task at once publish twice as much for nothing.
    "spark.speculation": "false",
    # PySpark's own prints a traceback after each limit(n).
    "spark.python.daemon.module": "leporid.spark.daemon",
}

# Java looks at every access to Arrow's memory, whether it is in bounds and whether the row has a
# value, and Spark at the latter once more: a third of a read's time. The columns come from pyarrow,
# and records look at each batch before Spark does.
OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
ARROW_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
LOGGING = Path(__file__).with_name("log4j2.properties")
# On a machine whose cores are shared with Python's workers, one that pauses costs less than one
# that works beside; pauses are milliseconds.
COLLECTOR = "-XX:+UseParallelGC"


def java_options(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return what Java shall be started with; users' own options come after it and win.

    Java does not start with two collectors, so one is chosen only if nobody else seems to choose.
    """
    given = " ".join([*settings.values(), *(environ.get(name, "") for name in OPTION_VARIABLES)])
    free = "GC" not in given and "SPARK_CONF_DIR" not in environ
    options = f"{ARROW_OPTIONS} {COLLECTOR}" if free else ARROW_OPTIONS
    return {f"spark.{role}.defaultJavaOptions": options for role in ("driver", "executor")}


def log_options(settings: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """Return with what Java the driver logs; nothing where somebody else says how."""
    given = " ".join([*settings.values(), *(environ.get(name, "") for name in OPTION_VARIABLES)])
    if "log4j" in given or "SPARK_CONF_DIR" in environ:
        return ""
    return f' "-Dlog4j2.configurationFile={LOGGING.as_uri()}"'


def prepare_environment(environ: dict[str, str] | os._Environ[str] = os.environ) -> Java:
    """Set what the JVM inherits; must come before the first session of the process.

    Returns:
        The Java that will be used.
    """
    java = find_java(environ)
    environ["JAVA_HOME"] = str(home_for_spark(java))
    # Workers import the data source by name, with the same Python as we are.
    environ.setdefault("PYSPARK_PYTHON", sys.executable)
    environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    environ["PYTHONPATH"] = with_package(environ.get("PYTHONPATH", ""))
    return java


def with_package(path: str) -> str:
    """Return a PYTHONPATH on which this very package is found."""
    root = str(Path(leporid.__file__).parents[1])
    parts = [part for part in path.split(os.pathsep) if part]
    return os.pathsep.join(parts if root in parts else [root, *parts])


def session(
    name: str = "leporid",
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
    metrics: Path | str | None = None,
) -> Any:
    """Start a Spark session, or return the one there is.

    Args:
        name: what Spark calls the application.
        master: `local[*]` (the default), `spark://…`, or what else Spark knows.
        remote: `sc://…` or `local[*]` for a Spark Connect session instead.
        settings: Spark's settings, which win over those of this module.
        metrics: a file for Prometheus with how far the streaming queries are; see `progress`.

    Raises:
        RuntimeError: there is no Java.
    """
    if master is not None and remote is not None:
        raise ValueError("give master or remote, not both")
    if remote is None or not remote.startswith("sc://"):
        java = prepare_environment()
        log.info("Spark runs on %s", java)
    # Spark reads the environment when it is imported, so that comes after.
    from pyspark.sql import SparkSession

    # PySpark prints each error as JSON, too, before it raises it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)

    builder: Any = SparkSession.builder.appName(name)
    builder = builder.master(master or "local[*]") if remote is None else builder.remote(remote)
    wanted = dict(SETTINGS)
    if remote is not None and remote.startswith("sc://"):
        # The server has its own; only what belongs to a session can be set from here.
        wanted = {key: value for key, value in wanted.items() if key.startswith("spark.sql.")}
    else:
        wanted["spark.executorEnv.PYTHONPATH"] = with_package("")
        wanted.update(java_options(settings or {}, os.environ))
        wanted["spark.driver.defaultJavaOptions"] += log_options(settings or {}, os.environ)
        if (remote or master or "local").startswith("local"):
            # A machine may have a name that does not resolve.
            wanted["spark.driver.host"] = "127.0.0.1"
            wanted["spark.driver.bindAddress"] = "127.0.0.1"
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for key, value in {**wanted, **(settings or {})}.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # A local Connect server starts with these settings; that a session cannot change them
        # afterwards is no loss.
        warnings.filterwarnings("ignore", r"(?s)Failed to set spark\..*CANNOT_MODIFY_CONFIG")
        spark = builder.getOrCreate()
    if metrics is not None:
        from leporid.spark.progress import follow

        follow(spark, metrics)
    return spark
