"""What the values of a pipeline's arguments may be, as far as that is known without a broker.

Responsible for refusing what is wrong in itself, with a reason, before anything is started. Must
not know which pipeline has which arguments. Each function is a `type` of argparse: what it raises,
argparse tells, and a file of pipelines with the line.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Final, TypeVar

# What Spark takes as a master.
MASTER: Final = re.compile(r"local(-cluster)?(\[.+\])?|spark://.+|k8s://.+|yarn")
# A short string (AMQP 0-9-1 4.2.5.3).
ROUTING_KEY_BYTES_MAX: Final = 255


def seconds(text: str) -> float:
    """Read a time that something may take; raises what argparse tells."""
    return _at_least(0.0, text)


def number(text: str) -> int:
    """Read how many of something there are, at least one; likewise."""
    return _at_least(1, text)


def number_or_0(text: str) -> int:
    """Read a number of something that there may be none of; likewise."""
    return _at_least(0, text)


Number = TypeVar("Number", int, float)


def _at_least(least: Number, text: str) -> Number:
    try:
        value = type(least)(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not value >= least:
        raise argparse.ArgumentTypeError(f"{text} is below {least:g}")
    return value


def master(text: str) -> str:
    """Read where Spark runs; likewise."""
    if not MASTER.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a master: expected local[N], spark://HOST:PORT, yarn, …"
        )
    return text


def remote(text: str) -> str:
    """Read where a Spark Connect server is; likewise."""
    if not text.startswith(("sc://", "local")):
        raise argparse.ArgumentTypeError(f"{text!r} is not sc://HOST:PORT")
    return text


def file(text: str) -> str:
    """Read the name of a file that is there; likewise."""
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text!r}")
    return text


def routing_key(text: str) -> str:
    """Read a routing key; likewise."""
    if len(text.encode()) > ROUTING_KEY_BYTES_MAX:
        most = ROUTING_KEY_BYTES_MAX
        raise argparse.ArgumentTypeError(f"it has more than {most} bytes")
    return text
