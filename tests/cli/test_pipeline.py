import subprocess
import sys

import pytest
from tests.spark.fake import serving
from tools import pipeline_page

from leporid.cli import main
from leporid.cli.pipeline import MAKE, PIPELINES, pairs, split_columns


def parsed(*arguments):
    return main.parser().parse_args(["pipeline", "run", *arguments])


NEEDED = {
    "archive": ["--stream", "s", "--to", "a"],
    "compact": ["--archive", "a"],
    "reprocess": ["--archive", "a"],
    "traffic": ["--stream", "s", "--to", "a"],
    "replay": ["--stream", "s", "--state", "f"],
    "redrive": ["--stream", "s", "--state", "f"],
    "deadletters": ["--stream", "s"],
    "schedule": ["--tasks", "t", "--ledger", "l"],
}


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_every_pipeline_can_be_made_and_described(name, capsys):
    assert name in MAKE
    options = parsed(name, *NEEDED[name], "--once", "--master", "local[2]")
    assert options.pipeline == name
    with pytest.raises(SystemExit):
        parsed(name, "--help")
    assert "--dry-run" in capsys.readouterr().out


def test_the_guide_has_every_option_with_its_default():
    page = pipeline_page.PAGE.read_text(encoding="utf-8")
    assert pipeline_page.page_of(page) == page, "run tools/pipeline_page.py"
    assert all(
        f"<!-- settings: {name} -->\n| Option" in page
        for name in (pipeline_page.COMMON, *PIPELINES)
    )


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_each_option_says_what_it_means_and_its_default(name):
    for action in pipeline_page.options_of(name):
        assert action.help, action.option_strings
        if action.default not in (None, False, [], ""):
            assert "%(default)" in action.help, action.option_strings


def test_master_and_remote_exclude_each_other(capsys):
    with pytest.raises(SystemExit):
        parsed("archive", *NEEDED["archive"], "--master", "local", "--remote", "sc://x")
    assert "not allowed with" in capsys.readouterr().err


def test_an_unknown_option_is_refused(capsys):
    with pytest.raises(SystemExit):
        parsed("archive", *NEEDED["archive"], "--fresh", "1", "--nonsense")
    assert "--nonsense" in capsys.readouterr().err


def test_settings_are_pairs():
    assert pairs(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}
    with pytest.raises(ValueError, match="'a' is not KEY=VALUE"):
        pairs(["a"])


def test_columns_are_split_outside_of_parentheses_and_quotes():
    assert split_columns("a as id, concat(b, ',') as body, `c,d` as e") == [
        "a as id",
        "concat(b, ',') as body",
        "`c,d` as e",
    ]


def test_a_dry_run_says_what_would_be_done_without_spark(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    with serving() as broker:
        broker.make("orders")
        broker.append("orders", 12)
        arguments = ["pipeline", "run", "archive", "--url", broker.url, "--stream", "orders"]
        assert main.main([*arguments, "--to", str(tmp_path / "a"), "--dry-run"]) == 0
        assert "from offset 0 to 12" in capsys.readouterr().out
        arguments[-1] = "order"
        assert main.main([*arguments, "--to", str(tmp_path / "a"), "--dry-run"]) == 2
        assert 'did you mean "orders"' in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"--format": "parket"}, "there is no format 'parket'"),
        ({"--stream": "order"}, "there is no stream 'order'; did you mean \"orders\""),
        ({"--conf": "a"}, "'a' is not KEY=VALUE"),
        ({"--start": "yesterday"}, "option start = 'yesterday'"),
        ({"--to": "hdfs://lake/a"}, "not at hdfs://"),
        ({"--partition-by": "dat"}, "cannot be partitioned by 'dat'"),
        ({"--catalog": "c"}, "catalogs are for Iceberg"),
        ({"--filter": "a ="}, "option filter"),
        ({"--schema": "id bigin"}, "there is no type 'bigin'; did you mean \"bigint\"?"),
        ({"--commit-rows": "0"}, "commit rows = 0: must be at least 1"),
        ({"--freshness": "-1"}, "freshness = -1.0: must not be less than 0"),
    ],
)
def test_what_is_wrong_without_spark_is_told_before_it_starts(
    changed, told, tmp_path, capsys, monkeypatch
):
    def started(*arguments, **more):
        raise AssertionError("Spark was started")

    monkeypatch.setattr("leporid.spark.session.session", started)
    with serving() as broker:
        broker.make("orders")
        given = {"--url": broker.url, "--stream": "orders", "--to": str(tmp_path / "a")} | changed
        arguments = [word for pair in given.items() for word in pair]
        assert main.main(["pipeline", "run", "archive", *arguments]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["replay", "--state", "{file}/s"], 1, "{file}/s cannot be written: {file} is no folder"),
        (["replay", "--state", "{dir}"], 2, "{dir} cannot be read: Is a directory"),
        (["replay", "--state", "{dir}/s", "--since", "yesterday"], 2, "'yesterday'"),
        (["redrive", "--state", "{dir}/s", "--rate", "0"], 2, "rate = 0.0: must be more than 0"),
        (["traffic", "--to", "{file}/r"], 1, "{file}/r cannot be written: {file} is no folder"),
        (["schedule", "--tasks", "{dir}", "--ledger", "{file}"], 1, "{file} cannot be written"),
        (["schedule", "--tasks", "{dir}/t", "--ledger", "{dir}/l"], 2, "there is no such file or"),
        (
            ["schedule", "--tasks", "t", "--format", "cvs", "--ledger", "{dir}/l"],
            2,
            "there is no format 'cvs'; did you mean \"csv\"?",
        ),
        (["deadletters", "--metrics", "{file}/m"], 1, "{file}/m cannot be written: {file} is no"),
        (["deadletters", "--status", "{dir}"], 1, "{dir} cannot be written: it is a folder"),
    ],
)
def test_a_place_that_cannot_be_written_is_told_before_spark_starts(
    words, code, told, tmp_path, capsys, monkeypatch
):
    def started(*arguments, **more):
        raise AssertionError("Spark was started")

    monkeypatch.setattr("leporid.spark.session.session", started)
    (tmp_path / "file").touch()
    names = {"file": tmp_path / "file", "dir": tmp_path}
    stream = [] if words[0] == "schedule" else ["--stream", "orders"]
    with serving() as broker:
        broker.make("orders")
        arguments = [word.format(**names) for word in words]
        command = ["pipeline", "run", *arguments, *stream, "--url", broker.url]
        assert main.main(command) == code
    assert told.format(**names) in capsys.readouterr().err


