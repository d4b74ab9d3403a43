"""Messages a second over TLS beside those over plain sockets, turn about.

    python bench/tls.py
    python bench/tls.py --seconds 5 --runs 3 --size 4096

One publisher and one consumer, each a process; transient messages, acknowledged automatically. The
broker has a processor of its own and the clients share the others, since what they encrypt and
decrypt is theirs. Responsible for two figures: the share of the plain rate that TLS leaves, and the
same by the broker's processor time for a message, which says more where the clients are what is
slow; and for what each of the three processes takes, which says what limits the first.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import trustme

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.report import machine

from leporid.load.amqp import Client, message
from leporid.testing.process import BrokerProcess

NAME = "localhost"
BLOCK_MESSAGES = 64
RECEIVE_BYTES = 256 * 1024


class Costs(NamedTuple):
    """Seconds of a processor for one message, by who used them."""

    broker: float
    publisher: float
    consumer: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--size", type=int, default=4096, help="body bytes")
    options = parser.parse_args(arguments)
    print(machine())
    rates: dict[str, list[float]] = {"plain": [], "tls": []}
    costs: dict[str, list[Costs]] = {"plain": [], "tls": []}
    with tempfile.TemporaryDirectory(prefix="leporid-tls-") as name:
        folder = Path(name)
        with BrokerProcess(folder / "data", config=_config(folder)) as broker:
            for _ in range(options.runs):
                for kind, found in rates.items():
                    port = broker.amqps_port if kind == "tls" else broker.amqp_port
                    ca = folder / "ca.pem" if kind == "tls" else None
                    rate, cost = _rate(broker.pid, port, ca, options.size, options.seconds)
                    found.append(rate)
                    costs[kind].append(cost)
    used: dict[str, Costs] = {}
    for kind, found in rates.items():
        used[kind] = Costs(*map(statistics.median, zip(*costs[kind], strict=True)))
        print(
            f"{kind:5} {statistics.median(found):10,.0f} messages/s of {options.size} bytes, each "
            f"{1e6 * used[kind].broker:.1f} us of a processor for the broker, "
            f"{1e6 * used[kind].publisher:.1f} for the publisher, "
            f"{1e6 * used[kind].consumer:.1f} for the consumer"
        )
    share = statistics.median(rates["tls"]) / statistics.median(rates["plain"])
    print(f"share of the rate           {share:6.0%}")
    print(f"share by the broker's time  {used['plain'].broker / used['tls'].broker:6.0%}")
    return 0


def _config(folder: Path) -> str:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued = authority.issue_cert(NAME)
    issued.private_key_pem.write_to_path(folder / "key.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    ports = "amqps_port = 0\nhttps_port = 0\n"
    return f'{ports}[tls]\ncertificate = "{folder}/cert.pem"\nkey = "{folder}/key.pem"\n'


def _connect(port: int, ca: Path | None) -> Client:
    context = None if ca is None else ssl.create_default_context(cafile=ca)
    return Client(f"amqp://127.0.0.1:{port}/%2F", tls=context, tls_name=NAME)


def _rate(pid: int, port: int, ca: Path | None, size: int, seconds: float) -> tuple[float, Costs]:
    """Messages a second that the consumer gets, and what each costs.

    The first second is left out.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    consumer = context.Process(target=_consume, args=(port, ca, size, seconds, theirs), daemon=True)
    consumer.start()
    theirs.close()  # so that its end is noticed
    ours.recv()
    publisher = context.Process(target=_publish, args=(port, ca, size), daemon=True)
    publisher.start()
    ours.recv()
    assert publisher.pid
    assert consumer.pid
    pids = [pid, publisher.pid, consumer.pid]
    _place(*pids)
    began = [_processor_seconds(each) for each in pids]
    rate: float = ours.recv()
    ended = [_processor_seconds(each) for each in pids]
    for process in (publisher, consumer):
        process.kill()
        process.join()
    spans = zip(began, ended, strict=True)
    return rate, Costs(*((end - begin) / (rate * seconds) for begin, end in spans))


def _place(broker: int, *clients: int) -> None:
    """Give the broker one processor, and the clients the others, if there are several."""
    one, *others = sorted(os.sched_getaffinity(0))
    for thread in Path(f"/proc/{broker}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {one})
    for pid in clients:
        os.sched_setaffinity(pid, others or {one})


def _processor_seconds(pid: int) -> float:
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def _publish(port: int, ca: Path | None, size: int) -> None:
    client = _connect(port, ca)
    one = message("", "rate", bytes(size), persistent=False, frame_bytes_max=client.frame_bytes_max)
    block = one * BLOCK_MESSAGES
    while True:
        client.sock.sendall(block)


def _consume(port: int, ca: Path | None, size: int, seconds: float, pipe: Connection) -> None:
    client = _connect(port, ca)
    client.declare_queue("rate", kind="classic")
    client.consume("rate", no_ack=True)
    pipe.send("ready")
    buffer = bytearray(RECEIVE_BYTES)
    warm = time.monotonic() + 1.0
    while time.monotonic() < warm:
        client.sock.recv_into(buffer)
    pipe.send("warm")
    counted, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        counted += client.sock.recv_into(buffer)
    # As a delivery is written: of its octets all but some 60 are its body.
    frames = len(message("", "rate", bytes(size), persistent=False, frame_bytes_max=131072))
    pipe.send(counted / frames / seconds)
    pipe.recv()  # its processor time is read before it ends


if __name__ == "__main__":
    sys.exit(main())
