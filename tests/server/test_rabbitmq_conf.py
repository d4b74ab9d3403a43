"""Files of RabbitMQ's: what is kept, what is a comment, and that the outcome can be used."""

from pathlib import Path

import pytest

from leporid.server.config import Config, ConfigError, load
from leporid.server.rabbitmq_conf import _KEPT, _REASONS, translate

WHOLE = """\
# A broker as many have it.
listeners.tcp.default = 5673
heartbeat = 20
channel_max = 0
frame_max = 65536   # bytes
max_message_size = 1048576
handshake_timeout = 2500
consumer_timeout = 3600000
vm_memory_high_watermark.relative = 0.5
disk_free_limit.absolute = 2GB

default_user = app
default_pass = 's3cret # or not'
default_vhost = shop
default_user_tags.monitoring = true
default_user_tags.administrator = false
default_permissions.write = ^orders

log.console.level = notice
log.console.formatter = json
management.tcp.port = 15673
message_interceptors.incoming.set_header_timestamp.overwrite = false

ssl_options.cacertfile = /x
cluster_formation.peer_discovery_backend = classic_config
heartbeet = 5
"""


def used(text: str, tmp_path: Path, name: str = "rabbitmq.conf") -> tuple[str, Config]:
    """What is printed for a file, and the configuration that this is."""
    printed = translate(text, name)
    file = tmp_path / "leporid.toml"
    file.write_text(printed)
    return printed, load(file)


def comments(printed: str) -> list[str]:
    return [line for line in printed.splitlines()[1:] if line.startswith("#")]


def test_a_whole_file(tmp_path: Path):
    printed, config = used(WHOLE, tmp_path)
    assert (config.bind, config.amqp_port, config.http_port) == (("0.0.0.0",), 5673, 15673)
    assert (config.heartbeat, config.channel_max, config.frame_max) == (20, 65535, 65536)
    assert config.limits.message_bytes_max == 2**20
    assert config.limits.handshake_seconds == 3
    assert config.consumer_timeout_ms == 3_600_000
    assert (config.memory_watermark, config.disk_free_min) == (0.5, 2 * 10**9)
    assert (config.log_level, config.log_format) == ("info", "json")
    assert config.interceptors.timestamp == "keep"
    assert config.vhosts == ("/", "shop")
    assert config.users is not None
    assert list(config.users) == ["app"]
    user = config.users["app"]
    assert (user.password, user.tags, user.loopback_only) == (
        "s3cret # or not",
        ("monitoring",),
        False,
    )
    assert user.permissions is not None
    rights = user.permissions["shop"]
    assert [rights.configure.text, rights.write.text, rights.read.text] == [".*", "^orders", ".*"]
    assert "heartbeat = 20  # rabbitmq.conf:3 heartbeat\n" in printed
    assert [line.split(": ", 1)[0] for line in comments(printed)] == [
        "# rabbitmq.conf:25 cluster_formation.peer_discovery_backend",
        "# rabbitmq.conf:26 heartbeet",
        "# rabbitmq.conf:24 ssl_options.cacertfile",
    ]
    assert 'did you mean "heartbeat"?' in comments(printed)[1]


def test_tls_with_certificates_of_clients(tmp_path: Path):
    text = """\
listeners.ssl.default = 5675
management.ssl.port = 15675
prometheus.ssl.port = 15691
ssl_options.certfile = /c.pem
ssl_options.keyfile = /c.key
ssl_options.cacertfile = /ca.pem
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true
ssl_cert_login_from = common_name
management.ssl.certfile = /m.pem
"""
    printed, config = used(text, tmp_path)
    tls = config.tls
    assert (config.amqps_port, config.https_port, config.metrics_https_port) == (5675, 15675, 15691)
    assert (str(tls.client_ca), tls.client_certificates) == ("/ca.pem", "required")
    assert tls.login_from == "common_name"
    assert "management.ssl.certfile: HTTP has the certificates of AMQP" in printed
    _, config = used(text.replace("peer_cert = true", "peer_cert = false"), tmp_path)
    assert config.tls.client_certificates == "optional"
    printed, config = used(text.replace("verify_peer", "verify_none"), tmp_path)
    assert config.tls.client_ca is None
    assert printed.count("docs/tls.md has what there is") == 3


