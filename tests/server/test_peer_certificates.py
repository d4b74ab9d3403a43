"""Certificates as `ssl` shows them: names in the form of RFC 4514."""

import pytest

from leporid.server.peer_certificates import certificate_of, distinguished_name

SHOWN = {
    "subject": (
        (("countryName", "DE"),),
        (("organizationName", "Hare, Rabbit + Co"),),
        (("organizationalUnitName", "tills"), ("userId", "t1")),
        (("commonName", "till"),),
    ),
    "issuer": ((("commonName", "CA"),),),
    "notBefore": "Jan  1 00:00:00 2026 GMT",
    "notAfter": "Dec 31 23:59:59 2049 GMT",
    "subjectAltName": (("DNS", "a.example"), ("IP Address", "10.0.0.1"), ("DirName", "x")),
}


def test_a_certificate():
    found = certificate_of(SHOWN)
    assert found.subject == "CN=till,OU=tills+UID=t1,O=Hare\\, Rabbit \\+ Co,C=DE"
    assert found.issuer == "CN=CA"
    assert found.validity == "2026-01-01T00:00:00Z - 2049-12-31T23:59:59Z"
    assert found.common_names == ("till",)
    assert found.alternative_names == (("dns", "a.example"), ("ip", "10.0.0.1"))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (" a ", "\\ a\\ "),
        ("#1", "\\#1"),
        ("a#b c", "a#b c"),
        ("Käfer", "K\\C3\\A4fer"),
        ("a\nb\0", "a\\0Ab\\00"),
        ('<"\\;>', '\\<\\"\\\\\\;\\>'),
        ("", ""),
        (" ", "\\ "),
    ],
)
def test_values_are_escaped(value, written):
    assert distinguished_name(((("commonName", value),),)) == f"CN={written}"
