"""The cookies of a request: those of ours are found, whatever stands beside them."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from starlette.requests import Request

from leporid.management.sessions import cookie_in

# As long as the head of a request may be.
HEADER_CHARACTERS = 16 * 1024


def request_with(*headers: str) -> Request:
    named = [(b"cookie", each.encode("latin-1")) for each in headers]
    return Request({"type": "http", "headers": named})


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ((), None),
        (("",), None),
        (("mine=a1",), "a1"),
        (("other=b; mine=a1; x",), "a1"),
        ((" mine = a1 ;;",), "a1"),
        (("mine=",), ""),
        (("mine=a=b",), "a=b"),
        (("mine",), None),
        (("mine2=b; xmine=c",), None),
        (("mine=old; mine=new",), "new"),
        (("other=b", "mine=a1"), "a1"),
    ],
)
def test_a_cookie_is_found_by_its_name(headers: tuple[str, ...], found: str | None):
    assert cookie_in(request_with(*headers), "mine") == found


@pytest.mark.parametrize("piece", ['\\"', "\\101", ";", "a=;", "mine=;", " "])
def test_a_header_of_any_form_takes_few_steps(piece: str):
    """Of the standard library's parser it took a quarter of a second, before any login."""
    text = f'mine="{piece * (HEADER_CHARACTERS // len(piece))}"'
    request = request_with(text)
    steps = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        cookie_in(request, "mine")
    finally:
        sys.setprofile(None)
    assert steps <= 8 * text.count(";") + 1000
