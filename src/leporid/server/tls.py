"""TLS: sockets whose bytes are encrypted, and the certificates they are made with.

Responsible for joining OpenSSL to a socket that the loop drives, with the methods of a plain one,
and for reading certificates, once more when their files change. Must not know what is spoken
inside. Invariants: a connection keeps the certificate that it began with; a file that cannot be
used replaces none that can; what a socket keeps of a peer's bytes is less than one read and one
record (16 KiB, RFC 8446 5.1).
"""

# ruff: noqa: RUF009 - `setting` is dataclasses.field with a check
from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from leporid.broker.connection.transport import CertificateLogin, Encryption
from leporid.server.certificate_ends import ends_in
from leporid.server.peer_certificates import (
    ExpiredCertificate,
    UnreadableCertificate,
    check_resumed,
    encryption_of,
)
from leporid.server.proxy_protocol import ProxiedSocket, ProxyError
from leporid.server.settings import (
    Choice,
    ConfigError,
    file,
    join,
    named,
    section,
    setting,
    whole,
)
from leporid.server.sources import Values

logger = logging.getLogger(__name__)

# Ciphertext received at a time, at least: a whole record, of which nothing can be read before.
RECEIVED_BYTES: Final = 32 * 1024
# For who wants to read less: nothing stays in it.
ROOM: Final = memoryview(bytearray(RECEIVED_BYTES))
# Records handled before others have their turn: each may be a handshake message that takes 30
# microseconds, such as a new key.
RECORDS_A_READ: Final = 32
RECORD_HEAD_BYTES: Final = 5
# What is owed to a peer that takes nothing of it: its output, and answers to its handshakes.
UNSENT_BYTES_MAX: Final = 256 * 1024
# Plaintext encrypted at a time: five records, as the output of a turn is somewhat more than 64 KiB.
# What the socket does not take of it is kept.
SENT_BYTES: Final = 80 * 1024
# Before this version OpenSSL lets a client have keys agreed on in groups of which the largest,
# ffdhe8192, takes the broker 130 ms for one message of the client's, which costs that nothing. The
# ssl module lets us name one group: the one that each implementation has (RFC 8446, 9.1).
FEW_GROUPS_SINCE: Final = (3, 5)
GROUP: Final = "prime256v1"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """`[tls]` or `[tls.names."NAME"]`: a certificate with its chain, and its key; PEM files."""

    certificate: Path = setting(file, doc="PEM file: the certificate, then those that signed it")
    key: Path = setting(file, doc="PEM file: its private key, without a passphrase")


@dataclass(frozen=True, slots=True)
class Tls:
    """`[tls]`: how clients are spoken to over TLS; without a certificate they are not."""

    certificate: Path | None = setting(
        file,
        None,
        "PEM file: the certificate, then those that signed it",
        rabbitmq="`ssl_options.certfile`",
    )
    key: Path | None = setting(
        file,
        None,
        "PEM file: its private key, without a passphrase",
        rabbitmq="`ssl_options.keyfile`",
    )
    names: Mapping[str, KeyPair] | None = setting(
        named(section(KeyPair)),
        None,
        "certificates by host name, for clients that ask for it (SNI), each a table "
        "`[tls.names.NAME]`",
        rabbitmq="`ssl_options.sni_hosts`",
    )
    client_ca: Path | None = setting(
        file,
        None,
        "PEM file: who may have signed clients' certificates",
        rabbitmq="`ssl_options.cacertfile`",
    )
    client_certificates: str = setting(
        Choice("off", "optional", "required"),
        "off",
        'whether clients show a certificate: `"off"`, `"optional"`, `"required"`',
        rabbitmq="`ssl_options.verify`, `ssl_options.fail_if_no_peer_cert`",
    )
    login_from: str = setting(
        Choice("distinguished_name", "common_name", "subject_alternative_name"),
        "distinguished_name",
        "which part of a client's certificate is the name of the user that "
        "[SASL EXTERNAL](tls.md#login-by-certificate) logs in",
        rabbitmq="`ssl_cert_login_from`",
    )
    login_san_type: str = setting(
        Choice("dns", "ip", "email", "uri"),
        "dns",
        "of several kinds of alternative names, which one",
        rabbitmq="`ssl_cert_login_san_type`",
    )
    login_san_index: int = setting(
        whole(0, 1000),
        0,
        "of several alternative names of that kind, which one; 0: the first",
        rabbitmq="`ssl_cert_login_san_index`",
    )
    http_client_certificates: str = setting(
        Choice("off", "optional", "required"),
        "off",
        "the same of clients over HTTP; their certificates are checked, and log nobody in",
        rabbitmq="`management.ssl.verify`, `management.ssl.fail_if_no_peer_cert`",
    )


