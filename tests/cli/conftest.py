"""A broker that the tests of the command line share, and the command line, run in-process."""

from __future__ import annotations

import io
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pika
import pytest

from leporid.cli.main import main
from leporid.testing import BrokerProcess


class CommandLine:
    """`leporid …` in this process.

    Attributes:
        error: what the last command wrote to standard error.
        out: what it wrote to standard output.
    """

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self.error = self.out = ""

    def __call__(self, *arguments: str, code: int = 0, stdin: bytes = b"") -> str:
        """Run a command, which must end with that exit code; return what it wrote."""
        ended, out = self._run(arguments, stdin)
        told = f"leporid {' '.join(arguments)}: {ended}"
        assert ended == code, f"{told}\n{out}{self.error}"
        return out

    def run(self, *arguments: str) -> int:
        """Run a command; return its exit code."""
        return self._run(arguments, b"")[0]

    def _run(self, arguments: Sequence[str], stdin: bytes) -> tuple[int, str]:
        given = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        self._monkeypatch.setattr(sys, "stdin", given)
        try:
            ended = main(arguments)
        except SystemExit as exit_:
            ended = int(exit_.code or 0)
        said = self._capsys.readouterr()
        self.error = said.err
        self.out = said.out
        return ended, said.out

    def json(self, *arguments: str, code: int = 0) -> Any:
        """Run a command with --json; return what it wrote."""
        return json.loads(self(*arguments, "--json", code=code))

    def rows(self, *arguments: str) -> list[dict[str, str]]:
        """Run a command that lists; return its table, as a pipe gets it."""
        header, *lines = self(*arguments).splitlines()
        names = header.split("\t")
        return [dict(zip(names, line.split("\t"), strict=True)) for line in lines]


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("cli") / "data") as broker:
        yield broker


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No context, no variable of who runs the tests."""
    for name in os.environ:
        if name.startswith("LEPORID_") and not name.startswith("LEPORID_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line, without a broker."""
    return CommandLine(capsys, monkeypatch)


@pytest.fixture
def leporid(
    cli: CommandLine, shared_broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """The command line on the shared broker."""
    monkeypatch.setenv("LEPORID_URL", f"http://127.0.0.1:{shared_broker.http_port}")
    return cli


_numbers = itertools.count()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Callable[..., str]:
    """Makes names that nobody else has."""

    def make(kind: str = "q") -> str:
        return f"{kind}-{os.getpid()}-{next(_numbers)}"

    return make


@pytest.fixture
def channel(shared_broker: BrokerProcess) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(shared_broker.url))
    yield connection.channel()
    if connection.is_open:
        connection.close()
