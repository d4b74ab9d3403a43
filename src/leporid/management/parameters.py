"""Parameters of a request: taken as declared, or refused by a sentence that names them.

Responsible for the query string and for JSON bodies. Must not know what a parameter means.
Invariant: a parameter that nobody asked for is refused with the nearest one that exists, so that a
misspelt filter never returns everything.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request

from leporid.amqp.json_values import finite, no_constant
from leporid.broker.stream.partitions import PARTITIONS_MAX
from leporid.management.admission import Admission
from leporid.management.bodies import body_in
from leporid.management.refusals import Refusal, bad, bad_request, too_large

if TYPE_CHECKING:
    from leporid.broker.access.access import User

# The largest definition there is, a thousand keys of 255 bytes, fits in.
JSON_BYTES_MAX: Final = 1024 * 1024
JSON_BYTES: Final = "http_json_bytes"
# Members and elements, about: a millisecond to read, however few bytes they have.
JSON_VALUES_MAX: Final = 10_000
JSON_VALUES: Final = "http_json_values"
# Of a policy or a parameter, which is checked, and quoted where it is refused, in one piece: some
# milliseconds. Each setting has 255 bytes at most; only ha-params, a list, could be as long.
POLICY_BYTES_MAX: Final = 64 * 1024
POLICY_BYTES: Final = "http_policy_bytes"
# Of a word that is none of ours: how long it may be to be compared with ours, and how much of it is
# shown. With a megabyte the one took a tenth of a second, and the other is answered twice.
COMPARED_MAX: Final = 255
# As many as AMQP's numbers have room for; SQLite's too.
NUMBER_MAX: Final = 2**63 - 1


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean …?`, or what there is."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1) if len(word) <= COMPARED_MAX else []
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; there are {', '.join(names)}" if names else "; there are none here"


class Parameters:
    """The query string of one request.

    Args:
        request: the request.
        known: every parameter that it may have.

    Raises:
        Refusal: it has another one, or one twice.
    """

    def __init__(self, request: Request, known: Sequence[str]) -> None:
        self._values: dict[str, str] = {}
        for name, value in request.query_params.multi_items():
            if name not in known:
                raise bad(name, f"unknown parameter{nearest(name, known)}")
            if name in self._values:
                raise bad(name, "stands there twice")
            self._values[name] = value

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str | None:
        """Return a text; None if it is not there."""
        return self._values.get(name)

    def whole(self, name: str, default: int, least: int = 0, most: int = NUMBER_MAX) -> int:
        """Return a whole number within bounds."""
        value = self._values.get(name)
        if value is None:
            return default
        return whole(name, value, least, most)

    def needed(self, name: str, least: int = 0, most: int = NUMBER_MAX) -> int:
        """Return a whole number that must be there."""
        if name not in self._values:
            raise bad(name, "is missing")
        return self.whole(name, 0, least, most)

    def flag(self, name: str) -> bool:
        """Return true or false; false if it is not there."""
        return self.choice(name, ("false", "true")) == "true"

    def choice(self, name: str, allowed: Sequence[str]) -> str:
        """Return one of a few words; the first if it is not there."""
        value = self._values.get(name, allowed[0])
        if value not in allowed:
            raise bad(name, f"{value!r} is not allowed{nearest(value, allowed)}")
        return value

    def words(self, name: str, allowed: Sequence[str]) -> list[str] | None:
        """Return a list of words, separated by commas; None if it is not there."""
        value = self._values.get(name)
        if value is None:
            return None
        words = value.split(",")
        for word in words:
            if word not in allowed:
                raise bad(name, f"unknown {word!r}{nearest(word, allowed)}")
        if len(set(words)) < len(words):
            raise bad(name, "names something twice")
        return words

    def offsets(self, name: str) -> dict[int, int]:
        """Return offsets by partition, written `0:100,1:50`; empty if they are not there."""
        value = self._values.get(name)
        offsets: dict[int, int] = {}
        # A path has room for ten times as many, which take ten milliseconds.
        if value is not None and value.count(",") >= PARTITIONS_MAX:
            raise bad(
                name, f"has more than {PARTITIONS_MAX} offsets; no stream has more partitions"
            )
        for pair in value.split(",") if value else ():
            partition, colon, offset = pair.partition(":")
            if not colon:
                raise bad(name, f"{pair!r} is not PARTITION:OFFSET")
            offsets[whole(name, partition)] = whole(name, offset)
        return offsets


def whole(name: str, value: str, least: int = 0, most: int = NUMBER_MAX) -> int:
    """Read a whole number."""
    # Not int() alone, which takes " 1_0 " and digits of any alphabet.
    if value.isascii() and value.isdigit() and len(value) <= 19:
        number = int(value)
        if least <= number <= most:
            return number
    raise bad(name, f"{value[:40]!r} is not a whole number from {least} to {most}")


def flag_of(request: Request, name: str) -> bool:
    """Return whether the query says `true` of something; raises Refusal (400) for other words."""
    value = request.query_params.get(name, "false")
    if value not in ("true", "false"):
        raise bad(name, f"{value[:40]!r} is neither true nor false")
    return value == "true"


async def raw_body_of(admission: Admission, request: Request, user: User) -> bytes:
    """Return the bytes of the body; raises Refusal as `body_in`."""
    async with body_in(admission, request, user.name, JSON_BYTES, JSON_BYTES_MAX) as data:
        return bytes(data)


async def policy_body_of(admission: Admission, request: Request, user: User) -> bytes:
    """The same for a policy or a parameter, which is checked in one piece."""
    async with body_in(admission, request, user.name, POLICY_BYTES, POLICY_BYTES_MAX) as data:
        return bytes(data)


def json_of(admission: Admission, data: bytes) -> Any:
    """Read JSON.

    Raises:
        Refusal: it has too many values (413).
        ValueError, RecursionError: it is not JSON, has a number that is too large, or is too deep.
    """
    values = data.count(b",") + data.count(b"[") + data.count(b"{")
    if values > JSON_VALUES_MAX:
        admission.refusals.count(JSON_VALUES)
        reason = f"the body has more than {JSON_VALUES_MAX} values ({JSON_VALUES})"
        raise too_large(JSON_VALUES, JSON_VALUES_MAX, reason)
    return json.loads(data, parse_float=finite, parse_constant=no_constant)


async def object_in(
    admission: Admission, request: Request, user: User, needed: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the JSON object in the body; raises as `raw_body_of` and `object_of`."""
    return object_of(admission, await raw_body_of(admission, request, user), needed)


