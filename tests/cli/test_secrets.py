import argparse
import getpass
import sys

import pytest

from leporid.cli import secrets
from leporid.cli.outcomes import Failure, WrongUse


def options(**given) -> argparse.Namespace:
    names = ("new_password", "new_password_file", "new_password_env")
    return argparse.Namespace(**{**dict.fromkeys(names), **given})


def test_where_a_password_may_stand(tmp_path):
    file = tmp_path / "p"
    file.write_text("in file\n")
    assert secrets.given(options(), {}) is None
    assert secrets.given(options(new_password=""), {}) == ""
    assert secrets.given(options(new_password_file=file), {}) == "in file"
    assert secrets.given(options(new_password_env="P"), {"P": "in env"}) == "in env"
    with pytest.raises(WrongUse):
        secrets.given(options(new_password="a", new_password_env="P"), {"P": "b"})
    with pytest.raises(Failure, match="the variable P"):
        secrets.given(options(new_password_env="P"), {})


def test_who_is_asked_answers_twice(monkeypatch):
    answers = iter(["a", "a", "a", "b", "c"])
    monkeypatch.setattr(getpass, "getpass", lambda *_: next(answers))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert secrets.asked("Password") == "a"
    with pytest.raises(Failure, match="differ"):
        secrets.asked("Password")
    assert secrets.once("Password") == "c"
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    with pytest.raises(WrongUse, match="no terminal"):
        secrets.once("Password")
