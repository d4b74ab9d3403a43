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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leporid.server.settings import ConfigError, choice, file, named, section, setting

logger = logging.getLogger(__name__)

# Ciphertext received at a time, at least: a whole record, of which nothing can be read before.
RECEIVED_BYTES: Final = 32 * 1024
# Records handled before others have their turn: each may be a handshake message that takes 30
# microseconds, such as a new key.
RECORDS_A_READ: Final = 32
RECORD_HEAD_BYTES: Final = 5
# What is owed to a peer that takes nothing of it: its output, and answers to its handshakes.
UNSENT_BYTES_MAX: Final = 256 * 1024
# Plaintext encrypted at a time: four records. What the socket does not take of it is kept.
SENT_BYTES: Final = 64 * 1024


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
        choice("off", "optional", "required"),
        "off",
        'whether clients show a certificate: `"off"`, `"optional"`, `"required"`',
        rabbitmq="`ssl_options.verify`, `ssl_options.fail_if_no_peer_cert`",
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
    if (settings.client_ca is None) != (settings.client_certificates == "off"):
        raise ConfigError(
            'tls: client_ca and client_certificates = "optional" or "required" belong together'
        )


class Certificates:
    """What clients are shown, and what they have to show.

    Args:
        settings: with a certificate, which is for clients that ask for none of the names.

    Raises:
        ConfigError: a file cannot be used; the text names it.
    """

    def __init__(self, settings: Tls) -> None:
        assert settings.certificate is not None
        assert settings.key is not None
        self._pair = KeyPair(settings.certificate, settings.key)
        self._names = {name.lower(): pair for name, pair in (settings.names or {}).items()}
        self._client_ca = settings.client_ca
        self._client_required = settings.client_certificates == "required"
        self._seen = self._look()
        self._context = self._load()

    @property
    def context(self) -> ssl.SSLContext:
        """What the next connection is made with."""
        return self._context

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
            self._context = self._load()
        except ConfigError as error:
            logger.error("tls: %s; the certificates that were read before stay", error)
            return False
        logger.info("tls: the certificates were read again")
        return True

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

    def _load(self) -> ssl.SSLContext:
        named = {name: self._make(pair) for name, pair in self._names.items()}
        context = self._make(self._pair)
        if named:

            def choose(shown: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
                shown.context = named.get((name or "").lower(), context)

            context.sni_callback = choose
        return context

    def _make(self, pair: KeyPair) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The server's order of ciphers, and no second handshake within a connection.
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION
        context.options |= ssl.OP_NO_COMPRESSION
        _use(pair.certificate, pair.key, context)
        if self._client_ca is not None:
            _trust(self._client_ca, context)
            required = self._client_required
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        return context


def _use(certificate: Path, key: Path, context: ssl.SSLContext) -> None:
    for path in (certificate, key):
        _check_readable(path)
    try:
        # A key that needs a passphrase would ask for it at the terminal.
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except OSError as error:
        raise ConfigError(
            f"{certificate} and {key} are no certificate and its key without a passphrase, in PEM: "
            f"{getattr(error, 'reason', None) or error}"
        ) from None


def _trust(authority: Path, context: ssl.SSLContext) -> None:
    _check_readable(authority)
    try:
        context.load_verify_locations(authority)
    except OSError as error:
        why = getattr(error, "reason", None) or error
        raise ConfigError(f"{authority} has no certificates in PEM: {why}") from None


def _check_readable(path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None


class TlsSocket:
    """A connected, non-blocking socket that speaks TLS as the server.

    Attributes:
        plain: the socket below.
        has_more: whether something can be read of which the operating system does not tell.
        unsent: ciphertext that the operating system had no room for; `flush` sends it.
        established: whether the handshake has ended.
    """

    __slots__ = (
        "_ended",
        "_left_of_record",
        "_received",
        "_tls",
        "_to_send",
        "_waiting",
        "established",
        "has_more",
        "plain",
        "unsent",
    )

    def __init__(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        self.plain = plain
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_side=True)
        self.established = self.has_more = self._ended = False
        self.unsent = b""
        # Of what was received: what OpenSSL was not given yet, and how much of its last record.
        self._waiting = b""
        self._left_of_record = 0

    def __repr__(self) -> str:
        return f"<TlsSocket {self.plain.fileno()} {self._tls.version()}>"

    def fileno(self) -> int:
        """The descriptor; -1: it is closed."""
        return self.plain.fileno()

    def close(self) -> None:
        """Close it at once, without a word."""
        self.plain.close()

    # ------------------------------------------------------------- reading

    def recv_into(self, view: memoryview) -> int:
        """Read what the peer said, which may be less than there is; see `has_more`.

        Returns:
            The octets that were read; 0: the peer has ended.

        Raises:
            BlockingIOError: nothing that can be read has come.
            OSError: the peer is gone, or breaks the protocol (ssl.SSLError).
        """
        if self.has_more and (count := self._decrypted(view)):
            return count
        if self._ended:
            return 0
        if not self.has_more:
            data = self.plain.recv(max(len(view), RECEIVED_BYTES))
            if not data:
                return 0
            self._waiting += data
        self._give_records()
        try:
            if not self.established:
                self._shake_hands()
            count = self._decrypted(view)
        finally:
            # An alert; the answer of a handshake; a new key.
            self.flush()
        if not count and not self._ended:
            raise BlockingIOError
        return count

    def recv(self, count: int) -> bytes:
        """Read and forget what comes after our last word, which is not decrypted."""
        return self.plain.recv(count)

    def _give_records(self) -> None:
        """Give OpenSSL some of the records that were received; see RFC 8446 5.1 for their heads."""
        data, at = self._waiting, 0
        for _ in range(RECORDS_A_READ):
            if not self._left_of_record:
                if len(data) - at < RECORD_HEAD_BYTES:
                    break
                size = int.from_bytes(data[at + 3 : at + RECORD_HEAD_BYTES])
                self._left_of_record = RECORD_HEAD_BYTES + size
            part = min(self._left_of_record, len(data) - at)
            at += part
            self._left_of_record -= part
            if at == len(data):
                break
        self._received.write(data[:at])
        self._waiting = data[at:]
        self.has_more = len(self._waiting) >= RECORD_HEAD_BYTES

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        self.established = True

    def _decrypted(self, view: memoryview) -> int:
        """Decrypt what was received as far as there is room. A read gives one record at most."""
        count, room = 0, len(view)
        held = len(self._waiting) >= RECORD_HEAD_BYTES
        self.has_more = held
        while count < room:
            try:
                part: Any = self._tls.read(room - count, view[count:])  # a number, with a buffer
            except ssl.SSLWantReadError:
                return count
            if not part:
                # close_notify: the next read says that nothing follows.
                self._ended = True
                self._waiting = b""
                self.has_more = count > 0
                return count
            count += part
        self.has_more = held or bool(self._tls.pending() or self._received.pending)
        return count

    # ------------------------------------------------------------- sending

    def send(self, view: memoryview) -> int:
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
