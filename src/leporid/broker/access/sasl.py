"""What a client says to log in: the SASL mechanisms PLAIN, AMQPLAIN and EXTERNAL.

Responsible for taking user name and password out of the response. Must not know which users
exist. Invariant: nothing of the response appears in an error or a repr, since half of it is a
password.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from leporid.amqp.errors import CommandInvalid, SyntaxFault
from leporid.amqp.tables import LongString, check_count, decode_table, text_of

# Announced in connection.start, in RabbitMQ's order.
MECHANISMS = ("PLAIN", "AMQPLAIN")

# Announced as well where the client has shown a certificate (RFC 4422, A).
EXTERNAL = "EXTERNAL"

# Two are needed. Anybody can send one, so it is not decoded whatever it holds.
AMQPLAIN_VALUES_MAX = 16


@dataclass(frozen=True, slots=True)
class Credentials:
    """A claim that has not been checked yet."""

    mechanism: str
    username: str
    password: bytes = field(repr=False)


def parse_response(mechanism: str, response: bytes) -> Credentials:
    """Read the response to connection.start.

    Raises:
        CommandInvalid: the mechanism is not one of ours.
        SyntaxFault: the response is not what the mechanism prescribes.
    """
    if mechanism == "PLAIN":
        return parse_plain(response)
    if mechanism == "AMQPLAIN":
        return parse_amqplain(response)
    reason = "unknown authentication mechanism"
    raise CommandInvalid(f"{reason} '{mechanism}'", logged=reason)


def parse_plain(response: bytes) -> Credentials:
    """Read PLAIN (RFC 4616): NUL, user name, NUL, password.

    Like RabbitMQ, no authorization identity may stand before the first NUL.
    """
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0]:
        raise SyntaxFault("PLAIN response invalid")
    return Credentials("PLAIN", _username(parts[1]), parts[2])


def parse_amqplain(response: bytes) -> Credentials:
    """Read AMQPLAIN: a field table without its length, with LOGIN and PASSWORD."""
    sized = len(response).to_bytes(4, "big") + response
    check_count(sized, 0, AMQPLAIN_VALUES_MAX)
    table, _ = decode_table(sized)
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if login is None or password is None:
        raise SyntaxFault("AMQPLAIN auth info is missing LOGIN or PASSWORD field")
    if not isinstance(login, str | LongString) or not isinstance(password, str | LongString):
        raise SyntaxFault("AMQPLAIN auth info uses unsupported type for LOGIN or PASSWORD field")
    return Credentials("AMQPLAIN", _username(_as_bytes(login)), _as_bytes(password))


def _as_bytes(value: str | LongString) -> bytes:
    return value.encode("utf-8") if isinstance(value, str) else value


def _username(raw: bytes) -> str:
    """Decode a name so that one that is not UTF-8 equals no user's name, and stays printable."""
    return text_of(raw)
