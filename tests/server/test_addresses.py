"""Addresses: bound sockets, and who counts as loopback."""

import errno
import socket

import pytest

from leporid.server.addresses import bind, host_and_port, is_loopback


def close(sockets: list[socket.socket]) -> None:
    for one in sockets:
        one.close()


def test_port_0_is_the_same_free_port_on_every_address():
    sockets = bind(["127.0.0.1", "127.0.0.2"], 0)
    names = [one.getsockname() for one in sockets]
    close(sockets)
    assert [host for host, _ in names] == ["127.0.0.1", "127.0.0.2"]
    assert names[0][1] == names[1][1] > 0


def test_a_port_in_use_is_refused_by_name_and_leaves_nothing_open():
    # Outgoing connections take their ports on 127.0.0.1, where the port could be in use, too.
    first, second = "127.41.0.1", "127.41.0.2"
    (holder,) = bind([second], 0)
    holder.listen()
    port = holder.getsockname()[1]
    with pytest.raises(OSError, match=f"cannot listen on {second}:{port}: Address already") as no:
        bind([first, second], port)
    assert no.value.errno == errno.EADDRINUSE
    holder.close()
    close(bind([first, second], port))


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_ipv6_stands_beside_ipv4():
    try:
        sockets = bind(["::", "0.0.0.0"], 0)
    except OSError as error:
        pytest.skip(f"IPv6 is switched off: {error}")
    families = [one.family for one in sockets]
    close(sockets)
    assert families == [socket.AF_INET6, socket.AF_INET]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:10.0.0.1", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_loopback(host: str, expected: bool):
    assert is_loopback(host) is expected


def test_addresses_are_written_as_in_urls():
    assert host_and_port(("127.0.0.1", 5672)) == "127.0.0.1:5672"
    assert host_and_port(("::1", 5672, 0, 0)) == "[::1]:5672"
