import pytest
from bench.engine import CASES, Rig, main


@pytest.mark.parametrize("name", CASES)
def test_each_case_moves_every_message(name: str):
    rig = Rig(CASES[name])
    rig.run(12)
    rig.check(12)


def test_prints_a_rate_for_each_case(capsys: pytest.CaptureFixture[str]):
    assert main(["auto", "--turns", "10", "--repeats", "1"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["case", "messages/s", "ns", "each"]
    assert line.startswith("auto ")
