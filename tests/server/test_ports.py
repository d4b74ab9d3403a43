"""Ports: all that are asked for, or none."""

import socket

import pytest

from leporid.server import addresses, ports
from leporid.server.config import load

PLAIN = {"amqp_port": 0, "http_port": 0, "metrics_port": 0}


def bound(**settings: int) -> ports.Ports:
    return ports.bind(load(None, {**PLAIN, **settings}))


def test_what_is_listened_on():
    made = bound(metrics_port=-1)
    found = list(made.listening())
    assert [each.name for each in found] == ["amqp", "http"]
    assert not any(each.tls for each in found)
    assert made.ready_line() == " ".join(f"{each.name}=127.0.0.1:{each.port}" for each in found)
    for one in (*made.amqp.plain, *made.http.plain):
        one.close()
    assert list(made.listening()) == []


def test_without_a_certificate_there_is_no_tls():
    made = bound(https_port=0, metrics_https_port=0)
    assert not made.amqp.tls
    assert not made.http.tls
    assert not made.metrics.tls
    for each in (*made.amqp.plain, *made.http.plain, *made.metrics.plain):
        each.close()


def test_a_port_that_is_taken_frees_the_others(monkeypatch):
    taken = socket.create_server(("127.0.0.1", 0))
    made = []
    real = addresses.bind

    def bind(hosts, port):
        found = real(hosts, port)
        made.extend(found)
        return found

    monkeypatch.setattr(addresses, "bind", bind)
    with pytest.raises(OSError, match="cannot listen on"):
        bound(http_port=taken.getsockname()[1])
    assert [one.fileno() for one in made] == [-1]
    taken.close()


def test_only_metrics_at_their_usual_port_may_be_left_out(monkeypatch):
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    with pytest.raises(OSError, match="cannot listen on"):
        bound(metrics_port=port)
    monkeypatch.setattr(ports, "METRICS_PORT", port)
    made = bound(metrics_port=port)
    assert not made.metrics.used
    assert made.http.used
    for one in (*made.amqp.plain, *made.http.plain):
        one.close()
    taken.close()