def object_of(admission: Admission, data: bytes, needed: Iterable[str] = ()) -> dict[str, Any]:
    """Read a JSON object as RabbitMQ does: other members are left out, and no body has none.

    Raises:
        Refusal: it is no object, a member is missing, or a text is not Unicode.
    """
    try:
        given = json_of(admission, data) if data.strip() else {}
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise bad_request("not_json")
    missing = [f"{{key_missing,{key}}}" for key in needed if key not in given]
    if missing:
        raise bad_request(f"[{','.join(missing)}]")
    return given


def text_in(given: Mapping[str, Any], key: str, bytes_max: int | None = None) -> str:
    """Return a member that is a text.

    Raises:
        Refusal: it is not one, or has more bytes.
    """
    value = given[key]
    if not isinstance(value, str):
        raise bad_request(f"{key} should be a string")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise bad_request(f"{key} should be Unicode text") from None
    if bytes_max is not None and size > bytes_max:
        raise bad_request(f"{key} has {size} bytes; at most {bytes_max} are allowed")
    return value


def flag_in(given: Mapping[str, Any], name: str, *, default: bool = False) -> bool:
    """Return a boolean member of a body; RabbitMQ's clients write it as a string, too.

    Raises:
        Refusal: it is something else (400).
    """
    value = given.get(name, default)
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise Refusal(400, "bad_request", ["not_boolean", value])


async def body_of(
    admission: Admission, request: Request, user: User, known: Sequence[str]
) -> Mapping[str, Any]:
    """Return the members of a JSON object in the body; no body has none.

    Raises:
        Refusal: it is not one, is too large, or has other members.
    """
    data = await raw_body_of(admission, request, user)
    if not data.strip():
        return {}
    try:
        value = json_of(admission, data)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "bad-request", f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refusal(400, "bad-request", "the body is not a JSON object")
    for name in value:
        if name not in known:
            raise bad(name[:COMPARED_MAX], f"unknown member{nearest(name, known)}")
    return value
