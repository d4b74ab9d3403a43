"""TLS with real processes and clients: openssl's own, and pika over Python's."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pika
import pytest
import trustme
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from tests.server.certificates import (
    NAME,
    PATIENCE_S,
    Files,
    client_context,
    configured,
    encrypted,
    running,
    until,
)

from leporid.server.peer_certificates import ExpiredCertificate
from leporid.server.settings import ConfigError
from leporid.server.tls import (
    RECORDS_A_READ,
    UNSENT_BYTES_MAX,
    Certificates,
    KeyPair,
    Tls,
    TlsSocket,
    reason_to_log,
)
from leporid.testing.process import BrokerProcess

pytestmark = pytest.mark.slow

OTHER_NAME = "other.example.org"


@pytest.fixture(scope="module")
def broker(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    other = files.issue(OTHER_NAME, "other")
    names = f'names."{OTHER_NAME}" = {{certificate="{other.certificate}", key="{other.key}"}}'
    pair = files.issue(NAME, "server")
    with running(tmp_path_factory.mktemp("tls"), configured(pair, names)) as started:
        yield started


@contextlib.contextmanager
def opened(broker: BrokerProcess, context: ssl.SSLContext) -> Iterator[BlockingChannel]:
    connection = encrypted(broker, context)
    yield connection.channel()
    connection.close()


def shown(broker: BrokerProcess, context: ssl.SSLContext, name: str = NAME) -> str:
    """The name in the certificate that a client is shown."""
    with (
        socket.create_connection(("127.0.0.1", broker.amqps_port), PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname=name) as sock,
    ):
        found: Any = sock.getpeercert()
    return str(dict(found["subjectAltName"])["DNS"])


# ------------------------------------------------------------------ messages


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_messages_of_all_sizes_come_as_they_were_sent(broker, files, version):
    context = client_context(files)
    context.minimum_version = context.maximum_version = version
    sizes = [0, 1, 16_000, 16_384, 131_064, 131_065, 1_000_000, 5_000_000]
    bodies = [bytes(range(256)) * (size // 256) + bytes(size % 256) for size in sizes]
    with opened(broker, context) as channel:
        channel.queue_declare("sizes", durable=True)
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish("", "sizes", body, pika.BasicProperties(delivery_mode=2))
        for body in bodies:
            method, _, found = channel.basic_get("sizes", auto_ack=True)
            assert method is not None
            assert found == body
        channel.queue_delete("sizes")


def test_many_connections_that_read_slowly_get_everything(broker, files):
    body = bytes(100_000)
    with opened(broker, client_context(files)) as channel:
        channel.queue_declare("slow")
        connections = [encrypted(broker, client_context(files)) for _ in range(10)]
        channels = [connection.channel() for connection in connections]
        for at, each in enumerate(channels):
            each.basic_consume("slow", lambda *_: None, auto_ack=True, consumer_tag=str(at))
        for _ in range(300):
            channel.basic_publish("", "slow", body)
        until(lambda: channel.queue_declare("slow", passive=True).method.message_count == 0)
        for connection in connections:
            connection.close()
        channel.queue_delete("slow")


def test_frames_in_pieces_of_every_kind(broker, files):
    """Records are as the client likes: one octet each, or many frames in one."""
    plain = socket.create_connection(("127.0.0.1", broker.amqps_port), PATIENCE_S)
    with client_context(files).wrap_socket(plain, server_hostname=NAME) as sock:
        for octet in b"AMQP\0\0\x09\x01":
            sock.sendall(bytes([octet]))
        assert sock.recv(7)[:1] == b"\x01"


def test_heartbeats_and_a_broker_that_ends_the_connection(broker, files):
    connection = encrypted(broker, client_context(files), heartbeat=1)
    channel = connection.channel()
    connection.process_data_events(2.5)
    assert connection.is_open
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        channel.queue_declare("nowhere", passive=True)
    connection.close()


# ------------------------------------------------------------------ who is refused


def test_a_client_sees_what_is_wrong_with_a_certificate(broker, files):
    stranger = Files(files.folder, trustme.CA())
    stranger.authority.cert_pem.write_to_path(files.folder / "stranger.pem")
    mistrusting = ssl.create_default_context(cafile=files.folder / "stranger.pem")
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        shown(broker, mistrusting)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shown(broker, client_context(files), "third.example.org")


def is_in(log: Path, said: str) -> bool:
    return said in log.read_text()


def test_who_speaks_no_tls_is_refused_alone(broker, files):
    with opened(broker, client_context(files)) as channel:
        with socket.create_connection(("127.0.0.1", broker.amqps_port), PATIENCE_S) as plain:
            plain.sendall(b"AMQP\0\0\x09\x01")
            said = plain.recv(100)
            assert not said or said[0] == 21  # an alert
        with pytest.raises(pika.exceptions.AMQPError):
            BlockingConnection(
                pika.ConnectionParameters(
                    "127.0.0.1", broker.amqps_port, connection_attempts=1, socket_timeout=5
                )
            )
        assert channel.queue_declare("", exclusive=True).method.queue
    log = broker.log_path
    until(lambda: "no TLS: a plain AMQP client on the port for TLS" in log.read_text())
    for said, words in ((b"GET / HTTP/1.1\r\n", "a plain HTTP client"), (b"?????", "another pro")):
        with socket.create_connection(("127.0.0.1", broker.amqps_port), PATIENCE_S) as plain:
            plain.sendall(said)
            plain.recv(100)
        until(partial(is_in, log, f"no TLS: {words}"))
    # And the other way round.
    with (
        socket.create_connection(("127.0.0.1", broker.amqp_port), PATIENCE_S) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        client_context(files).wrap_socket(plain, server_hostname=NAME)
    until(lambda: "it speaks TLS, which is on another port" in log.read_text())


def test_a_name_has_its_own_certificate(broker, files):
    context = client_context(files)
    assert shown(broker, context) == NAME
    assert shown(broker, context, OTHER_NAME) == OTHER_NAME
    assert shown(broker, context, OTHER_NAME.upper()) == OTHER_NAME


def test_a_name_that_is_no_text_is_refused_without_a_word_of_it_in_the_log(broker, files):
    """Python would print a traceback with the name, for each ClientHello of whoever likes."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(files).wrap_bio(received, sent, server_hostname="strange")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    hello = sent.read().replace(b"strange", b"st\xffange")
    before = broker.log_path.stat().st_size
    with socket.create_connection(("127.0.0.1", broker.amqps_port), PATIENCE_S) as plain:
        plain.send(hello)
        assert plain.recv(100)[:1] == b"\x15"  # an alert

    def said() -> str:
        text: str = broker.log_path.read_bytes()[before:].decode(errors="replace")
        return text

    until(lambda: "ERROR leporid.server.logs: an error could not be raised" in said())
    assert "Exception ignored" not in said()
    assert "st\\xffange" not in said()
    assert shown(broker, client_context(files)) == NAME