@pytest.mark.parametrize(
    ("text", "port", "said"),
    [
        ("listeners.ssl.1 = 5675", 5675, ""),
        ("listeners.tcp.1 = 0.0.0.0:5672\nlisteners.ssl.1 = 0.0.0.0:5675", 5675, ""),
        ("listeners.tcp.1 = ::1:5672\nlisteners.ssl.tls = [::1]:5675", 5675, ""),
        (
            "listeners.ssl.1 = 10.0.0.1:5675",
            5675,
            "listeners.ssl.1: TLS is on the addresses of AMQP (bind), not on 10.0.0.1",
        ),
        (
            "listeners.ssl.1 = 5675\nlisteners.ssl.2 = 5676",
            5675,
            "# rabbitmq.conf:2 listeners.ssl.2: all addresses have one port for TLS, 5675",
        ),
        ("listeners.ssl.1 = many", 5671, 'amqps_port = "many": must be a whole number'),
    ],
)
def test_listeners_with_tls(text: str, port: int, said: str, tmp_path: Path):
    printed, config = used(text, tmp_path)
    assert config.amqps_port == port
    about = [line for line in comments(printed) if "ssl" in line or "amqps" in line]
    assert len(about) == bool(said)
    assert said in "".join(about)


def test_tokens(tmp_path: Path):
    text = """\
auth_backends.1 = oauth2
auth_backends.2 = rabbit_auth_backend_internal
auth_backends.3 = ldap
auth_oauth2.resource_server_id = mq
auth_oauth2.issuer = https://sso.example.org/
auth_oauth2.jwks_url = https://sso.example.org/keys
auth_oauth2.signing_keys.id1 = /keys/id1.pem
auth_oauth2.default_key = id1
auth_oauth2.preferred_username_claims.1 = user_name
auth_oauth2.preferred_username_claims.2 = email
auth_oauth2.algorithms.1 = RS256
auth_oauth2.scope_prefix = mq:
auth_oauth2.verify_aud = false
auth_oauth2.resource_servers.1.id = other
auth_mechanisms.1 = EXTERNAL
"""
    printed, config = used(text, tmp_path)
    assert config.auth.backends == ("oauth2", "internal")
    settings = config.oauth2
    assert (settings.resource_server_id, settings.scope_prefix) == ("mq", "mq:")
    assert settings.signing_keys == {"id1": Path("/keys/id1.pem")}
    assert settings.preferred_username_claims == ("user_name", "email")
    assert (settings.algorithms, settings.verify_aud) == (("RS256",), False)
    assert len(comments(printed)) == 4


def test_a_server_that_decides_is_asked_about_passwords_alone(tmp_path: Path):
    text = """\
auth_backends.1.authn = http
auth_backends.1.authz = internal
auth_http.http_method = post
auth_http.user_path = http://127.0.0.1:8000/auth/user
auth_http.vhost_path = http://127.0.0.1:8000/auth/vhost
"""
    printed, config = used(text, tmp_path)
    assert config.auth.backends == ("http",)
    assert config.auth_http.http_method == "post"
    assert config.auth_http.vhost_path is None
    assert "auth_http.vhost_path: rights are those of users (authz = internal)" in printed
    printed, config = used(text.replace("n = http", "n = oauth2", 1), tmp_path)
    assert config.auth.backends == ("internal",)
    assert "only authn = http, and internal with authz = http, are there" in printed


def test_own_users_have_rights_of_a_server_that_decides(tmp_path: Path):
    text = """\
auth_backends.1.authn = internal
auth_backends.1.authz = rabbit_auth_backend_http
auth_http.vhost_path = http://127.0.0.1:9/vhost
"""
    _, config = used(text, tmp_path)
    assert config.auth.backends == ("internal:http",)
    assert config.auth_http.vhost_path == "http://127.0.0.1:9/vhost"
    assert config.auth_http.user_path == "http://localhost:8000/auth/user"
    assert config.auth_http.topic_path == "http://localhost:8000/auth/topic"


def test_a_server_that_decides_is_asked_about_rights(tmp_path: Path):
    text = """\
auth_backends.1 = http
auth_backends.2 = internal
auth_http.user_path = http://127.0.0.1:9/user
auth_http.vhost_path = http://127.0.0.1:9/vhost
"""
    halves = "auth_backends.1.authn = http\nauth_backends.1.authz = http\n"
    for given, backends in (
        (text, ("http", "internal")),
        (text.replace("= http\n", "= rabbit_auth_backend_http\n"), ("http", "internal")),
        (halves + text.partition("internal\n")[2], ("http",)),
    ):
        printed, config = used(given, tmp_path)
        assert config.auth.backends == backends
        assert config.auth_http.user_path == "http://127.0.0.1:9/user"
        assert config.auth_http.vhost_path == "http://127.0.0.1:9/vhost"
        # As RabbitMQ has it if nothing is said.
        assert config.auth_http.resource_path == "http://localhost:8000/auth/resource"
        assert config.auth_http.topic_path == "http://localhost:8000/auth/topic"
        assert "by default" in printed


def test_an_empty_file_says_where_rabbitmq_listens(tmp_path: Path):
    printed, config = used("", tmp_path)
    assert config.bind == ("127.0.0.1",)
    (line,) = comments(printed)
    assert 'bind = "0.0.0.0"' in line


