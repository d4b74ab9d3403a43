"""A file in a form."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.broker.registry import finished
from leporid.management import multipart
from leporid.management.multipart import is_form, part_in
from leporid.management.refusals import Refusal


def form(content: bytes, **fields: str) -> tuple[bytearray, str]:
    """What httpx sends of a form with a file."""
    request = httpx.Request("POST", "http://x", files={"file": ("x.json", content)}, data=fields)
    return bytearray(request.read()), request.headers["content-type"]


@given(st.binary(max_size=300), st.integers(1, 50))
def test_a_file_comes_out_as_it_went_in(content: bytes, searched: int):
    before, multipart.SEARCHED_BYTES = multipart.SEARCHED_BYTES, searched  # type: ignore[misc]
    try:
        data, kind = form(content, redirect="/elsewhere")
        assert is_form(kind)
        assert bytes(finished(part_in(data, kind, b"file"))) == content
    finally:
        multipart.SEARCHED_BYTES = before  # type: ignore[misc]


@pytest.mark.parametrize(
    ("data", "kind", "reason"),
    [
        (form(b"x")[0], "multipart/form-data", "the content-type has no boundary"),
        (bytearray(b"--b\r\n"), "multipart/form-data; boundary=b", "the form is not whole"),
        (bytearray(b""), "multipart/form-data; boundary=b", "the form has no part 'file'"),
        (bytearray(b"--b--"), "multipart/form-data; boundary=b", "the form has no part 'file'"),
        (
            bytearray(b"--b\r\nx: y\r\nz\r\n--b--"),
            "multipart/form-data; boundary=b",
            "the headers of a part have more than",
        ),
        (
            bytearray(b"--b\r\nContent-Disposition: form-data\r\n\r\nz\r\n--b--"),
            "multipart/form-data; boundary=b",
            "the form has no part 'file'",
        ),
    ],
)
def test_what_is_no_form_is_refused(data: bytearray, kind: str, reason: str):
    with pytest.raises(Refusal, match=reason) as caught:
        finished(part_in(data, kind, b"file"))
    assert caught.value.status == 400