@pytest.mark.parametrize("words", [["archive", "--to", "{}"], ["deadletters", "--once"]])
def test_a_wrong_password_is_told_once(words, tmp_path, capsys, caplog, monkeypatch):
    monkeypatch.setenv("LEPORID_PASSWORD", "wrong")
    with serving() as broker:
        broker.make("orders")
        words = [word.format(tmp_path / "a") for word in words]
        command = ["pipeline", "run", *words, "--stream", "orders", "--url", broker.url]
        assert main.main(command) == 1
        assert broker.count("/api/pipelines/") == 1
    told = capsys.readouterr().err
    assert told.count("401") == 1, told
    assert caplog.messages == []


def test_a_file_system_that_refuses_is_told_without_a_traceback(capsys, monkeypatch):
    def full(options):
        raise OSError(28, "No space left on device", "data/a")

    monkeypatch.setattr("leporid.cli.pipeline._run_one", full)
    assert main.main(["pipeline", "run", "deadletters", "--stream", "s"]) == 1
    assert capsys.readouterr().err == "leporid: [Errno 28] No space left on device: 'data/a'\n"


def test_a_file_is_checked_as_a_whole_before_spark_starts(tmp_path, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    path = tmp_path / "pipelines.toml"
    command = ["pipeline", "run", "--config", str(path)]
    with serving() as broker:
        broker.make("orders")
        broker.append("orders", 12)
        table = '[pipelines.{0}]\npipeline = "archive"\nstream = "{1}"\nto = "{2}"\n'
        defaults = f'[defaults]\nurl = "{broker.url}"\n'
        place = tmp_path / "a"
        path.write_text(defaults + table.format("one", "orders", place))
        assert main.main([*command, "--dry-run"]) == 0
        assert "from offset 0 to 12" in capsys.readouterr().out
        report = '[pipelines.report]\npipeline = "traffic"\nstream = "orders"\nto = "r"\n'
        path.write_text(path.read_text() + report + f'archive = "{place}"\n')
        assert main.main([*command, "--dry-run"]) == 0
        assert main.main([*command, "--only", "report", "--dry-run"]) == 1
        assert "[pipelines.report]: " in (told := capsys.readouterr().err)
        assert "there is no archive" in told
        path.write_text(path.read_text() + table.format("two", "order", tmp_path / "b"))
        assert main.main(command) == 2
        said = capsys.readouterr().err
        assert "[pipelines.two]: there is no stream 'order'; did you mean" in said
        assert main.main([*command, "--only", "one", "--dry-run"]) == 0
    assert not place.exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "give the name of a pipeline, or --config FILE"),
        (["--config", "x.toml", "deadletters", "--stream", "s"], "or --config FILE"),
        (["--only", "x", "deadletters", "--stream", "s"], "--only needs --config"),
        (["--config", "none.toml"], "none.toml: [Errno 2]"),
    ],
)
def test_it_takes_a_name_or_a_file(arguments, told, capsys):
    assert main.main(["pipeline", "run", *arguments]) == 2
    assert told in capsys.readouterr().err


COMMAND = """
import sys
from leporid.cli import main
code = main.main(["pipeline", "run", *sys.argv[1:]])
print(*({"pandas", "pyspark", "pyarrow"} & set(sys.modules)))
sys.exit(code)
"""


@pytest.mark.slow
def test_few_dead_letters_cost_no_import_that_takes_longer_than_they_do():
    with serving() as broker:
        broker.make("letters")
        broker.append("letters", 12)
        words = ["deadletters", "--url", broker.url, "--stream", "letters", "--once"]
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, *words], capture_output=True, text=True, timeout=60
        )
    assert "deadletters: 12 records" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "pyarrow"
