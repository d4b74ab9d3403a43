"""`leporid cat`."""

import json

import pytest

from leporid.cli.cat import formatted, parse_source, start_of
from leporid.cli.outcomes import WrongUse

MESSAGE = {
    "offset": 7,
    "exchange": "x",
    "routing_key": "k",
    "redelivered": False,
    "properties": {"headers": {"a": 1, "b": "two"}, "priority": 3},
    "payload": "aGk=",
    "payload_encoding": "base64",
    "payload_bytes": 2,
    "timestamp_ms": 1_700_000_000_123,
}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("queue://q", ("queues", "/", "q")),
        ("stream://s", ("streams", "/", "s")),
        ("queue://shop/q", ("queues", "shop", "q")),
        ("queue://%2F/a%2Fb", ("queues", "/", "a/b")),
        ("queue://UPPER", ("queues", "/", "UPPER")),
    ],
)
def test_sources(text, found):
    assert parse_source(text, "/") == found


def test_a_name_alone_may_be_either():
    with pytest.raises(WrongUse, match=r"Write queue://orders or stream://orders"):
        parse_source("orders", "/")


@pytest.mark.parametrize("text", ["", "queue://", "amqp://q", "queue://a/b/c", "queue://v/"])
def test_what_is_no_source(text):
    with pytest.raises(WrongUse, match="is not queue://NAME"):
        parse_source(text, "/")


@pytest.mark.parametrize(
    ("template", "written"),
    [
        ("%s", b"hi"),
        ("%s %k %h\\n", b"hi k a=1,b=two\n"),
        ("%o\\t%S\\t%x%%", b"7\t2\tx%"),
        ("%T %r", b"1700000000123 false"),
        ("%t", b"2023-11-14T22:13:20.123+00:00"),
        ("plain", b"plain"),
    ],
)
def test_formats(template, written):
    assert formatted(template, MESSAGE) == written


def test_what_is_not_there(leporid, name):
    for noun in ("queue", "stream"):
        missing = name()
        leporid("cat", f"{noun}://{missing}", code=3)
        assert leporid.error == f"leporid: there is no {noun} '{missing}' in '/'\n"


@pytest.mark.parametrize("template", ["%q", "\\q"])
def test_what_is_no_format(template):
    with pytest.raises(WrongUse, match="means nothing"):
        formatted(template, MESSAGE)


def test_starts():
    assert [start_of(each) for each in ("first", "last", "next", "12")] == [
        "first", "last", "next", "12",
    ]  # fmt: skip
    assert start_of("2023-11-14T22:13:20Z") == "timestamp:1700000000000"
    with pytest.raises(WrongUse, match="invalid offset 'soon'"):
        start_of("soon")


def test_taking(leporid, name, channel):
    queue = name()
    leporid("queues", "add", queue)
    for number in range(3):
        channel.basic_publish("", queue, str(number).encode())
    leporid("cat", f"queue://{queue}", "--take", code=2)
    assert leporid("cat", f"queue://{queue}", "--take", "--yes", "-c", "2") == "0\n1\n"
    (line,) = leporid("cat", f"queue://{queue}", "--take", "-y", "-f", "json").splitlines()
    assert json.loads(line)["payload"] == "2"
    assert leporid("cat", f"queue://{queue}", "--take", "--yes") == ""
    leporid("cat", f"queue://{name('none')}", "--take", "--yes", code=3)


def test_browsing(leporid, name, channel):
    queue = name()
    leporid("queues", "add", queue)
    for number in range(3):
        channel.basic_publish("", queue, str(number).encode())
    if leporid.run("cat", f"queue://{queue}") == 1:
        assert "has no messages to browse over HTTP" in leporid.error
        return
    for _ in range(2):
        assert leporid("cat", f"queue://{queue}") == "0\n1\n2\n"
    assert leporid("cat", f"queue://{queue}", "-c", "1", "-f", "%o %s %k\\n").endswith(
        f" 0 {queue}\n"
    )
    leporid("cat", f"queue://{name('none')}", code=3)
    assert channel.basic_get(queue)[0].redelivered is False


def test_browsing_a_stream(leporid, name, channel, monkeypatch):
    stream = name("s")
    leporid("streams", "add", stream)
    channel.confirm_delivery()
    for number in range(5):
        channel.basic_publish("", stream, str(number).encode())
    if leporid.run("cat", f"stream://{stream}") == 1:
        assert "has no messages to browse over HTTP" in leporid.error
        return
    monkeypatch.setattr("leporid.cli.cat.PAGE", 2)
    assert leporid("cat", f"stream://{stream}").split() == list("01234")
    assert leporid("cat", f"stream://{stream}", "--from", "3").split() == ["3", "4"]
    assert leporid("cat", f"stream://{stream}", "--from", "2020-01-01T00:00Z", "-c", "1") == "0\n"
    assert leporid("cat", f"stream://{stream}", "--from", "last") == "4\n"
    assert leporid("cat", f"stream://{stream}", "--from", "next") == ""
    leporid("cat", f"stream://{stream}", "--partition", "1", code=2)


def test_browsing_partitions_one_after_the_other(leporid, name, channel):
    stream = name("s")
    leporid("streams", "add", stream, "--partitions", "3")
    channel.confirm_delivery()
    for number in range(9):
        channel.basic_publish(stream, f"k{number}", str(number).encode())
    if leporid.run("cat", f"stream://{stream}") == 1:
        assert "has no messages to browse over HTTP" in leporid.error
        return
    assert sorted(leporid("cat", f"stream://{stream}").split()) == [str(n) for n in range(9)]
    assert len(leporid("cat", f"stream://{stream}", "-c", "7").split()) == 7
    parts = [leporid("cat", f"stream://{stream}", "--partition", str(n)) for n in range(3)]
    assert sum(len(part.split()) for part in parts) == 9
    leporid("cat", f"stream://{stream}", "--follow", code=2)


def test_wrong_use(leporid):
    leporid("cat", "queue://q", "-c", "0", code=2)
    leporid("cat", "stream://s", "--take", "--yes", code=2)
    leporid("cat", "queue://q", "--from", "next", code=2)
    leporid("cat", "queue://q", "--partition", "0", code=2)
    leporid("cat", "queue://q", "-f", "%q", code=2)
    leporid("cat", "q", code=2)
