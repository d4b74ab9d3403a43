"""The file in a form that a browser has sent (multipart/form-data, RFC 7578).

Responsible for finding one part by its name. Must not know what is in it. Invariant: it is looked
for in steps of SEARCHED_BYTES, and nothing is copied.
"""

from __future__ import annotations

import re
from email.message import Message
from typing import TYPE_CHECKING, Final

from leporid.management.refusals import bad_request

if TYPE_CHECKING:
    from leporid.broker.registry import StepsTo

SEARCHED_BYTES: Final = 1024 * 1024
"""A tenth of a millisecond."""
HEAD_BYTES_MAX: Final = 4096
"""Of the headers of a part."""
FORM: Final = "multipart/form-data"

_NAME: Final = re.compile(rb'\bname="?([^";\r\n]*)"?', re.IGNORECASE)


def is_form(content_type: str) -> bool:
    """Say whether a body is a form."""
    return content_type.partition(";")[0].strip().lower() == FORM


def part_in(data: bytearray, content_type: str, name: bytes) -> StepsTo[memoryview]:
    """Return the part of that name, in steps.

    Raises:
        Refusal: there is none, or it is no such form (400).
    """
    head = Message()
    head["content-type"] = content_type
    boundary = head.get_boundary()
    if not boundary or not boundary.isascii():
        raise bad_request("the content-type has no boundary")
    line = b"--" + boundary.encode()
    at = yield from _finding(data, line, 0)
    while at >= 0:
        start = at + len(line)
        if data[start : start + 2] == b"--":
            break
        end = yield from _finding(data, b"\r\n" + line, start)
        if end < 0:
            raise bad_request("the form is not whole")
        headers_end = data.find(b"\r\n\r\n", start, start + HEAD_BYTES_MAX)
        if headers_end < 0:
            raise bad_request(f"the headers of a part have more than {HEAD_BYTES_MAX} bytes")
        if _name_of(bytes(data[start:headers_end])) == name:
            return memoryview(data)[headers_end + 4 : end]
        at = end + 2
    raise bad_request(f"the form has no part '{name.decode()}'")


def _name_of(headers: bytes) -> bytes | None:
    for line in headers.split(b"\r\n"):
        key, _, value = line.partition(b":")
        if key.strip().lower() == b"content-disposition":
            found = _NAME.search(value)
            return found[1] if found else None
    return None


def _finding(data: bytearray, wanted: bytes, start: int) -> StepsTo[int]:
    """Return where something begins; -1 if it is not there."""
    while start < len(data):
        end = start + SEARCHED_BYTES + len(wanted)
        found = data.find(wanted, start, end)
        if found >= 0:
            return found
        start += SEARCHED_BYTES
        yield None
    return -1
