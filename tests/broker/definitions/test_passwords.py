"""Passwords in clear in a document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leporid.broker.access.passwords import salted_sha256
from leporid.broker.definitions import passwords
from leporid.broker.definitions.document import Document, reading
from leporid.broker.definitions.passwords import in_clear, put_hash
from leporid.broker.definitions.plan import DefinitionsRefused
from leporid.broker.registry import finished


def document(*users: dict[str, Any]) -> Document:
    return finished(reading(json.dumps({"users": users}).encode()))


def test_they_are_found_and_replaced():
    given = document({"name": "a", "password": "pw"}, {"name": "b", "password_hash": ""})
    ((item, password),) = in_clear(given)
    assert password == "pw"
    put_hash(item, salted_sha256("pw", b"salt"))
    assert "password" not in item
    assert in_clear(given) == []


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ({"password": 7}, r"users\[0\]: password should be a string"),
        ({"password": "p", "password_hash": ""}, "has both password and password_hash"),
        ({"password": "p" * 5000}, "password has 5000 bytes"),
    ],
)
def test_wrong_ones_are_refused(user: dict[str, Any], reason: str):
    with pytest.raises(DefinitionsRefused, match=reason):
        in_clear(document(user))


def test_there_may_be_so_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(passwords, "CLEAR_MAX", 1)
    with pytest.raises(DefinitionsRefused, match="2 users have passwords in clear; at most 1 may"):
        in_clear(document({"name": "a", "password": "p"}, {"name": "b", "password": "p"}))
