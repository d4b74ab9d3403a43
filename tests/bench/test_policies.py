import pytest
from bench.policies import main


@pytest.mark.slow
def test_prints_what_each_change_took(capsys: pytest.CaptureFixture[str]):
    assert main(["--queues", "20", "--others", "3", "--runs", "1", "--durable"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "20 queues, milliseconds, the median of 1"
    assert [line.split()[3] for line in lines] == ["declare", "set", "change", "delete"] * 2
    assert all(float(line.split()[-1]) > 0 for line in lines)