def openssl(
    broker: BrokerProcess, files: Files, *options: str, said: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    return subprocess.run(
        [
            *("openssl", "s_client", "-connect", f"127.0.0.1:{broker.amqps_port}", *options),
            *("-CAfile", files.trusted, "-servername", NAME, "-verify_hostname", NAME),
            "-verify_return_error",
        ],
        input=said,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_openssl_is_content(broker, files, version):
    assert b"Verify return code: 0 (ok)" in openssl(broker, files, version).stdout


def test_openssl_may_not_renegotiate(broker, files):
    assert b"no renegotiation" in openssl(broker, files, "-tls1_2", said=b"R\n").stderr


@pytest.mark.parametrize("group", ["ffdhe4096", "ffdhe6144", "ffdhe8192"])
def test_no_key_is_agreed_on_that_takes_a_tenth_of_a_second(broker, files, group):
    """With ffdhe8192 a ClientHello of 1.2 KB does, and costs a client nothing."""
    refused = openssl(broker, files, "-tls1_3", "-groups", group)
    assert b"alert handshake failure" in refused.stderr


@pytest.mark.parametrize("groups", ["X25519:P-256", "P-256", "ffdhe8192:P-256"])
def test_clients_have_their_choice_or_the_group_that_each_has(broker, files, groups):
    done = openssl(broker, files, "-tls1_3", "-groups", groups)
    assert b"Verify return code: 0 (ok)" in done.stdout


def test_old_versions_are_refused(broker, files):
    old = openssl(broker, files, "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0")
    assert old.returncode == 1
    assert b"alert protocol version" in old.stderr


def test_a_handshake_that_does_not_end_is_ended(files, tmp_path):
    config = "limits.handshake_seconds = 1\n" + configured(files.issue(NAME, "hurried"))
    with (
        running(tmp_path, config) as broker,
        socket.create_connection(("127.0.0.1", broker.amqps_port), PATIENCE_S) as plain,
    ):
        plain.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert plain.recv(100) == b""


def test_without_a_plain_port_all_is_as_before_over_tls(files, tmp_path):
    config = configured(files.issue(NAME, "only"))
    with BrokerProcess(tmp_path / "data", config=config, amqp_port=-1) as broker:
        assert broker.amqp_port == 0
        with opened(broker, client_context(files)) as channel:
            assert channel.queue_declare("", exclusive=True).method.queue
        overview = httpx.get(
            f"http://127.0.0.1:{broker.http_port}/api/overview",
            auth=("guest", "guest"),
            trust_env=False,
            timeout=PATIENCE_S,
        ).json()
        shown = {each["protocol"]: each["port"] for each in overview["listeners"]}
        assert "amqp" not in shown
        assert shown["amqp/ssl"] == broker.amqps_port


# ------------------------------------------------------------------ certificates of clients


def connections(broker: BrokerProcess) -> list[dict[str, Any]]:
    """What the management API says of connections."""
    url = f"http://127.0.0.1:{broker.http_port}/api/connections"
    found: list[dict[str, Any]] = httpx.get(
        url, auth=("guest", "guest"), trust_env=False, timeout=PATIENCE_S
    ).json()
    return found


def test_the_list_of_connections_says_what_was_agreed_on(broker, files):
    with opened(broker, client_context(files)):
        (shown,) = connections(broker)
        assert (shown["ssl"], shown["ssl_protocol"]) == (True, "tlsv1.3")
        assert shown["ssl_key_exchange"] == "any"
        assert shown["ssl_cipher"].startswith(("aes", "chacha20"))
        assert shown["ssl_hash"] == "aead"
        assert shown["peer_cert_subject"] is None


@pytest.mark.parametrize("required", [True, False])
def test_clients_show_certificates(files, tmp_path, required):
    word = "required" if required else "optional"
    config = configured(
        files.issue(NAME, "mutual"),
        f'client_ca = "{files.trusted}"',
        f'client_certificates = "{word}"',
    )
    strange = files.issue("client", "strange", authority=trustme.CA())
    expired = files.issue("client", "expired", days=-1)
    with running(tmp_path, config) as broker:
        connection = encrypted(broker, client_context(files, own=files.issue("client", "client")))
        (shown,) = connections(broker)
        assert shown["peer_cert_subject"].startswith("CN=client,")
        assert "O=trustme" in shown["peer_cert_issuer"]
        assert " - " in shown["peer_cert_validity"]
        connection.close()
        for bad in (strange, expired):
            with pytest.raises((pika.exceptions.AMQPError, ssl.SSLError, OSError)):
                encrypted(broker, client_context(files, own=bad))
        if required:
            with pytest.raises((pika.exceptions.AMQPError, ssl.SSLError, OSError)):
                encrypted(broker, client_context(files))
        else:
            encrypted(broker, client_context(files)).close()


# ------------------------------------------------------------------ files


def test_a_new_certificate_counts_for_new_connections(files, tmp_path):
    pair = files.issue(NAME, "renewed")
    context = client_context(files)
    with running(tmp_path, configured(pair)) as broker, opened(broker, context) as channel:
        files.issue(OTHER_NAME, "renewed")
        context.check_hostname = False
        until(lambda: shown(broker, context) == OTHER_NAME)
        pair.key.write_text("no key")
        until(lambda: "certificates that were read before stay" in broker.log_path.read_text())
        assert shown(broker, context) == OTHER_NAME
        assert channel.queue_declare("", exclusive=True).method.queue


def test_certificates_that_end_soon_are_told(files, tmp_path):
    pair = files.issue(NAME, "ending", days=3)
    asked = f'client_ca = "{files.trusted}"\nclient_certificates = "optional"'
    with running(tmp_path, configured(pair, asked)) as broker:

        def check(days: int) -> tuple[int, Any]:
            path = f"/api/health/checks/certificate-expiration/{days}/days"
            answer = httpx.get(
                f"http://127.0.0.1:{broker.http_port}{path}", auth=("guest", "guest")
            )
            return answer.status_code, answer.json()

        assert check(2) == (200, {"status": "ok"})
        status, found = check(4)
        assert status == 503
        assert [(each["protocol"], each["port"]) for each in found["expired"]] == [
            ("amqp/ssl", broker.amqps_port),
            ("https", broker.https_port),
        ]
        assert [each["certfile"] for each in found["expired"]] == [str(pair.certificate)] * 2
        assert [each["cacertfile"] for each in found["expired"]] == [str(files.trusted), ""]
        assert all(len(each["certfile_expires_on"]) == 1 for each in found["expired"])
        said = run_doctor(broker)
        assert f"warning: broker: {pair.certificate} ends at 20" in said
        files.issue(NAME, "ending", days=40)
        until(lambda: check(31)[0] == 200)


def run_doctor(broker: BrokerProcess) -> str:
    """What `leporid doctor` finds."""
    environment = {"LEPORID_URL": f"http://guest:guest@127.0.0.1:{broker.http_port}"}
    command = [str(Path(sys.executable).with_name("leporid")), "doctor"]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_files_that_cannot_be_used_end_the_start(files, tmp_path):
    pair = files.issue(NAME, "good")
    other = files.issue(NAME, "wrong")
    empty = files.folder / "empty.pem"
    empty.touch()
    for certificate, key, said in (
        (files.folder / "none.pem", pair.key, "none.pem: cannot be read: No such file"),
        (empty, pair.key, "are no certificate and its key"),
        (pair.certificate, other.key, "are no certificate and its key"),
    ):
        with pytest.raises(ConfigError, match=said):
            Certificates(Tls(certificate=certificate, key=key))
    with pytest.raises(ConfigError, match="has no certificates"):
        Certificates(Tls(pair.certificate, pair.key, None, empty, "optional"))
    broker = BrokerProcess(tmp_path / "data", config=configured(KeyPair(empty, empty)))
    code, log = broker.start_refused()
    assert code == 1
    assert "are no certificate and its key" in log


# ------------------------------------------------------------------ one socket


def pair_of_sockets(files: Files) -> tuple[TlsSocket, ssl.SSLSocket]:
    """Ours, and a client's after the handshake."""
    own = files.issue(NAME, "socket")
    return shaken(Certificates(Tls(own.certificate, own.key)).context, client_context(files))


def shaken(
    context: ssl.SSLContext, theirs: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> tuple[TlsSocket, ssl.SSLSocket]:
    """Ours, and a client's after the handshake, which may resume a session."""
    ours, plain = socket.socketpair()
    ours.setblocking(False)
    tls = TlsSocket(ours, context)
    plain.setblocking(False)
    client = theirs.wrap_socket(
        plain, server_hostname=NAME, do_handshake_on_connect=False, session=session
    )
    try:
        while True:
            with contextlib.suppress(BlockingIOError):
                tls.recv_into(memoryview(bytearray(10)))
            try:
                client.do_handshake()
            except ssl.SSLWantReadError:
                continue
            break
        with contextlib.suppress(BlockingIOError):
            tls.recv_into(memoryview(bytearray(10)))
    except BaseException:
        tls.close()
        client.close()
        raise
    assert tls.established
    return tls, client


def test_what_the_handshake_has_agreed_on(files):
    tls, client = pair_of_sockets(files)
    found = tls.encryption()
    cipher = client.cipher()
    assert cipher is not None
    assert (found.protocol, found.suite) == ("tlsv1.3", cipher[0])
    assert found.certificate is None
    tls.close()
    client.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_ends_with_the_certificate_of_its_client(files, version, monkeypatch):
    own = files.issue(NAME, "socket")
    context = Certificates(Tls(own.certificate, own.key, None, files.trusted, "required")).context
    theirs = client_context(files, own=files.issue("client", "client", days=1))
    theirs.minimum_version = theirs.maximum_version = version
    session = None
    for _ in range(3):
        tls, client = shaken(context, theirs, session)
        assert client.session_reused == (session is not None)
        assert tls.encryption().certificate is not None
        with contextlib.suppress(ssl.SSLWantReadError):
            client.recv(1)  # what it may resume comes behind the handshake
        session = client.session
        tls.close()
        client.close()
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s + 2 * 86400)
    with pytest.raises(ExpiredCertificate) as caught:
        shaken(context, theirs, session)
    assert reason_to_log(caught.value) == (
        "tls: the client's certificate has expired, and its session is over"
    )


def test_what_does_not_fit_is_read_next(files):
    tls, client = pair_of_sockets(files)
    sent = b"".join(struct.pack(">I", number) for number in range(10_000))
    client.sendall(sent)
    found = b""
    view = memoryview(bytearray(777))
    while len(found) < len(sent):
        count = tls.recv_into(view)
        found += view[:count]
        assert tls.has_more or len(found) == len(sent) or count < 777
    assert found == sent
    with pytest.raises(BlockingIOError):
        tls.recv_into(view)
    assert not tls.has_more
    with pytest.raises(ssl.SSLWantReadError):
        client.unwrap()
    assert tls.recv_into(view) == 0
    tls.close()
    client.close()


def test_what_the_system_does_not_take_is_kept_and_sent(files):
    tls, client = pair_of_sockets(files)
    data = memoryview(bytes(range(256)) * 40_000)
    at = 0
    found = b""
    while at < len(data) or tls.unsent:
        try:
            at += tls.send(data[at:]) if at < len(data) else 0
            tls.flush()
            assert len(tls.unsent) < 100_000
        except BlockingIOError:
            pass
        with contextlib.suppress(ssl.SSLWantReadError):
            found += client.recv(30_000)
    while len(found) < len(data):
        found += client.recv(30_000)
    assert found == data
    tls.close()
    client.close()


def test_many_small_records_are_read_in_turns(files):
    tls, client = pair_of_sockets(files)
    sent = bytes(range(250))
    for octet in sent:
        client.send(bytes([octet]))
    found, most = b"", 0
    view = memoryview(bytearray(1000))
    while len(found) < len(sent):
        count = tls.recv_into(view)
        found += view[:count]
        most = max(most, count)
        assert tls.has_more or len(found) == len(sent)
    assert found == sent
    assert most <= RECORDS_A_READ
    tls.close()
    client.close()


def test_a_peer_that_takes_no_answers_is_given_up(files):
    """Requests for new keys are answered, however many there are."""
    tls, client = pair_of_sockets(files)
    tls.unsent = bytes(UNSENT_BYTES_MAX + 1)
    with contextlib.suppress(BlockingIOError):
        while tls.plain.send(bytes(100_000)):
            pass
    with pytest.raises(ConnectionResetError, match="takes none of"):
        tls.flush()
    tls.close()
    client.close()