@pytest.mark.parametrize(
    ("text", "bind", "port"),
    [
        ("listeners.tcp.default = 5672", ("0.0.0.0",), 5672),
        (
            "listeners.tcp.1 = 127.0.0.1:5673\nlisteners.tcp.2 = ::1:5673",
            ("127.0.0.1", "::1"),
            5673,
        ),
        ("listeners.tcp.local = [::1]:5673", ("::1",), 5673),
        ("listeners.tcp.1 = 127.0.0.1:5673\nlisteners.tcp.2 = ::1:5674", ("127.0.0.1",), 5673),
    ],
)
def test_listeners(text: str, bind: tuple[str, ...], port: int, tmp_path: Path):
    printed, config = used(text, tmp_path)
    assert (config.bind, config.amqp_port) == (bind, port)
    if "5674" in text:
        assert comments(printed) == [
            "# rabbitmq.conf:2 listeners.tcp.2: all addresses have one port, 5673"
        ]


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("1048576", 2**20),
        ("2GB", 2 * 10**9),
        ("2GiB", 2 * 2**30),
        ("500MB", 500 * 10**6),
        ("64M", 64 * 2**20),
        ("64kib", 2**16),
        ("5000kB", 5 * 10**6),
    ],
)
def test_sizes_mean_what_they_mean_in_rabbitmq(value: str, size: int, tmp_path: Path):
    _, config = used(f"disk_free_limit.absolute = {value}", tmp_path)
    assert config.disk_free_min == size


@pytest.mark.parametrize(
    ("text", "guest_is_loopback_only"),
    [
        ("loopback_users.guest = false", False),
        ("loopback_users = none", False),
        ("loopback_users.guest = true", True),
    ],
)
def test_guest_from_elsewhere(text: str, guest_is_loopback_only: bool, tmp_path: Path):
    _, config = used(text, tmp_path)
    assert config.users is not None
    assert config.users["guest"].password == "guest"
    assert config.users["guest"].loopback_only is guest_is_loopback_only


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("frame_max = 10000000", "frame_max = 10000000: must be a number of bytes from 4096"),
        ("heartbeat = often", "heartbeat: is not a whole number"),
        ("disk_free_limit.absolute = much", "disk_free_limit.absolute: is not a size"),
        ("disk_free_limit.relative = 1.5", "give disk_free_min as a size"),
        ("connection_max = infinity", "is the default here"),
        ("listeners.tcp = none", "without a certificate there is no other port for clients"),
        ("listeners.tcp = 5672", "is either none or listeners.tcp.NAME = port"),
        ("listeners.tcp.default = many", 'amqp_port = "many": must be a whole number'),
        ("log.console.level = loud", "is not a level"),
        ("loopback_users.ann = true", "concerns another user than the default one: ann"),
        ("default_permissions.read = (", "is not a pattern RE2 accepts"),
        ("nonsense = 1", "nonsense: is no known setting of RabbitMQ"),
    ],
)
def test_what_cannot_be_kept_is_a_comment(text: str, reason: str, tmp_path: Path):
    printed, _ = used(text, tmp_path)
    assert any(reason in line for line in comments(printed)), printed


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("[{rabbit, []}].", "rabbitmq.conf", "rabbitmq.conf holds Erlang terms"),
        ("%% comment\n [\n].", "x", "x holds Erlang terms"),
        ("", "advanced.config", "advanced.config holds Erlang terms"),
        ("heartbeat 5", "rabbitmq.conf", "rabbitmq.conf:1: is not a line of the form"),
        ("\n= 5", "rabbitmq.conf", "rabbitmq.conf:2: is not a line of the form"),
    ],
)
def test_what_is_refused(text: str, name: str, message: str):
    with pytest.raises(ConfigError) as refused:
        translate(text, name)
    assert str(refused.value).startswith(message)


def test_a_file_cannot_write_toml_of_its_own(tmp_path: Path):
    text = 'log.file = \x85heartbeat = 5\ndefault_user = a"b\ndefault_pass = \\\n'
    printed, config = used(text, tmp_path)
    assert config.heartbeat == 60
    assert config.users is not None
    assert config.users['a"b'].password == "\\"
    assert printed.isprintable() or printed.replace("\n", "").isprintable()


def test_no_reason_hides_another():
    beginnings = [beginning for beginning, _ in _REASONS]
    assert len(set(beginnings)) == len(beginnings)
    # A beginning that is behind a shorter one would never count.
    for at, beginning in enumerate(beginnings):
        assert not [each for each in beginnings[:at] if beginning.startswith(each)], beginning
    assert len(_KEPT) > 10
