import pytest
from bench.filters import CASES, RARE, Scan, main


@pytest.fixture(scope="module")
def scan() -> Scan:
    return Scan(2)


@pytest.mark.parametrize("name", CASES)
def test_each_filter_finds_its_messages(scan: Scan, name: str):
    assert scan.count < RARE
    assert scan.rate(CASES[name], 1) > 0


def test_prints_a_rate_for_each_case(capsys: pytest.CaptureFixture[str]):
    assert main(["sql", "tag", "--turns", "2", "--repeats", "1"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["case", "messages/s", "ns", "each"]
    assert [line.split()[0] for line in lines] == ["sql", "tag"]
