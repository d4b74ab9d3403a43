"""What Spark's Pythons of tests load before they fork, and not each of the forks for itself.

Spark has a daemon for each kind of work in Python, which forks its workers, some forty in one test
of the documentation. PySpark has each worker load what it needs, as libraries may start threads,
which a fork would miss. Those that are loaded here start none that a fork needs: OpenBLAS has one
thread, and jemalloc's gets a new one. A folder with this module is the first that Spark's Pythons
look into (see `java_classes.use_home`). Whatever else they run is left alone.

Must import nothing at its top that Python has not loaded anyway: every Python of Spark runs it.
"""

import os
import sys

DAEMONS = ("pyspark.daemon", "leporid.spark.daemon")
USUAL_WORKER = "pyspark.worker"
"""What runs functions on columns and rows; the others plan and write for data sources."""


def load(worker: str) -> None:
    """Import what workers of a kind do."""
    import gc
    import importlib

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    importlib.import_module(worker)
    for name in ("pyarrow", "pandas") if worker == USUAL_WORKER else ("leporid.spark.source",):
        importlib.import_module(name)
    # Else each fork would copy what the collector only looks at.
    gc.freeze()


if sys.orig_argv[1:2] == ["-m"] and sys.orig_argv[2:3][0] in DAEMONS:
    load(sys.orig_argv[3])
