import pytest

from leporid.broker.connection.transport import (
    CertificateLogin,
    Encryption,
    Endpoints,
    PeerCertificate,
)


@pytest.mark.parametrize(
    ("suite", "parts"),
    [
        ("TLS_AES_256_GCM_SHA384", ("any", "aes_256_gcm", "aead")),
        ("TLS_CHACHA20_POLY1305_SHA256", ("any", "chacha20_poly1305", "aead")),
        ("TLS_AES_128_CCM_8_SHA256", ("any", "aes_128_ccm_8", "aead")),
        ("ECDHE-RSA-AES256-GCM-SHA384", ("ecdhe_rsa", "aes_256_gcm", "aead")),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", ("ecdhe_ecdsa", "chacha20_poly1305", "aead")),
        ("DHE-RSA-AES128-CCM8", ("dhe_rsa", "aes_128_ccm_8", "aead")),
        ("ECDHE-RSA-AES128-SHA256", ("ecdhe_rsa", "aes_128_cbc", "sha256")),
        ("AES128-SHA", ("rsa", "aes_128_cbc", "sha")),
        ("", ("", "", "")),
    ],
)
def test_a_cipher_suite_has_the_parts_that_rabbitmq_shows(suite, parts):
    made = Encryption.of("TLSv1.2", suite)
    assert (made.key_exchange, made.cipher, made.hash) == parts
    assert (made.protocol, made.suite) == ("tlsv1.2", suite)


CERTIFICATE = PeerCertificate(
    "CN=till\\, 1,O=Shop",
    "CN=CA",
    "",
    ("till, 1",),
    (("dns", "a.example"), ("ip", "10.0.0.1"), ("dns", "b.example")),
)


@pytest.mark.parametrize(
    ("login", "user"),
    [
        (CertificateLogin(), "CN=till\\, 1,O=Shop"),
        (CertificateLogin("common_name"), "till, 1"),
        (CertificateLogin("subject_alternative_name"), "a.example"),
        (CertificateLogin("subject_alternative_name", index=1), "b.example"),
        (CertificateLogin("subject_alternative_name", "ip"), "10.0.0.1"),
        (CertificateLogin("subject_alternative_name", "email"), None),
        (CertificateLogin("subject_alternative_name", index=2), None),
    ],
)
def test_a_part_of_the_certificate_is_the_user(login, user):
    assert login.user(CERTIFICATE) == user


@pytest.mark.parametrize("name", ["", "x" * 256])
def test_what_no_user_can_be_called_is_no_user(name):
    assert CertificateLogin("common_name").user(PeerCertificate("", "", "", (name,))) is None


@pytest.mark.parametrize(
    ("peer", "own", "name"),
    [
        ("192.0.2.7", "192.0.2.1", "192.0.2.7:40000 -> 192.0.2.1:5672"),
        ("::1", "::1", "[::1]:40000 -> [::1]:5672"),
    ],
)
def test_it_is_named_as_in_rabbitmq(peer: str, own: str, name: str) -> None:
    assert str(Endpoints(peer, 40000, own, 5672)) == name
