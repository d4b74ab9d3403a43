"""Which broker is meant: every pair of ways to say it, and the file."""

import argparse
import stat
from pathlib import Path

import pytest

from leporid.cli import contexts
from leporid.cli.contexts import Context, Contexts, address_of, chosen, load, parse_url, save
from leporid.cli.outcomes import Failure, NotThere, WrongUse

KNOWN = Contexts(
    {
        "a": Context("http://a:1", "ann", "pa"),
        "b": Context("http://b:1", "bob", password_env="PB"),
    }
)
ENVIRONMENT = {"LEPORID_URL": "http://env:1", "LEPORID_USER": "eve", "LEPORID_PASSWORD": "pe"}


def options(**given) -> argparse.Namespace:
    names = ("url", "context", "user", "password_file", "password_env", "ca_file")
    return argparse.Namespace(**{**dict.fromkeys(names), **given})


def meant(given, environment, known=KNOWN) -> tuple[str, str, str]:
    context = chosen(given, environment, known)
    address = address_of(context, environment)
    return address.url, address.user, address.password


@pytest.mark.parametrize(
    ("given", "environment", "current", "found"),
    [
        ({}, {}, "", ("http://localhost:15672", "guest", "guest")),
        ({}, {}, "a", ("http://a:1", "ann", "pa")),
        ({}, {"LEPORID_CONTEXT": "b", "PB": "pb"}, "a", ("http://b:1", "bob", "pb")),
        ({}, ENVIRONMENT, "a", ("http://env:1", "eve", "pe")),
        ({}, ENVIRONMENT | {"LEPORID_CONTEXT": "a"}, "", ("http://env:1", "eve", "pe")),
        ({"context": "a"}, ENVIRONMENT, "", ("http://a:1", "ann", "pa")),
        ({"url": "http://u:1"}, ENVIRONMENT, "a", ("http://u:1", "eve", "pe")),
        ({"url": "http://x:y@u:1"}, {}, "a", ("http://u:1", "x", "y")),
        ({"url": "http://x:y@u:1", "user": "z"}, {}, "", ("http://u:1", "z", "")),
        ({"context": "a", "user": "z"}, ENVIRONMENT, "", ("http://a:1", "z", "")),
        ({"context": "a", "password_env": "P"}, {"P": "q"}, "", ("http://a:1", "ann", "q")),
    ],
)
def test_who_says_it_wins_in_this_order(given, environment, current, found):
    known = Contexts(KNOWN.by_name, current)
    assert meant(options(**given), environment, known) == found


def test_what_contradicts_or_is_missing():
    with pytest.raises(WrongUse, match="not both"):
        chosen(options(url="http://u", context="a"), {}, KNOWN)
    with pytest.raises(NotThere, match="there are: a, b"):
        chosen(options(context="c"), {}, KNOWN)
    with pytest.raises(Failure, match="the variable PB with the password is not set"):
        meant(options(context="b"), {})
    with pytest.raises(Failure, match="no such file of certificates"):
        meant(options(ca_file=Path("none.pem")), {})


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://h", ("http://h", "", "")),
        ("https://u%40x:p%2F@h:15671/mq/", ("https://h:15671/mq", "u@x", "p/")),
        ("http://h:1/api/", ("http://h:1", "", "")),
        ("http://[::1]:8080", ("http://[::1]:8080", "", "")),
    ],
)
def test_addresses(url, found):
    assert parse_url(url) == found


def test_the_file_is_its_owners_and_comes_back_equal(tmp_path):
    file = tmp_path / "deep" / "contexts.json"
    assert load(file) == Contexts()
    known = Contexts(KNOWN.by_name, "b")
    save(file, known)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert load(file) == known
    assert "'pa'" not in repr(load(file))
    assert [each.name for each in file.parent.iterdir()] == ["contexts.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"contexts": {"a": {"urll": 1}}}'])
def test_a_file_that_is_none(tmp_path, text):
    file = tmp_path / "contexts.json"
    file.write_text(text)
    with pytest.raises(Failure, match="is not a file of contexts"):
        load(file)


def test_passwords_in_files(tmp_path):
    file = tmp_path / "password"
    file.write_text("p w\r\n")
    assert contexts.read_password(file) == "p w"
    file.write_bytes(b"\xff")
    with pytest.raises(Failure, match="not UTF-8"):
        contexts.read_password(file)
    file.write_bytes(b"x" * (contexts.PASSWORD_BYTES_MAX + 1))
    with pytest.raises(Failure, match="no password"):
        contexts.read_password(file)
