"""What a connection's transport is: both ends of its socket, and what TLS says of it.

Responsible for these facts as data, in RabbitMQ's words: the name that the ends give a connection,
protocol, cipher suite and the client's certificate, and the user name that a certificate stands for
(SASL EXTERNAL). Must not know OpenSSL or sockets: the server fills these in. Invariants: the name
tells any two connections of one moment apart; a certificate is here only if it was verified.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

NAME_BYTES_MAX: Final = 255
"""Of the user name that a certificate stands for; AMQP's short strings, and users' names."""

# Cipher suites of TLS 1.3 (RFC 8446 B.4) name no key exchange; older ones are written in OpenSSL's
# way, such as ECDHE-RSA-AES256-GCM-SHA384, or AES128-SHA for a key exchange by RSA alone.
_TLS13: Final = re.compile(r"TLS_(.+)_SHA\d+")
_OLDER: Final = re.compile(
    r"(?:((?:ECDHE|DHE|ECDH|DH|PSK|SRP|RSA)(?:-(?:RSA|ECDSA|DSS|PSK))?)-)?(.+?)(?:-(SHA\d*|MD5))?"
)
_AES: Final = re.compile(r"AES(\d+)(?:-(GCM|CCM8|CCM))?")
_AEAD: Final = ("_gcm", "_ccm", "_ccm_8", "chacha20_poly1305")


class Endpoints(NamedTuple):
    """Both ends of a connection's socket: the client's, and the one it has connected to."""

    peer_host: str
    peer_port: int
    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        """Return what RabbitMQ calls such a connection."""
        return f"{_host(self.peer_host)}:{self.peer_port} -> {_host(self.host)}:{self.port}"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """A client's certificate that one of the configured authorities has signed.

    Attributes:
        subject: the distinguished name as RFC 4514 writes it, the last part first.
        issuer: likewise, who signed it.
        validity: from when until when, such as `2026-01-01T00:00:00Z - 2027-01-01T00:00:00Z`.
        common_names: those of the subject, in their order.
        alternative_names: kind (`dns`, `ip`, `email`, `uri`) and value, in their order.
    """

    subject: str
    issuer: str
    validity: str
    common_names: tuple[str, ...] = ()
    alternative_names: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Encryption:
    """How a connection is encrypted.

    Attributes:
        protocol: `tlsv1.2` or `tlsv1.3`.
        key_exchange: such as `ecdhe_rsa`; `any` in TLS 1.3, whose cipher suites leave it open.
        cipher: such as `aes_256_gcm`.
        hash: what protects records from changes: `aead`, or such as `sha256`.
        suite: the cipher suite, as OpenSSL calls it.
        certificate: that of the client, if it showed one.
    """

    protocol: str
    key_exchange: str
    cipher: str
    hash: str
    suite: str
    certificate: PeerCertificate | None = None

    @classmethod
    def of(cls, version: str, suite: str, certificate: PeerCertificate | None = None) -> Encryption:
        """Make it of OpenSSL's names, such as `TLSv1.3` and `TLS_AES_256_GCM_SHA384`."""
        key_exchange, cipher, digest = _parts(suite)
        return cls(version.lower(), key_exchange, cipher, digest, suite, certificate)


@dataclass(frozen=True, slots=True)
class CertificateLogin:
    """Which part of a certificate is the user's name: RabbitMQ's `ssl_cert_login_from`.

    Attributes:
        part: `common_name`, `distinguished_name` or `subject_alternative_name`.
        kind: of alternative names: `dns`, `ip`, `email` or `uri`.
        index: which one of that kind, from 0.
    """

    part: str = "distinguished_name"
    kind: str = "dns"
    index: int = 0

    def user(self, certificate: PeerCertificate) -> str | None:
        """Return the name; None: the certificate has no such part, or none that a user can have."""
        if self.part == "distinguished_name":
            found = certificate.subject
        elif self.part == "common_name":
            # As RabbitMQ does; the distinguished name tells several from one with a comma in it.
            found = ",".join(certificate.common_names)
        else:
            names = [name for kind, name in certificate.alternative_names if kind == self.kind]
            found = names[self.index] if self.index < len(names) else ""
        return found if 1 <= len(found.encode()) <= NAME_BYTES_MAX else None


def _parts(suite: str) -> tuple[str, str, str]:
    """Return key exchange, cipher and hash of a cipher suite, in Erlang's words."""
    newer = _TLS13.fullmatch(suite)
    if newer is not None:
        return "any", newer[1].lower(), "aead"
    older = _OLDER.fullmatch(suite)
    if older is None:
        return "", suite.lower(), ""
    key_exchange, cipher, digest = older[1] or "RSA", older[2], older[3] or ""
    aes = _AES.fullmatch(cipher)
    if aes is not None:
        cipher = f"AES_{aes[1]}_{(aes[2] or 'CBC').replace('CCM8', 'CCM_8')}"
    cipher = cipher.replace("-", "_").lower()
    found = "aead" if cipher.endswith(_AEAD) else digest.lower()
    return key_exchange.replace("-", "_").lower(), cipher, found
