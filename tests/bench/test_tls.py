import pytest
from bench.tls import main


@pytest.mark.slow
def test_both_rates_are_measured(capsys: pytest.CaptureFixture[str]):
    assert main(["--seconds", "0.1", "--runs", "1", "--size", "100"]) == 0
    words = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert words[-4:] == ["plain", "tls", "share", "share"]
