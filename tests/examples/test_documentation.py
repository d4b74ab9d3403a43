"""The pages of docs/ and README.md: their shell and Python blocks are run, as a reader would.

A page is one session. Its blocks run in their order: Python in one namespace, shell in one working
directory with one environment, against one real broker. Each page has a virtual host of its own.
Before a block runs, its text is changed in three places: the ports 5672, 15672 and 15692 become
those of the broker, and `%2F` becomes the page's virtual host. Nothing else is changed. What a
reader has, a block has, too:

- `pika`, and `channel` of an open `connection`, until the page makes its own;
- in hidden Python, `environ`: the shell's environment;
- the virtual environment first on PATH, and as `.venv`; a user who answers `secret` when asked;
- curl that fails on an error of HTTP (by its `.curlrc`);
- a Python block that begins with `# NAME.py` as that file.

Comments before a block, or between blocks, tell what the page's reader need not see:

    <!-- not run: REASON -->      the next block is not run
    <!-- output -->               the next block is what the last one prints; … stands for anything
    <!-- output alike -->         the same for JSON of which only names and types are the same
    <!-- given: PYTHON -->        run here: what the reader has already
    <!-- check: PYTHON -->        run here: whether what the page promises has happened

Pages on Spark run in one process of their own with one Java, in the virtual host `/`, and their
commands `leporid pipeline` within that process. To run some pages by themselves:

    python tests/examples/test_documentation.py docs/filters.md …
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pika
import pytest

from leporid.testing import BrokerProcess

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
SPARK: Final = ("pipelines.md", "spark-errors.md", "spark.md")
RUN: Final = ("python", "sh")
SHOWN: Final = ("json", "text", "toml")
# What is in the Markdown for other tools, and says nothing of a block.
OTHER_COMMENTS: Final = ("figures:", "settings:")
BLOCK_SECONDS: Final = 30
SPARK_SECONDS: Final = 400
NOT_RUN: Final = "not run"
REASON_CHARACTERS_MIN: Final = 10

_COMMENT: Final = re.compile(r"<!--(?P<comment>.*?)-->", re.DOTALL)
_FENCE: Final = re.compile(
    r"^(?P<ticks>`{3,})(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=ticks)[ ]*$",
    re.DOTALL | re.MULTILINE,
)
_PART: Final = re.compile(f"{_COMMENT.pattern}|{_FENCE.pattern}", re.DOTALL | re.MULTILINE)
_NOTE: Final = re.compile(r"\s*(?:(not run|given|check):(.*)|(output|output alike)\s*)", re.DOTALL)


class PageError(Exception):
    """A page cannot be read as this module's docstring says, or one of its blocks fails."""


@dataclass(frozen=True)
class Part:
    """A block, or a comment that is run.

    Attributes:
        kind: the language of a block; `given` or `check` for a comment.
        text: of it.
        line: of its first line of text, from 1.
        note: what the comment right before a block says: "", `output`, `output alike`, `not run`.
        reason: why it is not run.
    """

    kind: str
    text: str
    line: int
    note: str = ""
    reason: str = ""


def parts_of(markdown: str) -> list[Part]:
    """Return the blocks of a page and the comments that are run.

    Raises:
        PageError: a language or a comment that is not known; a block that is not run without a
            reason; a comment about a block without one; a fence that is not closed.
    """
    parts: list[Part] = []
    note, reason, note_end = "", "", 0
    for found in _PART.finditer(markdown):
        line = markdown.count("\n", 0, found.start()) + 1
        if note and markdown[note_end : found.start()].strip():
            raise PageError(
                f"line {line}: the comment '{note}' before it is not followed by a block"
            )
        if found["language"] is not None:
            language = found["language"].strip()
            if language not in RUN + SHOWN:
                raise PageError(f"line {line}: a block in '{language}'; known are {RUN + SHOWN}")
            parts.append(Part(language, found["text"], line + 1, note, reason))
            note = reason = ""
            continue
        if note:
            raise PageError(f"line {line}: '{note}' and another comment before one block")
        match = _NOTE.fullmatch(found["comment"])
        if match is None:
            if not found["comment"].strip().startswith(OTHER_COMMENTS):
                raise PageError(f"line {line}: a comment that is none of {_NOTE.pattern}")
        elif match[1] in ("given", "check"):
            parts.append(Part(match[1], match[2].strip("\n"), line + 1))
        else:
            note, reason = match[1] or match[3], (match[2] or "").strip()
            note_end = found.end()
            if note == NOT_RUN and len(reason) < REASON_CHARACTERS_MIN:
                raise PageError(f"line {line}: 'not run' without a reason")
    if note:
        raise PageError(f"the comment '{note}' is not followed by a block")
    if "```" in _PART.sub("", markdown):
        raise PageError("a fence is not closed")
    return parts


