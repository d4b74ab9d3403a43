"""What tests of TLS and of logins share: an authority, certificates, brokers, connections."""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pika
import trustme

from leporid.server.tls import KeyPair
from leporid.testing.process import BrokerProcess

NAME = "mq.example.org"
PATIENCE_S = 20.0


@dataclass
class Files:
    """A certificate authority, and certificates that it signed."""

    folder: Path
    authority: trustme.CA

    @property
    def trusted(self) -> Path:
        return self.folder / "ca.pem"

    def issue(
        self, name: str, file: str, *, authority: trustme.CA | None = None, days: int = 1
    ) -> KeyPair:
        """Make a certificate; one of -1 days expired yesterday."""
        made = (authority or self.authority).issue_cert(
            name,
            common_name=name,
            not_before=datetime.now(UTC) - timedelta(days=3),
            not_after=datetime.now(UTC) + timedelta(days=days),
        )
        pair = KeyPair(self.folder / f"{file}.pem", self.folder / f"{file}.key")
        for path, blobs in (
            (pair.key, [made.private_key_pem]),
            (pair.certificate, made.cert_chain_pems),
        ):
            new = path.with_suffix(".new")
            new.write_bytes(b"".join(blob.bytes() for blob in blobs))
            new.replace(path)
        return pair


def make_files(folder: Path) -> Files:
    """Make an authority, whose certificate is in a file."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    return Files(folder, authority)


def configured(pair: KeyPair, *more: str) -> str:
    lines = [f'certificate = "{pair.certificate}"', f'key = "{pair.key}"', *more]
    return "\n".join(["amqps_port = 0", "https_port = 0", "[tls]", *lines, ""])


@contextlib.contextmanager
def running(folder: Path, config: str) -> Iterator[BrokerProcess]:
    with BrokerProcess(folder / "data", config=config) as broker:
        yield broker


def logged_in(
    broker: BrokerProcess, name: str, password: str, **options: Any
) -> pika.BlockingConnection:
    """Connect without TLS."""
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1",
            broker.amqp_port,
            credentials=pika.PlainCredentials(name, password),
            connection_attempts=1,
            socket_timeout=PATIENCE_S,
            **options,
        )
    )


def encrypted(
    broker: BrokerProcess, context: ssl.SSLContext, *, name: str = NAME, **options: Any
) -> pika.BlockingConnection:
    """Connect over TLS, to the host of that name."""
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1",
            broker.amqps_port,
            ssl_options=pika.SSLOptions(context, name),
            connection_attempts=1,
            socket_timeout=PATIENCE_S,
            **options,
        )
    )


def client_context(files: Files, *, own: KeyPair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.trusted)
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    return context


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
