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
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def sentence_alone(method: Callable[P, R]) -> Callable[P, R]:
    """Have what a method that Spark calls raises come without the way it went through this package.

    Spark puts the traceback in front of the sentence, and users read from the top.
    """

    @functools.wraps(method)
    def call(*arguments: P.args, **more: P.kwargs) -> R:
        try:
            return method(*arguments, **more)
        except SparkSourceError as error:
            raise error.with_traceback(None) from None

    return call


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