@dataclass
class Session:
    """A reader at work on one page.

    Attributes:
        page: where it is.
        folder: the working directory.
        broker: the ports: of AMQP, of HTTP.
        vhost: the page's virtual host, percent-encoded.
        ran: blocks that were run.
    """

    page: Path
    folder: Path
    broker: tuple[int, int]
    vhost: str
    ran: int = 0
    _namespace: dict[str, Any] = field(default_factory=dict)
    _environ: dict[str, str] = field(default_factory=dict)
    _printed: str = ""

    def run(self) -> None:
        """Run the page.

        Raises:
            PageError: a block failed, or did not print what the page shows.
        """
        amqp = f"amqp://guest:guest@127.0.0.1:{self.broker[0]}/{self.vhost}"
        self._prepare(amqp)
        parts = parts_of(self.page.read_text())
        with contextlib.ExitStack() as open_ones:
            if any(part.kind in ("python", "given", "check") for part in parts):
                # Nobody answers heartbeats while Spark is at work.
                parameters = pika.URLParameters(f"{amqp}?heartbeat=0")
                connection = open_ones.enter_context(pika.BlockingConnection(parameters))
                self._namespace |= {
                    "__name__": "__page__",
                    "pika": pika,
                    "connection": connection,
                    "channel": connection.channel(),
                    "environ": self._environ,
                }
                open_ones.callback(self._close)
            open_ones.enter_context(contextlib.chdir(self.folder))
            for part in parts:
                try:
                    self._take(part)
                except PageError as error:
                    raise PageError(f"{self._where(part)}: {error}") from error.__cause__

    def _prepare(self, amqp: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / ".curlrc").write_text("silent\nshow-error\nfail-with-body\n")
        if not (self.folder / ".venv").is_symlink():
            (self.folder / ".venv").symlink_to(sys.prefix)
        self._environ = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "CURL_HOME": str(self.folder),
            "LEPORID_AMQP_URL": amqp,
        }

    def _close(self) -> None:
        """End the connection that a page made itself; ours ends anyway."""
        if self._namespace["connection"].is_open:
            self._namespace["connection"].close()

    def _where(self, part: Part) -> str:
        return f"{name_of(self.page)}, line {part.line}"

    def _take(self, part: Part) -> None:
        if part.note == NOT_RUN:
            return
        text = self._here(part.text)
        if part.kind == "json":
            shown = json.loads(text)
            if part.note:
                expect_json(shown, self._printed, exactly=part.note == "output")
        elif part.note:
            expect_output(text, self._printed)
        elif part.kind == "toml":
            tomllib.loads(text)
        elif part.kind == "sh":
            self._printed = self._shell(text)
            self.ran += 1
        elif part.kind != "text":
            printed = self._python(part, text)
            if part.kind == "python":
                self._printed = printed
                self.ran += 1

    def _here(self, text: str) -> str:
        """A block's text for this test's broker."""
        amqp, http = self.broker
        for host in ("localhost", "127.0.0.1"):
            text = text.replace(f"{host}:5672", f"127.0.0.1:{amqp}")
            for port in (15672, 15692):
                text = text.replace(f"{host}:{port}", f"127.0.0.1:{http}")
        return text.replace("%2F", self.vhost)

    # ------------------------------------------------------------------ Python

    def _python(self, part: Part, text: str) -> str:
        named = re.match(r"# (\w+\.py)\n", text)
        if named is not None:
            (self.folder / named[1]).write_text(text)
        # So that a traceback has the page's lines.
        code = "\n" * (part.line - 1) + textwrap.dedent(text)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                exec(compile(code, str(self.page), "exec"), self._namespace)
            except Exception as error:
                raise PageError(f"{type(error).__name__}: {error}") from error
        return printed.getvalue()

    # ------------------------------------------------------------------ shell

    def _shell(self, text: str) -> str:
        commands = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
        if self.page.name in SPARK and all(one.startswith("leporid ") for one in commands):
            return "".join(self._in_process(one) for one in commands)
        state = self.folder / ".environ"
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", f"set -a\n{text}\nenv -0 > {state}"],
            env=self._environ,
            input="secret\n",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BLOCK_SECONDS,
            check=False,
            # Without a terminal, on which a password would be asked for.
            start_new_session=True,
        )
        if done.returncode != 0:
            raise PageError(f"exit code {done.returncode}: {done.stdout}")
        pairs = (one.partition("=") for one in state.read_text().split("\0") if one)
        self._environ.update((name, value) for name, _, value in pairs)
        return done.stdout

    def _in_process(self, command: str) -> str:
        from pyspark.sql import SparkSession

        from leporid.cli.main import main

        printed = io.StringIO()
        with contextlib.ExitStack() as replaced:
            replaced.enter_context(contextlib.redirect_stdout(printed))
            replaced.enter_context(contextlib.redirect_stderr(printed))
            # It is the session of the page's Python blocks, too.
            replaced.enter_context(mock.patch.object(SparkSession, "stop"))
            code = main(shlex.split(command)[1:])
        if code != 0:
            raise PageError(f"exit code {code}: {command}: {printed.getvalue()}")
        return printed.getvalue()


