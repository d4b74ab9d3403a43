"""Requests of the broker's own: bounded, whatever the server does."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from leporid.server.outgoing import Endpoint, OutgoingError, ask, trusting, url
from leporid.server.settings import ConfigError

HEAD = b"HTTP/1.1 200 OK\r\n"


@contextlib.contextmanager
def serving(answer: Callable[[socket.socket], None], until: bytes = b"\r\n\r\n") -> Iterator[str]:
    """A server that does one thing with each connection, once a request ends with something."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                with peer, contextlib.suppress(OSError):
                    data = b""
                    while not data.endswith(until):
                        data += peer.recv(10_000) or until
                    answer(peer)

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def said(*pieces: bytes) -> Callable[[socket.socket], None]:
    def answer(peer: socket.socket) -> None:
        for piece in pieces:
            peer.sendall(piece)

    return answer


def sent(where: str, *, seconds: float = 5.0, bytes_max: int = 100) -> tuple[int, bytes]:
    return ask(Endpoint(where), seconds=seconds, bytes_max=bytes_max)


def test_an_answer():
    with serving(said(HEAD + b"content-length: 5\r\n\r\n", b"allow")) as where:
        assert sent(where) == (200, b"allow")
    with serving(said(b"HTTP/1.1 302 F\r\nlocation: http://127.0.0.1:1/\r\n\r\n")) as where:
        assert sent(where)[0] == 302


def test_a_body_is_posted():
    with serving(said(HEAD + b"content-length: 1\r\n\r\n1"), until=b"\r\n\r\nx=1") as where:
        assert ask(Endpoint(where), seconds=5, bytes_max=10, body=b"x=1") == (200, b"1")


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        ((HEAD + b"\r\n", b"x" * 101), "more than 100 octets"),
        ((HEAD + b"content-length: 9\r\n\r\n", b"x"), "no whole answer"),
        ((b"SSH-2.0\r\n",), "speaks no HTTP"),
        ((), "closed connection without response"),
    ],
)
def test_what_is_no_answer(pieces, why):
    with serving(said(*pieces)) as where, pytest.raises(OutgoingError, match=why):
        sent(where)


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        HEAD + b"x-",
        HEAD + b"content-length: 99\r\n\r\n",
        # What every server answers who heeds our `connection: close`.
        HEAD + b"connection: close\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n",
    ],
)
def test_drops_do_not_make_it_longer(beginning):
    def drip(peer: socket.socket) -> None:
        peer.sendall(beginning)
        while True:
            peer.sendall(b"x")
            time.sleep(0.02)

    with serving(drip) as where, pytest.raises(OutgoingError, match="no whole answer within"):
        sent(where, seconds=0.3)


def test_a_name_that_is_looked_up_slowly_leaves_no_time_for_drops(monkeypatch):
    connect = socket.create_connection

    def slow(*given: Any, **named: Any) -> socket.socket:
        time.sleep(0.3)
        return connect(*given, **named)

    heard_all = []

    def drip(peer: socket.socket) -> None:
        for _ in range(100):
            peer.sendall(b"x")
            time.sleep(0.02)
        heard_all.append(peer)

    with serving(drip) as where:
        monkeypatch.setattr(socket, "create_connection", slow)
        with pytest.raises(OutgoingError, match="no whole answer within"):
            sent(where, seconds=0.1)
    assert not heard_all


def test_nobody_is_there():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(OutgoingError, match="refused"):
        sent(f"http://127.0.0.1:{port}/")
    with serving(said(b"no TLS")) as where, pytest.raises(OutgoingError):
        ask(Endpoint("https" + where[4:], trusting(None)), seconds=0.2, bytes_max=10)


@pytest.mark.parametrize(
    "value",
    [
        1,
        "",
        "ftp://x/",
        "https://",
        "https://a:b@x/",
        "https://x:99999/",
        "https://x/ y",
        "https://ü/",
    ],
)
def test_what_is_no_address(value):
    with pytest.raises(ConfigError, match="must be an address such as"):
        url("key", value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("http://joe:secret@h/x", "http://***@h/x"),
        ("http://joe:se//cret@x@h:99999/x", "http://***@h:99999/x"),
        ("joe:secret@h", "***@h"),
        ("ftp://joe:secret\n@h", "ftp://***@h"),
        ("http:joe:secret@h//x", "***@h//x"),
        ("https:/joe:pw@h//keys", "***@h//keys"),
        ("joe:se//cret@h", "***@h"),
    ],
)
def test_a_password_in_an_address_is_not_repeated(value: str, shown: str):
    with pytest.raises(ConfigError) as refused:
        url("key", value)
    assert str(refused.value).startswith(f'key = "{shown}": must be an address')


def test_an_authority_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        trusting(tmp_path / "none.pem")
    (tmp_path / "empty.pem").touch()
    with pytest.raises(ConfigError, match="has no certificates in PEM"):
        trusting(tmp_path / "empty.pem")
