"""Programs that the page of a stream proposes run as they are copied, whatever the names are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pyarrow as pa
import pytest
from tests.management.arrows import table_of
from tests.webui.test_drawings import run

from leporid.testing.process import BrokerProcess

HOSTILE = "we\"ird 'näme' `$(id)` \\ ü😀"
NAMES = ("pandas", "polars", "duckdb", "pyspark", "curl", "cli")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with a stream of two partitions under a hostile name."""
    with BrokerProcess(tmp_path_factory.mktemp("snippets") / "data") as process:
        place = f"http://127.0.0.1:{process.http_port}"
        with httpx.Client(auth=("guest", "guest")) as client:
            name = quote(HOSTILE, safe="")
            stream = f"{place}/api/streams/%2F/{name}"
            assert client.put(stream, json={"partitions": 2}).status_code == 201
            table = table_of(
                body=[b"%d" % at for at in range(40)],
                routing_key=[f"k{at}" for at in range(40)],
            )
            answer = client.post(f"{place}/api/publish/%2F/{name}", content=table)
            assert answer.json()["accepted"] == 40
        yield place


def snippets(url: str, **more: Any) -> dict[str, str]:
    of = {
        "origin": url, "vhost": "/", "stream": HOSTILE, "partitions": 2, "partition": None,
        "from": None, "filter": "", "tags": "", "dialect": "jms",
    }  # fmt: skip
    found = run("parts/stream_snippets.js", "return m.snippetsOf(given);", of | more)
    return {each["id"]: each["text"] for each in found}


def done(command: list[str], text: str, folder: Path, url: str) -> str:
    bin_folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "LEPORID_URL": url, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    finished = subprocess.run(
        [*command, text],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
        env=environment,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_all_are_there_and_those_in_python_compile() -> None:
    for more in ({}, {"partition": 1, "from": 7, "filter": "a = 'x' OR b = \"y\"", "tags": "a||b"}):
        found = snippets("http://localhost:15672", **more)
        assert tuple(found) == NAMES
        for name in NAMES[:4]:
            compile(found[name], name, "exec")


@pytest.mark.parametrize("name", ["pandas", "polars", "duckdb"])
def test_a_program_in_python_reads_all_partitions(url: str, tmp_path: Path, name: str) -> None:
    pytest.importorskip(name)
    text = snippets(url)[name] + "\nprint('rows', len(messages))\n"
    assert "rows 40" in done([sys.executable, "-c"], text, tmp_path, url)


def test_one_partition_from_an_offset_with_a_filter(url: str, tmp_path: Path) -> None:
    pytest.importorskip("polars")
    more = {"partition": 1, "from": 2, "filter": "routing_key <> 'it''s' AND p.type IS NULL"}
    ending = "\nprint(messages['partition'].unique().to_list(), messages['offset'].min())\n"
    text = snippets(url, **more)["polars"] + ending
    assert "[1] 2" in done([sys.executable, "-c"], text, tmp_path, url)


def test_the_shell_reads_the_same(url: str, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    done(["sh", "-c"], snippets(url)["curl"], tmp_path, url)
    parts = [tmp_path / f"messages-{number}.arrows" for number in range(2)]
    assert sum(pa.ipc.open_stream(each.read_bytes()).read_all().num_rows for each in parts) == 40
    one = snippets(url, partition=1, **{"from": 3}, filter="p.type IS NULL", tags="")["curl"]
    done(["sh", "-c"], one, tmp_path, url)
    table = pa.ipc.open_stream((tmp_path / "messages.arrows").read_bytes()).read_all()
    assert table["offset"][0].as_py() == 3


def test_the_command_line_reads_the_same(url: str, tmp_path: Path) -> None:
    lines = done(["sh", "-c"], snippets(url)["cli"], tmp_path, url).split()
    assert sorted(map(int, lines)) == list(range(40))
