"""What the installed PySpark has of the API for data sources in Python.

PySpark 4.0 brought the API, and versions after it added to it. Each feature is asked for by its
name, never by a version's number. A class that is missing is replaced by an empty one, so that the
readers exist on every PySpark: on Spark 3.5, which has none of this, `legacy` calls them.

What is missing costs speed or is refused; a warning of one sentence says so when a query asks for
it. The table in docs/spark.md has all of it.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pyspark.sql.functions

VERSION: str = pyspark.__version__


def _module(name: str) -> Any:
    """Return a module, None if this PySpark does not have it."""
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


api = _module("pyspark.sql.datasource")
limits = _module("pyspark.sql.streaming.datasource")


class MissingClass:
    """Stands for a class that this PySpark does not have."""

    def __init__(self, value: Any = None) -> None:
        self.value = value


def _class(name: str, *instead: str) -> Any:
    """Return the first class of PySpark's that there is."""
    found = (getattr(api, each) for each in (name, *instead) if hasattr(api, each))
    return next(found, MissingClass)


HAS_SOURCES = api is not None
DataSource = _class("DataSource")
DataSourceReader = _class("DataSourceReader")
DataSourceStreamReader = _class("DataSourceStreamReader")
DataSourceArrowWriter = _class("DataSourceArrowWriter")
InputPartition = _class("InputPartition")
WriterCommitMessage = _class("WriterCommitMessage")

# Since 4.1: predicates are pushed down, and a streaming query's rows come as Arrow batches.
HAS_PUSH_DOWN = hasattr(DataSourceReader, "pushFilters")
HAS_STREAM_ARROW_WRITER = hasattr(api, "DataSourceStreamArrowWriter")
DataSourceStreamWriter = _class("DataSourceStreamArrowWriter", "DataSourceStreamWriter")

# Since 4.1, too: functions in SQL give Arrow batches.
HAS_ARROW_FUNCTIONS = hasattr(pyspark.sql.functions, "arrow_udtf")

# Since 4.2: Spark tells a source where a batch starts and takes a limit from it.
HAS_LIMITS = limits is not None
SupportsTriggerAvailableNow: Any = limits.SupportsTriggerAvailableNow if limits else object


# ---------------------------------------------------------------- sentences


def no_push_down() -> str:
    """Say that predicates stay with Spark."""
    return (
        f"option pushDownFilters is ignored: PySpark {VERSION} tells a source in Python nothing of "
        f"predicates, 4.1 does; the options filter and routingKeyPattern leave records out as well"
    )


def no_limits(names: list[str]) -> str:
    """Say that batches have no limit."""
    plural = len(names) > 1
    return (
        f"option{'s' if plural else ''} {' and '.join(names)} {'are' if plural else 'is'} ignored: "
        f"PySpark {VERSION} takes no limits from a source in Python, 4.2 does; a batch has all "
        f"there is"
    )


def no_stream_arrow_writer() -> str:
    """Say that writing is slow."""
    return (
        f"PySpark {VERSION} gives a streaming sink in Python its rows one by one, which is slower "
        f"than Arrow batches, as 4.1 gives them"
    )
