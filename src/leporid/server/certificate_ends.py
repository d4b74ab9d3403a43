"""Until when certificates in PEM files are valid.

Responsible for reading the field `notAfter` of X.509 certificates. Must not know what they are for,
and checks no signature: OpenSSL has taken the files. Invariant: what cannot be understood has no
end, rather than a wrong one.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

_BLOCK: Final = re.compile(
    r"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.*?)-----END", re.ASCII | re.DOTALL
)
# Tags of DER (X.690, 8.1.2 and 8.23 to 8.26).
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_TIMES: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}


def ends_in(file: Path) -> tuple[int, ...]:
    """Return until when each certificate of a file is valid, in seconds since 1970."""
    try:
        text = file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ()
    return tuple(_ends(text))


def _ends(text: str) -> Iterator[int]:
    for found in _BLOCK.finditer(text):
        block = f"{ssl.PEM_HEADER}\n{found[1].strip()}\n{ssl.PEM_FOOTER}\n"
        try:
            yield _end_of(ssl.PEM_cert_to_DER_cert(block))
        except (ValueError, IndexError):
            continue


def _end_of(certificate: bytes) -> int:
    """Return the second time of the member `validity` (RFC 5280, 4.1).

    Raises:
        ValueError, IndexError: these bytes are no certificate.
    """
    inside = _inside(certificate, 0, _SEQUENCE)
    at = _inside(certificate, inside, _SEQUENCE)
    if certificate[at] == _VERSION:
        at = _after(certificate, at)
    for _ in ("serial number", "signature", "issuer"):
        at = _after(certificate, at)
    end = _after(certificate, _inside(certificate, at, _SEQUENCE))
    begins, stops = _content(certificate, end)
    written = certificate[begins:stops].decode("ascii")
    moment = datetime.strptime(written, _TIMES.get(certificate[end], "no time"))  # noqa: DTZ007
    # Two digits of a year are of 1950 to 2049 (RFC 5280, 4.1.2.5.1), but 1969 to 2068 to strptime.
    if certificate[end] == 0x17 and moment.year >= 2050:
        moment = moment.replace(year=moment.year - 100)
    return int(moment.replace(tzinfo=UTC).timestamp())


def _content(der: bytes, at: int) -> tuple[int, int]:
    """Return where the content of a value begins and ends."""
    length, begins = der[at + 1], at + 2
    if length & 0x80:
        begins += length & 0x7F
        length = int.from_bytes(der[at + 2 : begins], "big")
    return begins, begins + length


def _inside(der: bytes, at: int, tag: int) -> int:
    if der[at] != tag:
        raise ValueError("another tag")
    return _content(der, at)[0]


def _after(der: bytes, at: int) -> int:
    return _content(der, at)[1]
