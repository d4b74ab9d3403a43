import pytest
from bench.startup import main


@pytest.mark.slow
def test_what_needs_no_spark_is_measured(capsys: pytest.CaptureFixture[str]):
    assert main(["--runs", "1", "--only", "deadletters"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[-3:-1]] == [
        "deadletters without Spark",
        "of it processor time",
    ]
