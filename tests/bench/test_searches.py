"""The measurement of filters that look through a long queue."""

import pytest
from bench.searches import CASES, main


def test_every_case_gives_a_line(capsys: pytest.CaptureFixture[str]):
    assert main(["--messages", "300"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(CASES)
    assert [line[:10].strip() for line in lines[1:]] == list(CASES)