def expect_output(shown: str, printed: str) -> None:
    """Check that what a page shows was printed.

    Raises:
        PageError: a line of it was not, or not in this order.
    """
    at = 0
    lines = printed.splitlines()
    for line in shown.splitlines():
        pattern = ".*".join(re.escape(one) for one in line.rstrip().split("…"))
        while at < len(lines) and not re.fullmatch(pattern, lines[at].rstrip()):
            at += 1
        if at == len(lines):
            raise PageError(f"the page shows '{line}', but this was printed:\n{printed}")
        at += 1


def expect_json(shown: Any, printed: str, *, exactly: bool) -> None:
    """Check that a value is one of those that were printed as JSON, with anything around them.

    Raises:
        PageError: it is none of them.
    """
    decoder, at = json.JSONDecoder(), 0
    while (at := printed.find("{", at)) >= 0:
        try:
            found, at = decoder.raw_decode(printed, at)
        except ValueError:
            at += 1
            continue
        if alike(shown, found, exactly=exactly):
            return
    raise PageError(f"the page shows {shown}, but this was printed:\n{printed}")


def alike(shown: Any, found: Any, *, exactly: bool) -> bool:
    """Whether two values of JSON are the same, or have at least the same names and types."""
    if type(shown) is not type(found):
        return False
    if isinstance(shown, dict):
        return shown.keys() == found.keys() and all(
            alike(shown[name], found[name], exactly=exactly) for name in shown
        )
    if isinstance(shown, list):
        return len(shown) == len(found) and all(
            alike(one, other, exactly=exactly) for one, other in zip(shown, found, strict=True)
        )
    return not exactly or shown == found


# ---------------------------------------------------------------------- the pages


def name_of(page: Path) -> str:
    """A page's name as others write it."""
    return str(page.relative_to(ROOT) if page.is_relative_to(ROOT) else page.name)


def word_of(page: Path) -> str:
    """A word that a page alone has: its name, or of an index below the root that of its folder."""
    is_index = page.stem == "README" and page.parent != ROOT
    return (page.parent.name if is_index else page.stem).lower()


def vhost_of(page: Path) -> str:
    """The virtual host that a page has for itself."""
    return "%2F" if page.name in SPARK else word_of(page)


def config_of(pages: tuple[Path, ...]) -> str:
    """A configuration with the virtual hosts of pages, guest as an administrator of all, and admin
    for what guest may not do."""
    names = [word_of(page) for page in pages]
    lines = [f"vhosts = {json.dumps(names)}", "[users.guest]", 'password = "guest"']
    lines.append('tags = ["administrator"]')
    for name in ("/", *names):
        lines.append(f'[users.guest.permissions."{name}"]')
        lines += [f'{right} = ".*"' for right in ("configure", "write", "read")]
    lines += ["[users.admin]", 'password = "secret"', 'tags = ["administrator"]']
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def broker_for(pages: tuple[Path, ...], folder: Path) -> Iterator[BrokerProcess]:
    """A broker that has what pages need."""
    config = folder / "broker.toml"
    config.write_text(config_of(pages))
    with BrokerProcess(folder / "data", options=["--config", str(config)]) as process:
        yield process


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_for(PAGES, tmp_path_factory.mktemp("documentation")) as process:
        yield process


def has_blocks(page: Path) -> bool:
    return any(part.kind in RUN and part.note != NOT_RUN for part in parts_of(page.read_text()))


