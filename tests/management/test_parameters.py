"""Parameters: taken as declared, or refused by name."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from leporid.broker.access.access import guest
from leporid.limits.refusals import Refusals
from leporid.management.admission import Admission
from leporid.management.parameters import COMPARED_MAX, Parameters, body_of, nearest, whole
from leporid.management.refusals import Refusal


def asked(query: bytes, *known: str) -> Parameters:
    return Parameters(Request({"type": "http", "query_string": query, "headers": []}), known)


def test_what_is_there_and_what_is_not():
    given = asked(b"a=1&b=x%20y&c=true", "a", "b", "c", "d")
    assert given.whole("a", 7) == given.needed("a") == 1
    assert given.whole("d", 7) == 7
    assert given.text("b") == "x y"
    assert given.text("d") is None
    assert given.flag("c")
    assert not given.flag("d")
    assert given.choice("d", ("one", "two")) == "one"
    assert "a" in given
    assert "d" not in given


def test_offsets_and_words():
    given = asked(b"at=0:100,1:50&w=b,a", "at", "w", "none")
    assert given.offsets("at") == {0: 100, 1: 50}
    assert given.offsets("none") == {}
    assert given.words("w", ("a", "b")) == ["b", "a"]
    assert given.words("none", ("a",)) is None


@pytest.mark.parametrize("value", ["", "-1", "+1", "1.0", " 1", "1_0", "٣", "0x1", "9" * 20, "256"])
def test_what_is_no_whole_number(value: str):
    with pytest.raises(Refusal, match=r"n: .* is not a whole number from 0 to 255"):
        whole("n", value, 0, 255)


@pytest.mark.parametrize("query", [b"x=1", b"a=1&a=1", b"A=1"])
def test_what_nobody_asked_for(query: bytes):
    with pytest.raises(Refusal) as caught:
        asked(query, "a")
    assert caught.value.status == 400


@pytest.mark.parametrize("query", [b"at=0", b"at=a:1", b"at=0:", b"at=0:1,", b"at=:1"])
def test_bad_offsets(query: bytes):
    with pytest.raises(Refusal):
        asked(query, "at").offsets("at")


def test_no_more_offsets_than_a_stream_may_have_partitions():
    allowed = b",".join(b"%d:1" % number for number in range(1000))
    assert len(asked(b"at=" + allowed, "at").offsets("at")) == 1000
    with pytest.raises(Refusal, match="at: has more than 1000 offsets"):
        asked(b"at=" + allowed + b",0:1", "at").offsets("at")


def test_a_missing_parameter():
    with pytest.raises(Refusal, match="a: is missing"):
        asked(b"", "a").needed("a")


def test_the_nearest_name():
    assert nearest("colums", ["columns", "from"]) == "; did you mean 'columns'?"
    assert nearest("zzz", ["columns", "from"]) == "; there are columns, from"
    assert nearest("zzz", []) == "; there are none here"


async def test_a_member_of_a_megabyte_is_not_compared(monkeypatch: pytest.MonkeyPatch):
    """It took a tenth of a second."""
    compared: list[str] = []

    def compare(word: str, *_: object, **__: object) -> list[str]:
        compared.append(word)
        return []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b'{"%s": 1}' % (b"a" * 900_000), "more_body": False}

    monkeypatch.setattr("difflib.get_close_matches", compare)
    request = Request({"type": "http", "headers": []}, receive)
    with pytest.raises(Refusal, match="unknown member; there are state") as caught:
        await body_of(Admission(Refusals()), request, guest(b"s" * 32), ("state",))
    assert compared == []
    assert len(caught.value.facts["parameter"]) == COMPARED_MAX
    assert "zz" not in nearest("zz", ["state"])
    assert compared == ["zz"]


async def test_a_body_of_nothing_has_no_members():
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b" \n", "more_body": False}

    request = Request({"type": "http", "headers": []}, receive)
    assert await body_of(Admission(Refusals()), request, guest(b"s" * 32), ("a",)) == {}
