"""File descriptors: those of the log are left, whoever connects."""

import contextlib
import resource
import socket
from pathlib import Path

import pytest

from leporid.server.descriptors import (
    descriptor_places,
    http_connections_max,
    lines_max,
    links_max,
    stream_files_max,
)
from leporid.testing.process import BrokerProcess, default_command


@pytest.mark.parametrize(
    ("configured", "descriptors", "links"),
    [(10_000, 1_048_576, 10_000), (10_000, 1024, 512), (10_000, 200, 100), (50, 200, 50)],
)
def test_peers_do_not_get_every_descriptor(configured: int, descriptors: int, links: int):
    assert links_max(configured, descriptors) == links
    assert links_max(configured, resource.RLIM_INFINITY) == configured


@pytest.mark.parametrize(
    ("descriptors", "files"), [(1_048_576, 256), (1024, 128), (7, 1), (resource.RLIM_INFINITY, 256)]
)
def test_few_descriptors_are_for_files_of_streams(descriptors: int, files: int):
    assert stream_files_max(descriptors) == files


@pytest.mark.parametrize(
    ("connections", "most", "places"),
    [
        (1_000_000, 20_000, 20_000),
        (1_000, 20_000, 2_184),
        (1_000_000, 200, 200),
        (1_000_000, 1_000_000, 131_072),
        (1_000_000, resource.RLIM_INFINITY, 131_072),
    ],
)
def test_the_table_of_descriptors_is_for_those_there_may_be(
    connections: int, most: int, places: int
):
    assert descriptor_places(connections, most) == places


@pytest.mark.parametrize("most", [256, 600, 1024, 2367, 2368, 4096, 20_000, 1_048_576])
@pytest.mark.parametrize("addresses", [1, 2, 5, 8])
def test_all_peers_together_leave_those_of_files(most: int, addresses: int):
    of_http = min(256, http_connections_max(most))
    # As many wait to be served on each of two ports.
    peers = links_max(1_000_000, most) + 3 * of_http
    # AMQP, HTTP and metrics; those that are bound are among the files.
    listening = 3 * addresses * (lines_max(addresses, most) - 1)
    assert peers + stream_files_max(most) + 64 + listening <= most
    assert of_http >= min(100, most // 26)


@pytest.mark.slow
def test_peers_that_take_what_there_is_leave_descriptors_to_the_log(tmp_path: Path):
    command = ["prlimit", "--nofile=600:600", *default_command()]
    options = ["--metrics-port", "0"]
    with (
        BrokerProcess(tmp_path / "data", command=command, options=options) as broker,
        contextlib.ExitStack() as ending,
    ):
        ports = broker.http_port, broker.metrics_port, broker.amqp_port
        for number in range(3600):
            peer = ending.enter_context(socket.socket())
            peer.setblocking(False)
            peer.bind((f"127.0.1.{1 + number % 4}", 0))
            peer.connect_ex(("127.0.0.1", ports[number % 3]))
        with socket.create_connection(("127.0.0.1", broker.http_port), 30.0) as last:
            last.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert last.recv(100).startswith(b"HTTP/1.1 200 ")
        assert "Too many open files" not in broker.log_path.read_text()
