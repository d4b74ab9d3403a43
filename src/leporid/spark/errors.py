"""What can go wrong between Spark and the broker, as exceptions.

Spark shows the text of a Python exception to its user, far away from here: each text says what
happened, to what, and what to do.

    SparkSourceError
    ├── OptionError       an option, a column or a predicate cannot be used as given
    ├── BrokerError       the broker refused, with a status and a word
    ├── CutError          an answer ended before its end, or the broker cannot be reached
    ├── DataLossError     records that should be read are gone
    ├── LeaseError        a lease of messages ended before the work on them was done
    └── PublishError      the broker did not take all rows
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Generator, Iterator
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
C = TypeVar("C", bound=type)

# Where Spark says that a process is one of its workers, and where it looks, in such a process,
# whether the setting spark.sql.execution.pyspark.udf.hideTraceback.enabled is on.
RUNTIME = "SPARK_PYTHON_RUNTIME"
WORKER = "PYTHON_WORKER"
HIDE = "SPARK_HIDE_TRACEBACK"


def sentence_alone(method: Callable[P, R]) -> Callable[P, R]:
    """Have what a method that Spark calls raises come without the way it went through this package.

    Spark puts the traceback in front of the sentence, and users read from the top. Tracebacks of
    a user's own functions stay: the worker in which this raises ends with the error.
    """

    @functools.wraps(method)
    def call(*arguments: P.args, **more: P.kwargs) -> R:
        try:
            found = method(*arguments, **more)
        except SparkSourceError as error:
            raise _without_traceback(error) from None
        return cast(R, _rows_alone(found)) if isinstance(found, Generator) else found

    return call


def _rows_alone(rows: Iterator[T]) -> Iterator[T]:
    """Give what a method gives that raises in the middle."""
    try:
        yield from rows
    except SparkSourceError as error:
        raise _without_traceback(error) from None


def _without_traceback(error: SparkSourceError) -> SparkSourceError:
    if os.environ.get(RUNTIME) == WORKER:
        os.environ[HIDE] = "1"
    return error.with_traceback(None)


def sentences_alone(*names: str) -> Callable[[C], C]:
    """Do so for the methods of a class that have these names."""

    def change(cls: C) -> C:
        for name in names:
            setattr(cls, name, sentence_alone(getattr(cls, name)))
        return cls

    return change


class SparkSourceError(Exception):
    """The root of all errors raised by this package."""


class OptionError(SparkSourceError, ValueError):
    """An option, a column or a schema cannot be used as given."""


class BrokerError(SparkSourceError):
    """The broker refused a request.

    Args:
        message: the sentence for the user.
        status: the HTTP status.
        word: the broker's word for the error.
        facts: the body of the answer.
    """

    def __init__(self, message: str, status: int, word: str, facts: dict[str, object]) -> None:
        super().__init__(message)
        self.status = status
        self.word = word
        self.facts = facts

    def __reduce__(self) -> tuple[type[BrokerError], tuple[object, ...]]:
        return type(self), (str(self), self.status, self.word, self.facts)


class CutError(SparkSourceError, ConnectionError):
    """An answer ended before its end, or the broker cannot be reached."""


class DataLossError(SparkSourceError):
    """Records that should be read are gone, or the stream is another one than before."""


class LeaseError(SparkSourceError):
    """A lease of messages ended before the work on them was done: they come again."""


class PublishError(SparkSourceError):
    """The broker did not take all rows."""
