"""Arguments of pipelines: each that is wrong is refused in a sentence, before Spark starts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
from tests.spark.fake import serving

from leporid.cli import main
from leporid.cli.pipeline import PIPELINES, fill_one

WRONG = {
    "--archive": "nowhere/a",
    "--body": "jsn",
    "--ca-file": "nowhere/ca.pem",
    "--catalog": "c",
    "--catalog-option": "a",
    "--commit-rows": "0",
    "--compact-every": "-1",
    "--conf": "a",
    "--every": "10 secnds",
    "--exchange": "nowhere",
    "--files": "0",
    "--filter": "a =",
    "--filter-dialect": "jm",
    "--format": "cvs",
    "--freshness": "-1",
    "--gap": "5 mins ago",
    "--horizon": "-1",
    "--interval": "-1",
    "--keep": "-1",
    "--ledger": "{file}/l",
    "--master": "nonsense",
    "--metrics": "{file}/m",
    "--option": "a",
    "--partition-by": "dat",
    "--password-env": "NO_SUCH_VARIABLE",
    "--password-file": "nowhere/p",
    "--rate": "0",
    "--remote": "http://x",
    "--routing-key": "x" * 256,
    "--samples": "0",
    "--schema": "id bigin",
    "--since": "yesterday",
    "--start": "yesterday",
    "--state": "{file}/s",
    "--status": "{file}/s",
    "--stream": "order",
    "--stream-pattern": "(",
    "--streams": "orders,order",
    "--tasks": "0",
    "--to": "{file}/a",
    "--unroutable": "both",
    "--until": "yesterday",
    "--url": "ftp://x",
    "--vhost": "nowhere",
}
# What is right depends on others, is anything, or is SQL, which only Spark reads.
ANYTHING = {
    *("--delimiter", "--message", "--schemas", "--subject", "--table"),
    *("--allow-loss", "--dry-run", "--filter-tags", "--include-bad", "--once", "--reader-name"),
    *("--routing-key-pattern", "--user"),
    *("--select", "--sent-at", "--where"),
}


def options_of(name: str) -> list[str]:
    parser = argparse.ArgumentParser(add_help=False)
    fill_one(name, parser)
    return [action.option_strings[0] for action in parser._actions]


def told_about(option: str, name: str, names: dict[str, Path], url: str, capsys) -> str:
    given = [word.format(**names) for word in NEEDED_THERE[name]]
    words = dict(zip(given[::2], given[1::2], strict=True)) | {"--url": url}
    words |= {option: WRONG[option].format(**names)}
    if option in ("--streams", "--stream-pattern"):
        del words["--stream"]
    try:
        code: Any = main.main(
            ["pipeline", "run", name, *(each for pair in words.items() for each in pair)]
        )
    except SystemExit as end:
        code = end.code
    told = capsys.readouterr().err
    wrong_use = code == 2 or (code == 1 and told.count("\n") == 1)
    return "" if wrong_use and "Traceback" not in told else f"{option}: {code} {told}"


NEEDED_THERE = {
    "archive": ["--stream", "orders", "--to", "{dir}/a"],
    "compact": ["--archive", "{dir}/none"],
    "reprocess": ["--archive", "{dir}/none"],
    "traffic": ["--stream", "orders", "--to", "{dir}/r"],
    "replay": ["--stream", "orders", "--state", "{dir}/s"],
    "redrive": ["--stream", "orders", "--state", "{dir}/s"],
    "deadletters": ["--stream", "orders"],
    "schedule": ["--tasks", "{file}", "--ledger", "{dir}/l"],
}


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_each_option_that_is_wrong_is_refused_before_spark_starts(
    name, tmp_path, capsys, monkeypatch
):
    def started(*_, **__):
        raise SystemExit("Spark was started")

    monkeypatch.setattr("leporid.spark.session.session", started)
    (tmp_path / "file").touch()
    names = {"file": tmp_path / "file", "dir": tmp_path}
    options = options_of(name)
    assert set(options) <= set(WRONG) | ANYTHING
    with serving() as broker:
        broker.make("orders")
        broker.missing.add("nowhere")
        told = {
            option: told_about(option, name, names, broker.url, capsys)
            for option in options
            if option in WRONG
        }
    assert [each for each in told.values() if each] == []
