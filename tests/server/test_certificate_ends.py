"""Until when certificates in files are valid."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from leporid.server.certificate_ends import ends_in


def written(file: Path, *ends: datetime) -> Path:
    authority = trustme.CA()
    made = [
        authority.issue_cert(
            "mq.example.org", not_before=datetime(1960, 1, 1, tzinfo=UTC), not_after=end
        )
        for end in ends
    ]
    file.write_bytes(b"".join(one.cert_chain_pems[0].bytes() for one in made))
    return file


def test_each_certificate_of_a_file_has_its_end(tmp_path: Path):
    # From 2050 on, and only then, years have four digits (RFC 5280, 4.1.2.5).
    ends = [datetime(year, 2, 28, 23, 59, 58, tzinfo=UTC) for year in (1970, 2026, 2049, 2050)]
    file = written(tmp_path / "some.pem", *ends)
    assert ends_in(file) == tuple(int(each.timestamp()) for each in ends)


def test_what_is_no_certificate_has_no_end(tmp_path: Path):
    file = written(tmp_path / "one.pem", datetime(2030, 1, 1, tzinfo=UTC))
    lines = file.read_text().splitlines()
    cut = "\n".join([*lines[:3], lines[-1], ""])
    garbage = "\n".join([lines[0], "!!!!", lines[-1], lines[0], "MAA=", lines[-1], ""])
    key = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"
    file.write_text(cut + garbage + key + file.read_text())
    assert ends_in(file) == (int(datetime(2030, 1, 1, tzinfo=UTC).timestamp()),)


@pytest.mark.parametrize("length", range(1, 12))
def test_bytes_that_end_too_soon_are_no_certificate(tmp_path: Path, length: int):
    body = base64.b64encode(b"\x30\x82\x01\x00\x30\x81\xf0\xa0\x03\x02\x01\x02"[:length])
    file = tmp_path / "short.pem"
    file.write_text(f"-----BEGIN CERTIFICATE-----\n{body.decode()}\n-----END CERTIFICATE-----\n")
    assert ends_in(file) == ()


def test_a_file_that_cannot_be_read_has_none(tmp_path: Path):
    assert ends_in(tmp_path / "nowhere") == ()
