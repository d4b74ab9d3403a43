"""SASL EXTERNAL: a certificate logs its user in, with pika's own ExternalCredentials."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pika
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtensionOID, NameOID
from tests.server.certificates import (
    NAME,
    Files,
    client_context,
    configured,
    encrypted,
    running,
    until,
)

from leporid.server.tls import KeyPair
from leporid.testing.process import BrokerProcess

pytestmark = pytest.mark.slow

RIGHTS = 'permissions."/" = {configure = ".*", write = ".*", read = ".*"}'


def user(name: str, *more: str) -> str:
    return "\n".join([f'[users."{name}"]', 'password = "unused"', RIGHTS, *more, ""])


def configuration(files: Files, *more: str) -> str:
    return configured(
        files.issue(NAME, "server"),
        f'client_ca = "{files.trusted}"',
        'client_certificates = "optional"',
        *more,
    )


@pytest.fixture(scope="module")
def broker(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    config = configuration(files, 'login_from = "common_name"') + user("till") + user("guest")
    with running(tmp_path_factory.mktemp("external"), config) as started:
        yield started


def connect(
    broker: BrokerProcess, context: ssl.SSLContext, credentials: object = None
) -> pika.BlockingConnection:
    given = credentials or pika.credentials.ExternalCredentials()
    return encrypted(broker, context, credentials=given)


def by(files: Files, pair: KeyPair) -> ssl.SSLContext:
    return client_context(files, own=pair)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_common_name_is_the_user(broker, files, version):
    context = by(files, files.issue("till", "till"))
    context.minimum_version = context.maximum_version = version
    connection = connect(broker, context)
    channel = connection.channel()
    channel.queue_declare("own", exclusive=True)
    # Only the user itself may stand there.
    properties = pika.BasicProperties(user_id="till")
    channel.confirm_delivery()
    channel.basic_publish("", "own", b"", properties)
    connection.close()


def test_who_shows_a_certificate_may_have_a_password_all_the_same(broker, files):
    context = by(files, files.issue("nobody", "nobody"))
    connect(broker, context, pika.PlainCredentials("till", "unused")).close()


def test_without_a_certificate_it_is_not_offered(broker, files):
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connect(broker, client_context(files))
    # Who claims it all the same is refused like any mechanism that is not there.
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connect(broker, client_context(files), Insisting())
    until(lambda: "unknown authentication mechanism" in broker.log_path.read_text())


class Insisting(pika.credentials.ExternalCredentials):
    def response_for(self, _start: object) -> tuple[str, bytes]:
        return "EXTERNAL", b"till"


def test_a_certificate_of_no_user_is_refused_and_logged(broker, files):
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(broker, by(files, files.issue("stranger", "stranger")))
    said = "EXTERNAL login refused: user 'stranger' - the certificate is of no user"
    until(lambda: said in broker.log_path.read_text())


def test_the_response_names_nobody_else(broker, files):
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(broker, by(files, files.issue("stranger", "other")), Insisting())


def test_a_certificate_that_is_refused_is_logged(broker, files):
    with pytest.raises((pika.exceptions.AMQPError, ssl.SSLError, OSError)):
        connect(broker, by(files, files.issue("till", "expired", days=-1)))
    until(lambda: "was refused: certificate has expired" in broker.log_path.read_text())


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ((), "user 'CN=till,OU=Testing cert"),
        (('login_from = "subject_alternative_name"',), "user 'till'"),
        (('login_from = "subject_alternative_name"', "login_san_index = 1"), None),
    ],
)
def test_other_parts_of_the_certificate(files, tmp_path, settings, name):
    config = configuration(files, *settings)
    context = by(files, files.issue("till", "till"))
    with running(tmp_path, config) as broker:
        # The log says under which name the user must be made.
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            connect(broker, context)
        text = broker.log_path.read_text()
        (line,) = (each for each in text.splitlines() if "EXTERNAL login refused" in each)
        if name is None:
            assert "has no such name" in line
        else:
            assert name in line


def test_a_certificate_is_of_nobody_if_the_users_of_the_broker_are_not_asked(files, tmp_path):
    config = (
        configuration(files, 'login_from = "common_name"')
        + user("till")
        + '[auth]\nbackends = ["http"]\n[auth_http]\nuser_path = "http://127.0.0.1:1/"\n'
    )
    context = by(files, files.issue("till", "till"))
    with running(tmp_path, config) as broker:
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            connect(broker, context)
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            connect(broker, context, Insisting())
        until(lambda: "unknown authentication mechanism" in broker.log_path.read_text())


def odd(files: Files, name: bytes) -> KeyPair:
    """Sign a certificate whose alternative name is these octets, which `cryptography` refuses."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer = serialization.load_pem_private_key(files.authority.private_key_pem.bytes(), None)
    issuer = x509.load_pem_x509_certificate(files.authority.cert_pem.bytes()).subject
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "till")])
    now = datetime.now(UTC)
    general_name = b"\x82" + bytes((len(name),)) + name
    made = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), 4711, now, now + timedelta(1))
        .add_extension(
            x509.UnrecognizedExtension(
                ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
                b"\x30" + bytes((len(general_name),)) + general_name,
            ),
            critical=False,
        )
        .sign(signer, hashes.SHA256())  # type: ignore[arg-type]
    )
    pair = KeyPair(files.folder / "odd.pem", files.folder / "odd.key")
    pair.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pair.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pair


def test_a_certificate_with_a_name_that_is_no_text_closes_its_connection(broker, files):
    with pytest.raises(pika.exceptions.AMQPError):
        connect(broker, by(files, odd(files, b"till\xff")))
    until(
        lambda: "the client's certificate cannot be read: UnicodeDecodeError" in broker.log_tail()
    )
    assert "Traceback" not in broker.log_path.read_text()
    connect(broker, by(files, files.issue("till", "till"))).close()
