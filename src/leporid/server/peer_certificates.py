"""What OpenSSL says of a connection after its handshake, as facts that the broker keeps.

Responsible for reading `ssl.SSLObject`: protocol, cipher suite, and the client's certificate with
its names as RFC 4514 and RabbitMQ write them. Must not know what becomes of them. Invariant: a
certificate that was not verified is none.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from leporid.broker.connection.transport import Encryption, PeerCertificate

# Names of attributes as OpenSSL has them, and their short forms (RFC 4514, 3, and RabbitMQ's own).
SHORT_NAMES: Final[Mapping[str, str]] = {
    "surname": "SN",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "TITLE",
    "countryName": "C",
    "serialNumber": "SERIALNUMBER",
    "pseudonym": "PSEUDONYM",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "streetAddress": "STREET",
    "userId": "UID",
}
KINDS: Final[Mapping[str, str]] = {
    "DNS": "dns",
    "IP Address": "ip",
    "email": "email",
    "URI": "uri",
}
ESCAPED: Final = frozenset('"+,;<>\\')
PRINTABLE: Final = range(32, 126)


class UnreadableCertificate(OSError):
    """A client's certificate that was verified, and that nobody can show; the text has no name."""

    def __str__(self) -> str:
        return f"tls: the client's certificate cannot be read: {self.args[0]}"


class ExpiredCertificate(OSError):
    """A client's certificate that was verified while it was valid, in a session that is resumed."""

    def __str__(self) -> str:
        return "tls: the client's certificate has expired, and its session is over"


_Names = Iterable[Iterable[tuple[str, str]]]


def encryption_of(tls: ssl.SSLObject) -> Encryption:
    """Return what a handshake that has ended has agreed on; some 10 microseconds.

    Raises:
        UnreadableCertificate: the client's certificate has names, or times, that are none.
    """
    suite = tls.cipher()
    try:
        shown: Any = tls.getpeercert()  # empty if it was not verified, None if there is none
        certificate = certificate_of(shown) if shown else None
    except (ValueError, OverflowError) as error:
        # Of names, only their types are checked by OpenSSL. The text may have some of one.
        raise UnreadableCertificate(type(error).__name__) from None
    return Encryption.of(
        tls.version() or "",
        "" if suite is None else suite[0],
        certificate,
    )


def check_resumed(tls: ssl.SSLObject, now_s: float) -> None:
    """Check a handshake that has ended: OpenSSL verifies no certificate of a session resumed.

    Each resumption gives the client a new ticket, so that it could go on for ever.

    Raises:
        ExpiredCertificate: the client's certificate would be refused now.
        UnreadableCertificate: it has a time that is none.
    """
    if not tls.session_reused:
        return
    shown: Any = tls.getpeercert()
    try:
        over = bool(shown) and ssl.cert_time_to_seconds(shown["notAfter"]) < now_s
    except ValueError as error:
        raise UnreadableCertificate(type(error).__name__) from None
    if over:
        raise ExpiredCertificate


def certificate_of(shown: Mapping[str, Any]) -> PeerCertificate:
    """Return a certificate of which `ssl` has made a dictionary."""
    subject: _Names = shown.get("subject", ())
    return PeerCertificate(
        distinguished_name(subject),
        distinguished_name(shown.get("issuer", ())),
        f"{_moment(shown['notBefore'])} - {_moment(shown['notAfter'])}",
        tuple(value for part in subject for name, value in part if name == "commonName"),
        tuple(
            (KINDS[kind], value) for kind, value in shown.get("subjectAltName", ()) if kind in KINDS
        ),
    )


def distinguished_name(parts: _Names) -> str:
    """Write a name as RFC 4514 says: the last part first.

    Attributes without a short form have the name that OpenSSL gives them.
    """
    written = [
        "+".join(f"{SHORT_NAMES.get(name, name)}={_escaped(value)}" for name, value in part)
        for part in parts
    ]
    return ",".join(reversed(written))


def _escaped(value: str) -> str:
    """Escape a value (RFC 4514, 2.4); octets that are not printable ASCII as RabbitMQ does."""
    octets = value.encode("utf-8", "surrogateescape")
    found = ""
    for at, octet in enumerate(octets):
        one = chr(octet)
        if octet not in PRINTABLE:
            found += f"\\{octet:02X}"
        elif one in ESCAPED or (at == 0 and one in " #") or (at == len(octets) - 1 and one == " "):
            found += "\\" + one
        else:
            found += one
    return found


def _moment(text: str) -> str:
    """Turn `Jan  1 00:00:00 2026 GMT` into `2026-01-01T00:00:00Z`."""
    seconds = ssl.cert_time_to_seconds(text)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
