import pytest

from leporid.cli.outcomes import Failure, Forbidden, NotThere, WrongUse, one_line, tell


@pytest.mark.parametrize(
    ("failure", "code"), [(Failure, 1), (WrongUse, 2), (NotThere, 3), (Forbidden, 4)]
)
def test_each_failure_has_its_code_and_one_line(failure, code, capsys):
    assert tell(failure("line\nfeed \x1b[2J")) == code
    assert capsys.readouterr().err == "leporid: line\\nfeed \\x1b[2J\n"


def test_what_can_be_printed_stays():
    assert one_line("Grüße – 日本 'x'") == "Grüße – 日本 'x'"