def check_tls(settings: Tls) -> None:
    """Check what concerns several settings at once.

    Raises:
        ConfigError: they do not belong together.
    """
    if (settings.certificate is None) != (settings.key is None):
        raise ConfigError("tls: certificate and key belong together: one is missing")
    if settings.certificate is None and (settings.names or settings.client_ca):
        raise ConfigError("tls: without certificate and key, nothing is encrypted")
    asked = {settings.client_certificates, settings.http_client_certificates} != {"off"}
    if (settings.client_ca is None) == asked:
        raise ConfigError(
            'tls: client_ca and client_certificates = "optional" or "required" belong together '
            "(or http_client_certificates)"
        )


class CertificateExpiry(NamedTuple):
    """Until when files of certificates are valid, each for all in it, in seconds since 1970.

    Attributes:
        authority: who may have signed clients' certificates; None: these are not asked for.
    """

    certificate: Path
    certificate_ends: tuple[int, ...]
    authority: Path | None
    authority_ends: tuple[int, ...]


class Certificates:
    """What clients are shown, and what they have to show.

    Args:
        settings: with a certificate, which is for clients that ask for none of the names.

    Attributes:
        login: which part of a client's certificate is the user's name.

    Raises:
        ConfigError: a file cannot be used; the text names it.
    """

    def __init__(self, settings: Tls) -> None:
        assert settings.certificate is not None
        assert settings.key is not None
        self._pair = KeyPair(settings.certificate, settings.key)
        self._names = {name.lower(): pair for name, pair in (settings.names or {}).items()}
        self._client_ca = settings.client_ca
        self._clients = settings.client_certificates
        self._http_clients = settings.http_client_certificates
        self.login = CertificateLogin(
            settings.login_from, settings.login_san_type, settings.login_san_index
        )
        self._seen = self._look()
        self._contexts = self._load()
        self._ends = self._read_ends()

    @property
    def context(self) -> ssl.SSLContext:
        """What the next AMQP connection is made with."""
        return self._contexts[0]

    @property
    def http_context(self) -> ssl.SSLContext:
        """What the next HTTP connection is made with."""
        return self._contexts[1]

    def reload(self) -> bool:
        """Read the files again if any has changed; returns whether that was so.

        Files that cannot be used, such as a certificate whose key is not there yet, are read again
        when they change.
        """
        seen = self._look()
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            self._contexts = self._load()
        except ConfigError as error:
            logger.error(
                "%s; the certificates that were read before stay until these files change", error
            )
            return False
        self._ends = self._read_ends()
        logger.info("tls: the certificates were read again")
        return True

    def ends(self, *, http: bool) -> Iterator[CertificateExpiry]:
        """Go through the certificates that clients are shown, over AMQP or HTTP."""
        asked = (self._http_clients if http else self._clients) != "off"
        authority = self._client_ca if asked else None
        for pair in (self._pair, *self._names.values()):
            yield CertificateExpiry(
                pair.certificate,
                self._ends[pair.certificate],
                authority,
                () if authority is None else self._ends[authority],
            )

    def _read_ends(self) -> dict[Path, tuple[int, ...]]:
        pairs = (self._pair, *self._names.values())
        shown = {pair.certificate: ends_in(pair.certificate) for pair in pairs}
        return shown | ({self._client_ca: ends_in(self._client_ca)} if self._client_ca else {})

    def _files(self) -> list[Path]:
        pairs = [self._pair, *self._names.values()]
        found = [path for pair in pairs for path in (pair.certificate, pair.key)]
        return found if self._client_ca is None else [*found, self._client_ca]

    def _look(self) -> list[tuple[int, int, int] | None]:
        """What tells a file from an older one."""
        seen: list[tuple[int, int, int] | None] = []
        for path in self._files():
            try:
                about = path.stat()
            except OSError:
                seen.append(None)
            else:
                seen.append((about.st_mtime_ns, about.st_size, about.st_ino))
        return seen

    def _load(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """Return what AMQP connections and HTTP connections are made with."""
        return self._load_for(self._clients), self._load_for(self._http_clients)

    def _load_for(self, clients: str) -> ssl.SSLContext:
        named = {
            name: self._make(pair, clients, join("tls.names", name))
            for name, pair in self._names.items()
        }
        context = self._make(self._pair, clients, "tls")
        if named:

            def choose(shown: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
                shown.context = named.get((name or "").lower(), context)

            context.sni_callback = choose
        return context

    def _make(self, pair: KeyPair, clients: str, path: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The server's order of ciphers, and no second handshake within a connection.
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION
        context.options |= ssl.OP_NO_COMPRESSION
        if ssl.OPENSSL_VERSION_INFO < FEW_GROUPS_SINCE:
            context.set_ecdh_curve(GROUP)
        _use(pair, path, context)
        if self._client_ca is not None and clients != "off":
            _trust(self._client_ca, "tls.client_ca", context)
            required = clients == "required"
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        return context


def check_certificates(settings: Tls, values: Values) -> None:
    """Read the files of certificates and keys, if there are any.

    Args:
        settings: they name them.
        values: what the settings were made of.

    Raises:
        ConfigError: one cannot be used; it says where its setting stands.
    """
    if settings.certificate is None:
        return
    try:
        Certificates(settings)
    except ConfigError as error:
        raise values.located(error) from None


def _use(pair: KeyPair, path: str, context: ssl.SSLContext) -> None:
    certificate = f"{path}.certificate"
    _check_readable(pair.certificate, certificate)
    _check_readable(pair.key, f"{path}.key")
    try:
        # A key that needs a passphrase would ask for it at the terminal.
        context.load_cert_chain(pair.certificate, pair.key, password=lambda: b"")
    except OSError as error:
        raise ConfigError(
            f"{certificate}: {pair.certificate} and {pair.key} are no certificate and its key "
            f"without a passphrase, in PEM: {getattr(error, 'reason', None) or error}",
            certificate,
        ) from None


def _trust(authority: Path, key: str, context: ssl.SSLContext) -> None:
    _check_readable(authority, key)
    try:
        context.load_verify_locations(authority)
    except OSError as error:
        why = getattr(error, "reason", None) or error
        raise ConfigError(f"{key}: {authority} has no certificates in PEM: {why}", key) from None


def _check_readable(path: Path, key: str) -> None:
    """Raise ConfigError, with the key of the setting, if a file cannot be read."""
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise ConfigError(
            f"{key}: {path}: cannot be read: {error.strerror or error}", key
        ) from None


class NoTls(OSError):
    """What came on a port for TLS was something else; the text says what, but nothing of it."""


PLAIN_CLIENTS: Final = (
    (b"AMQP", "a plain AMQP client"),
    *((method, "a plain HTTP client") for method in (b"GET ", b"PUT ", b"POST", b"HEAD", b"DELE")),
    (b"PROX", "the PROXY protocol, from who is not in proxy_protocol.trusted,"),
    (b"\r\n\r\n", "the PROXY protocol, from who is not in proxy_protocol.trusted,"),
)
"""What begins with what. A record of TLS begins with HANDSHAKE (RFC 8446, 5.1)."""
HANDSHAKE: Final = b"\x16"
BEGINNING_BYTES: Final = 4


def _spoken(begun: bytes) -> str:
    """Say what a client speaks that has begun without TLS."""
    found = (said for beginning, said in PLAIN_CLIENTS if begun.startswith(beginning))
    return f"no TLS: {next(found, 'another protocol')} on the port for TLS"


def reason_to_log(error: OSError) -> str:
    """Say why a peer broke the rules below AMQP and HTTP, but nothing that it sent; "" if not."""
    if isinstance(error, ProxyError | NoTls | UnreadableCertificate | ExpiredCertificate):
        return str(error)
    if not isinstance(error, ssl.SSLError):
        return ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: the client's certificate was refused: {error.verify_message}"
    return f"tls: {error.reason or error}"


class TlsSocket:
    """A connected, non-blocking socket that speaks TLS as the server.

    Args:
        below: what ciphertext comes from: a socket, or one behind a proxy.
        context: what it is made with.

    Attributes:
        plain: the socket itself.
        has_more: whether something can be read of which the operating system does not tell.
        unsent: ciphertext that the operating system had no room for; `flush` sends it.
        established: whether the handshake has ended.
        on_established: called once, when it ends, before anything is read.
    """

    __slots__ = (
        "_begun",
        "_below",
        "_ended",
        "_left_of_record",
        "_received",
        "_records",
        "_tls",
        "_to_send",
        "_waiting",
        "established",
        "has_more",
        "on_established",
        "plain",
        "unsent",
    )

    def __init__(self, below: socket.socket | ProxiedSocket, context: ssl.SSLContext) -> None:
        self._below = below
        self.plain = below.plain if isinstance(below, ProxiedSocket) else below
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_side=True)
        self.established = self.has_more = self._ended = False
        self.unsent = b""
        self.on_established: Callable[[], None] | None = None
        # Of what was received: its beginning, what OpenSSL was not given yet, and how much of its
        # last record.
        self._begun = self._waiting = b""
        self._left_of_record = 0
        # Whole records that OpenSSL was given and may not have read, at most.
        self._records = 0

    def __repr__(self) -> str:
        return f"<TlsSocket {self.plain.fileno()} {self._tls.version()}>"

    def fileno(self) -> int:
        """The descriptor; -1: it is closed."""
        return self.plain.fileno()

    def encryption(self) -> Encryption:
        """What the handshake, which has ended, has agreed on."""
        return encryption_of(self._tls)

    def close(self) -> None:
        """Close it at once, without a word; nobody is told of anything any more."""
        self.on_established = None
        self._below.close()

    # ------------------------------------------------------------- reading

    def recv_into(self, view: memoryview) -> int:
        """Read what the peer said, which may be less than there is; see `has_more`.

        Returns:
            The octets that were read; 0: the peer has ended.

        Raises:
            BlockingIOError: nothing that can be read has come.
            OSError: the peer is gone, or breaks the protocol (ssl.SSLError).
        """
        if self._ended:
            self.has_more = False
            return 0
        data: bytes | memoryview = self._waiting
        if not self.has_more:
            # Not `recv`, which takes memory for all that may come: what is kept of it, such as half
            # a ClientHello, would keep the rest from being used again, 64 KiB for each peer.
            room = view if len(view) >= RECEIVED_BYTES else ROOM
            count = self._below.recv_into(room)
            if not count:
                return 0
            received = room[:count]
            self._begun = self._begun or bytes(received[:BEGINNING_BYTES])
            data = self._waiting + received if self._waiting else received
        try:
            if not self._records:
                self._give_records(data)
            if not self.established:
                self._shake_hands()
            count = self._decrypted(view)
        finally:
            self.has_more = bool(self._records) or len(self._waiting) >= RECORD_HEAD_BYTES
            # An alert; the answer of a handshake; a new key.
            self.flush()
        if not count and not self._ended:
            raise BlockingIOError
        return count

    def recv(self, count: int) -> bytes:
        """Read and forget what comes after our last word, which is not decrypted."""
        return self.plain.recv(count)

    def _give_records(self, data: bytes | memoryview) -> None:
        """Give OpenSSL some of the records that were received; see RFC 8446 5.1 for their heads."""
        at, left = 0, self._left_of_record
        for _ in range(RECORDS_A_READ):
            if not left:
                if len(data) - at < RECORD_HEAD_BYTES:
                    break
                left = RECORD_HEAD_BYTES + (data[at + 3] << 8 | data[at + 4])
            part = min(left, len(data) - at)
            at += part
            left -= part
            if left:
                break
            self._records += 1
        self._left_of_record = left
        self._received.write(data[:at])
        self._waiting = bytes(data[at:])

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._records = 0
            raise BlockingIOError from None
        except ssl.SSLError:
            if not self._begun.startswith(HANDSHAKE):
                raise NoTls(_spoken(self._begun)) from None
            raise
        check_resumed(self._tls, time.time())
        self.established = True
        call, self.on_established = self.on_established, None
        if call is not None:
            call()

    def _decrypted(self, view: memoryview) -> int:
        """Decrypt what was received as far as there is room. A read gives one record at most.

        OpenSSL is not asked for more records than it has: its no takes as long as a record.
        """
        count, room = 0, len(view)
        while self._records and count < room:
            try:
                part: Any = self._tls.read(room - count, view[count:])  # a number, with a buffer
            except ssl.SSLWantReadError:
                self._records = 0  # the rest were of TLS itself
                break
            if not part:
                # close_notify: nothing follows. If this read has something, the next one says so.
                self._ended = True
                self._waiting, self._records = b"", int(count > 0)
                break
            count += part
            if count < room or not self._tls.pending():
                self._records -= 1
        return count

    # ------------------------------------------------------------- sending

    def send(self, view: memoryview | bytes) -> int:
        """Encrypt and send; returns how much was taken, of which some may be `unsent`.

        Raises:
            BlockingIOError: there is no room before what is unsent has gone.
            OSError: the peer is gone.
        """
        if self.unsent:
            self.flush()
            if self.unsent:
                raise BlockingIOError
        count = self._tls.write(view[:SENT_BYTES])
        self.flush()
        return count

    def flush(self) -> None:
        """Send what was encrypted, as much as there is room for."""
        if self._to_send.pending:
            self.unsent += self._to_send.read()
        if self.unsent:
            try:
                self.unsent = self.unsent[self.plain.send(self.unsent) :]
            except (BlockingIOError, InterruptedError):
                if len(self.unsent) > UNSENT_BYTES_MAX:
                    raise ConnectionResetError(
                        f"it takes none of {len(self.unsent)} octets that TLS owes it"
                    ) from None

    def shutdown(self, how: int) -> None:
        """Say that nothing more is sent (close_notify, RFC 8446 6.1), and shut the plain socket.

        Raises:
            OSError: the peer is gone.
        """
        try:
            self._tls.unwrap()
        except (ssl.SSLError, ValueError):
            pass  # its answer is not waited for; or there was no handshake
        self.flush()
        self.plain.shutdown(how)


Stream = TlsSocket | ProxiedSocket
"""A socket that is not read as it is."""


def stream_over(
    plain: socket.socket, context: ssl.SSLContext | None, *, proxied: bool
) -> tuple[Stream | None, ProxiedSocket | None, TlsSocket | None]:
    """Put together how a socket is read; returns the whole, and its parts.

    Args:
        plain: connected and non-blocking.
        context: for TLS; None: there is none.
        proxied: whether a header of the PROXY protocol comes first.
    """
    proxy = ProxiedSocket(plain) if proxied else None
    tls = TlsSocket(proxy or plain, context) if context is not None else None
    return tls or proxy, proxy, tls
