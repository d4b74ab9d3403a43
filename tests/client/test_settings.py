"""Settings and URLs."""

import ssl

import pytest
import trustme

from leporid.client.errors import LocalProtocolError
from leporid.client.settings import Address, Backoff, Settings, Token


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("amqp://", {"addresses": (Address("localhost", 5672),)}),
        ("amqp://host", {"addresses": (Address("host", 5672),), "vhost": "/"}),
        ("leporid://host/", {"vhost": "/"}),
        (" AMQP://host:1\n", {"addresses": (Address("host", 1),), "vhost": "/"}),
        ("amqp://host/a%2Fb", {"vhost": "a/b"}),
        ("amqp://u%40x:p%2F@host:1/v", {"user": "u@x", "password": "p/", "vhost": "v"}),
        ("amqp://user@host", {"user": "user", "password": "guest"}),
        (
            "amqp://a:1,b,[::1]:3,[::2]/",
            {
                "addresses": (
                    Address("a", 1),
                    Address("b", 5672),
                    Address("::1", 3),
                    Address("::2", 5672),
                )
            },
        ),
        ("amqps://host", {"addresses": (Address("host", 5671),)}),
        (
            "amqp://host?heartbeat=5&connection_timeout=1500&channel_max=7&frame_max=8192&name=me",
            {
                "heartbeat_s": 5,
                "connect_timeout_s": 1.5,
                "channels_max": 7,
                "frame_bytes_max": 8192,
                "name": "me",
            },
        ),
        (
            "amqp://host?auth_mechanism=amqplain&password=x",
            {"mechanism": "AMQPLAIN", "password": "x"},
        ),
        ("amqp://host?api=http://other:1", {"api": "http://other:1"}),
    ],
)
def test_urls(url, expected):
    settings = Settings.from_url(url)
    assert {name: getattr(settings, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("host:5672", "amqp://USER"),
        ("http://host", "amqp://USER"),
        ("amqp://host:port", "not a port: 'port'"),
        ("amqp://host:70000", "not a port"),
        ("amqp://[::1", "IPv6"),
        ("amqp://host?heartbeat=soon", "heartbeat=soon"),
        ("amqp://host?heartbeats=5", "unknown parameter 'heartbeats'"),
        ("amqp://host?verify=verify_none", "amqps"),
        ("amqps://host?verify=maybe", "verify_peer or verify_none"),
        ("amqps://host?cacertfile=nowhere.pem", "nowhere.pem"),
        ("amqp://host?auth_mechanism=external", "needs tls"),
        ("amqp://host?api=host:1", "api must be"),
        ("amqp://host/" + "v" * 256, "vhost"),
    ],
)
def test_urls_that_cannot_be_understood(url, told):
    with pytest.raises(LocalProtocolError, match=told):
        Settings.from_url(url)


def test_tls_by_url(tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("me@example.org").private_key_and_cert_chain_pem.write_to_path(
        tmp_path / "me.pem"
    )
    settings = Settings.from_url(
        f"amqps://host?cacertfile={tmp_path}/ca.pem&certfile={tmp_path}/me.pem"
        "&server_name_indication=other&auth_mechanism=external"
    )
    assert settings.tls is not None
    assert (settings.tls_name, settings.mechanism) == ("other", "EXTERNAL")
    assert settings.tls.verify_mode is ssl.CERT_REQUIRED
    careless = Settings.from_url("amqps://host?verify=verify_none").tls
    assert careless is not None
    assert careless.verify_mode is ssl.CERT_NONE


def test_changes_and_what_is_secret():
    settings = Settings(password="secret").changed(vhost="v")
    assert (settings.vhost, settings.password) == ("v", "secret")
    assert "secret" not in repr(settings)
    assert "secret" not in repr(Token("secret"))
    with pytest.raises(LocalProtocolError, match="no setting 'vhots'"):
        settings.changed(vhots="v")


def test_addresses_as_text():
    assert str(Address("::1", 5)) == "[::1]:5"
    assert str(Address("mq")) == "mq:5672"


def test_waits_grow_to_a_limit_and_are_jittered():
    backoff = Backoff(first_s=1, longest_s=10, factor=2, jitter=0.5)
    assert [backoff.wait_s(n, 0) for n in range(6)] == [1, 2, 4, 8, 10, 10]
    assert backoff.wait_s(100_000, 1) == 5
    for wrong in ({"first_s": -1}, {"first_s": 50}, {"factor": 0.5}, {"jitter": 2}):
        with pytest.raises(LocalProtocolError, match="Backoff"):
            Backoff(**wrong)
