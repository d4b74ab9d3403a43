import configparser
import shlex
from pathlib import Path

import pytest

from leporid.cli.main import parser
from leporid.cli.pipeline import EXIT_WRONG_USE, PIPELINES, fill_one
from leporid.cli.pipeline_config import ConfigError, read

FILE = """
[spark]
master = "local[2]"
conf = {"spark.driver.memory" = "2g", "spark.ui.enabled" = false}

[run]
directory = "state"

[defaults]
url = "http://broker:15672"
user = "etl"
archive = "orders"

[pipelines.orders]
pipeline = "archive"
stream = "orders"
to = "orders"
commit_rows = 5
allow-loss = true

[pipelines.report]
pipeline = "traffic"
stream = "orders"
to = "report"
once = true
metrics = "own.prom"
user = "reports"
"""


@pytest.fixture
def load(tmp_path):
    def load(text, only=None):
        path = tmp_path / "pipelines.toml"
        path.write_text(text)
        fills = {name: lambda parser, name=name: fill_one(name, parser) for name in PIPELINES}
        return read(path, fills, only)

    return load


def test_each_table_is_a_run_with_the_arguments_of_the_command_line(load):
    file = load(FILE)
    assert (file.master, file.remote) == ("local[2]", None)
    assert file.conf == {"spark.driver.memory": "2g", "spark.ui.enabled": "false"}
    orders, report = file.runs["orders"], file.runs["report"]
    assert (orders.pipeline, orders.stream, orders.commit_rows) == ("archive", "orders", 5)
    assert (orders.allow_loss, orders.once, orders.freshness) == (True, False, 10.0)
    assert (str(orders.metrics), str(orders.status)) == ("state/orders.prom", "state/orders.json")
    assert (report.once, str(report.metrics), str(report.status)) == (
        True,
        "own.prom",
        "state/report.json",
    )
    # Defaults are for those who know the option, and give way to what a table says.
    assert (orders.url, orders.user, report.user) == ("http://broker:15672", "etl", "reports")
    assert str(report.archive) == "orders"
    assert not hasattr(orders, "archive")


def test_some_of_the_runs_can_be_chosen(load):
    assert list(load(FILE, ["report"]).runs) == ["report"]
    with pytest.raises(ConfigError, match=r"pipelines\.reprot.*did you mean \"report\""):
        load(FILE, ["reprot"])


ARCHIVE = '[pipelines.a]\npipeline = "archive"\nstream = "s"\nto = "t"\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x", "pipelines.toml: Expected '='"),
        ("", r"there is no table \[pipelines.NAME\]"),
        ("pipelines = 1", r"\[pipelines\]: must be a table"),
        ("[pipeline.a]", 'unknown pipeline; did you mean "pipelines"'),
        ("[spark]\nmaster = 1\n" + ARCHIVE, r"\[spark\]: master = 1: must be a text"),
        ("[run]\nfolder = 'x'\n" + ARCHIVE, r"\[run\]: unknown folder"),
        ("[pipelines.a]", r"\[pipelines.a\]: pipeline must be one of archive, compact"),
        ('[pipelines.a]\npipeline = "arcive"', 'did you mean "archive"'),
        ('[pipelines."a/b"]\npipeline = "archive"', "letters, digits, dots, - and _ only"),
        (ARCHIVE + "fresh = 1", r"\[pipelines.a\]: unknown option fresh"),
        (ARCHIVE + "frehsness = 1", 'did you mean "freshness"'),
        (ARCHIVE + 'freshness = "soon"', r"\[pipelines.a\]: argument freshness: invalid float"),
        (ARCHIVE + "once = 1", "once = 1: must be true or false"),
        (ARCHIVE + "format = true", "format = true: must not be true or false"),
        (ARCHIVE + 'master = "x"', r"master belongs into \[spark\]"),
        ('[pipelines.a]\npipeline = "archive"\nstream = "s"', "required: to"),
    ],
)
def test_what_is_wrong_is_told_with_its_table(load, text, told):
    with pytest.raises(ConfigError, match=told):
        load(text)


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml.*No such file"):
        read(tmp_path / "none.toml", {})


def test_the_unit_of_systemd_runs_a_file_and_lets_steps_end():
    path = Path(__file__).parents[2] / "packaging" / "systemd" / "leporid-pipelines.service"
    unit = configparser.ConfigParser(interpolation=None)
    unit.read_string(path.read_text())
    service = unit["Service"]
    program, *words = shlex.split(service["ExecStart"])
    given = parser().parse_args(words)
    assert (Path(program).name, given.verb) == ("leporid", "run")
    assert given.config == Path("/etc/leporid/pipelines.toml")
    # A signal is for Python alone; Java would end in the middle of a step.
    assert service["KillMode"] == "mixed"
    assert "KillSignal" not in service
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"] == str(EXIT_WRONG_USE)
