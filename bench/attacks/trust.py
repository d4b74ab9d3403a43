"""What a peer can learn or change that is not its own. These attacks stall nobody."""

from __future__ import annotations

import contextlib
import http.client
import socket
import statistics
import time
from pathlib import Path

from bench.attacks.attack import Ground, NotApplicable, Steps, attack
from bench.attacks.definitions import STREAM
from bench.attacks.entrance import start_ok
from bench.attacks.peer import publish, queue_declare
from bench.attacks.target import ATTACKER_ADDRESS, LEPORID

from leporid.load.amqp import PROTOCOL_HEADER, connect, frame

LOGINS = 25
# Half of what a password's hash takes on a busy machine: less says nothing about a user.
APART_MS_MAX = 20.0
ANSWER_SECONDS = 30.0
# A broker may keep a connection open that speaks nonsense, but it has seen it by then.
CLOSE_SECONDS = 5.0
# Permissions of the group and of everybody.
READ, ENTER = 0o44, 0o11
UNKNOWN_FRAME = 99
SECRET = b"open sesame 4711"
FILTER = b"class Filter:\n    def match(self, message):\n        return True\n"
READER = "/api/streams/%2F/s/readers/theirs"


@attack("login-times")
def login_times(ground: Ground) -> Steps:
    """Wrong passwords are timed: for a user known in clear, one known by hash, and nobody."""
    ground.need_users()
    yield
    times: dict[str, list[float]] = {"hostile": [], "hashed": [], "no such user": []}
    # In turns, since what else the machine does changes in the meantime.
    for _ in range(ground.count(LOGINS)):
        for user, found in times.items():
            data = start_ok(b"", "PLAIN", b"\0" + user.encode() + b"\0wrong")
            found.append(_refusal_ms(ground, data))
    medians = {user: statistics.median(found) for user, found in times.items()}
    ground.note(", ".join(f"{user}: {median:.1f} ms" for user, median in medians.items()))
    ground.figure("apart_ms", max(medians.values()) - min(medians.values()), APART_MS_MAX)


def _refusal_ms(ground: Ground, data: bytes) -> float:
    with contextlib.closing(connect(ground.target.amqp, ATTACKER_ADDRESS)) as sock:
        sock.settimeout(ANSWER_SECONDS)
        sock.sendall(PROTOCOL_HEADER)
        sock.recv(65536)  # connection.start
        began = time.monotonic()
        sock.sendall(data)
        with contextlib.suppress(ConnectionError):
            sock.recv(65536)  # connection.close, or the end
        return 1000 * (time.monotonic() - began)


@attack("others-offsets", brokers=(LEPORID,))
def others_offsets(ground: Ground) -> Steps:
    """A user who may only read moves and deletes the offset of another's reader."""
    ground.need_users()
    with ground.peer("other") as peer:
        peer.push(queue_declare("s", STREAM, flags="d") + publish("", "s", b"one") * 10)
        peer.settle()
    status, said = ground.ask("PUT", READER, user="other", body=b'{"offset": 5}')
    if status >= 300:
        raise NotApplicable(f"no reader could be made: {status} {said[:100].decode()}")
    yield
    moved = ground.ask("PUT", READER, user="reader", body=b'{"offset": 9}')[0] < 300
    deleted = ground.ask("DELETE", READER, user="reader")[0] < 300
    ground.figure("changed_times", moved + deleted, 0)


@attack("foreign-origin", brokers=(LEPORID,), default_users=True)
def foreign_origin(ground: Ground) -> Steps:
    """A page of another site has the broker run code, as the default user (DNS rebinding)."""
    host, port = ground.http()
    yield
    headers = {
        "Host": f"evil.example:{port}",
        "Origin": f"http://evil.example:{port}",
        "Authorization": ground.target.authorization("guest"),
    }
    with contextlib.closing(
        http.client.HTTPConnection(host, port, ANSWER_SECONDS, source_address=(ATTACKER_ADDRESS, 0))
    ) as connection:
        connection.request("PUT", "/api/filter-classes/evil", FILTER, headers)
        answer = connection.getresponse()
        ground.note(f"{answer.status} {answer.read()[:120].decode()}")
        ground.figure("registered_times", answer.status < 300, 0)


@attack("readable-files")
def readable_files(ground: Ground) -> Steps:
    """Other users of the machine read what the broker stores."""
    directory = ground.target.directory
    if directory is None:
        raise NotApplicable("the data directory is not known")
    with ground.peer() as peer:
        peer.push(queue_declare("d", flags="d") + queue_declare("s", STREAM, flags="d"))
        peer.push(publish("", "s", b"one"))
        peer.settle()
        yield
        found = readable_below(directory)
        ground.note(f"readable: {', '.join(sorted(one.name for one in found)[:5]) or 'none'}")
        ground.figure("readable_files", len(found), 0)


def readable_below(directory: Path) -> list[Path]:
    """The files in a directory that somebody else could read."""
    if not directory.stat().st_mode & ENTER:
        return []
    found = []
    for one in directory.iterdir():
        if one.is_dir():
            found += readable_below(one)
        elif one.stat().st_mode & READ:
            found.append(one)
    return found


@attack("secrets-in-log")
def secrets_in_log(ground: Ground) -> Steps:
    """A frame of an unknown type, which may have a password in it, is looked for in the log."""
    path = ground.target.log_path
    if path is None:
        raise NotApplicable("the log is not known")
    yield
    with contextlib.closing(connect(ground.target.amqp, ATTACKER_ADDRESS)) as sock:
        sock.sendall(PROTOCOL_HEADER)
        sock.settimeout(ANSWER_SECONDS)
        sock.recv(65536)
        sock.sendall(frame(UNKNOWN_FRAME, 0, SECRET))
        _until_closed(sock)
    logged = b"".join(
        one.read_bytes() for one in ([path] if path.is_file() else path.rglob("*.log"))
    )
    part = SECRET[:8]
    shown = (part, part.hex().encode(), ",".join(map(str, part)).encode())
    ground.figure("secrets", sum(one in logged for one in shown), 0)


def _until_closed(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.settimeout(CLOSE_SECONDS)
        while sock.recv(65536):
            pass