def test_every_block_is_known_and_has_a_reason_if_it_is_not_run():
    parts = [part for page in PAGES for part in parts_of(page.read_text())]
    assert all(part.reason for part in parts if part.note == NOT_RUN)
    assert sum(part.kind in RUN and part.note != NOT_RUN for part in parts) > 30


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name not in SPARK and has_blocks(page)],
    ids=name_of,
)
def test_blocks_run(page: Path, broker: BrokerProcess, tmp_path: Path):
    ports = broker.amqp_port, broker.http_port
    session = Session(page, tmp_path / "work", ports, vhost_of(page))
    session.run()
    assert session.ran > 0


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(SPARK_SECONDS)
def test_blocks_on_spark_run(broker: BrokerProcess, tmp_path: Path):
    """In a process of its own: commands end the session, which other tests may share."""
    pages = [str(page) for page in PAGES if page.name in SPARK]
    done = subprocess.run(
        [sys.executable, __file__, *pages],
        capture_output=True,
        text=True,
        timeout=SPARK_SECONDS,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [*SPARK]


# ---------------------------------------------------------------------- this module


def session_of(markdown: str, tmp_path: Path) -> Session:
    page = tmp_path / "page.md"
    page.write_text(textwrap.dedent(markdown))
    return Session(page, tmp_path / "work", (5672, 15672), "page")


@pytest.mark.parametrize(
    ("markdown", "reason"),
    [
        ("```\nx\n```\n", "a block in ''"),
        ("```bash\nx\n```\n", "a block in 'bash'"),
        ("```sh\nx\n", "not closed"),
        ("<!-- not run -->\n```sh\nx\n```\n", "a comment that is none of"),
        ("<!-- not run: -->\n```sh\nx\n```\n", "without a reason"),
        ("<!-- not run: needs a cluster -->\nText.\n```sh\nx\n```\n", "not followed by a block"),
        ("<!-- not run: needs a cluster -->\n", "not followed by a block"),
        ("<!-- notrun: needs a cluster -->\n", "a comment that is none of"),
    ],
)
def test_pages_that_are_refused(markdown: str, reason: str):
    with pytest.raises(PageError, match=reason):
        parts_of(markdown)


@pytest.mark.parametrize(
    ("shown", "printed", "good"),
    [
        ("a\nc\n", "a\nb\nc\n", True),
        ("c\na\n", "a\nb\nc\n", False),
        ("took … s\n", "took 1.5 s\n", True),
        ("took … s\n", "took long\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_output_is_compared(shown: str, printed: str, good: bool):
    with contextlib.nullcontext() if good else pytest.raises(PageError, match="the page shows"):
        expect_output(shown, printed)


@pytest.mark.parametrize(
    ("printed", "same", "similar"),
    [
        ('OK {"a": 1, "b": ["x"]} {}', True, True),
        ('{"a": 2, "b": ["y"]}', False, True),
        ('{"a": 1.5, "b": ["x"]}', False, False),
        ('{"a": 1, "b": []}', False, False),
        ('{"a": 1, "b": ["x"], "c": 1}', False, False),
        ("{a", False, False),
    ],
)
def test_json_is_compared(printed: str, same: bool, similar: bool):
    shown = {"a": 1, "b": ["x"]}
    for exactly, good in ((True, same), (False, similar)):
        with contextlib.nullcontext() if good else pytest.raises(PageError, match="the page shows"):
            expect_json(shown, printed, exactly=exactly)


def test_a_block_that_fails_is_named_with_its_line(tmp_path: Path):
    session = session_of("Text.\n```sh\nNAME=x\n```\n```sh\ntest $NAME = y\n```\n", tmp_path)
    with pytest.raises(PageError, match=r"page\.md, line 6: exit code 1"):
        session.run()
    assert session.ran == 1


def main(pages: list[str]) -> int:
    """Run pages against a broker of their own; print each, with how many blocks were run."""
    found = tuple(Path(page).resolve() for page in pages)
    with tempfile.TemporaryDirectory() as name, broker_for(PAGES, Path(name)) as process:
        os.environ["LEPORID_URL"] = f"http://127.0.0.1:{process.http_port}"
        for page in found:
            ports = process.amqp_port, process.http_port
            # Java keeps the working directory that it was started in.
            folder = Path(name) / ("spark" if page.name in SPARK else page.stem)
            session = Session(page, folder, ports, vhost_of(page))
            session.run()
            sys.stdout.write(f"{page.name}: {session.ran} blocks\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
