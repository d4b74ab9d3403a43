"""Passwords: the ways to keep one, the same answer."""

import base64
import hashlib

import pytest

from leporid.broker.access.passwords import (
    ARGON2_COST,
    ARGON2_MEMORY_KIB,
    Argon2Hash,
    NoPassword,
    PasswordHashError,
    SaltedHash,
    StoredPassword,
    algorithm_of,
    decoy,
    hash_password,
    keyed_digest,
    parse_hash,
    parse_stored,
    salted_sha256,
)

SECRET = b"0123456789abcdef"
# "pässword" as `rabbitmqctl hash_password` makes it: salt 908dc60a.
SALT = bytes.fromhex("908dc60a")
IMPORTED = base64.b64encode(SALT + hashlib.sha256(SALT + "pässword".encode()).digest()).decode()

# Salt and hash of an argon2 hash, whatever its parameters.
TAIL = "$c3Nzc3Nzc3Nzc3Nzc3Nzcw$E5KostkEawuGjCeEGD921occKWHmaTyglX6TE/VIYcM"

SHA512 = base64.b64encode(SALT + hashlib.sha512(SALT + "pässword".encode()).digest()).decode()

KEPT: list[StoredPassword] = [
    parse_hash(SHA512),
    hash_password("pässword", b"s" * 16),
    parse_hash(IMPORTED),
    salted_sha256("pässword", SECRET),
]


@pytest.mark.parametrize("stored", KEPT)
def test_only_the_password_matches(stored: StoredPassword):
    assert stored.matches("pässword".encode())
    for wrong in (b"", b"password", "pässword ".encode(), "Pässword".encode(), b"\0", b"x" * 5000):
        assert not stored.matches(wrong)


@pytest.mark.parametrize("stored", KEPT)
def test_nothing_of_it_is_in_the_repr(stored: StoredPassword):
    assert repr(stored) == f"{type(stored).__name__}()"


def test_the_example_of_rabbitmqs_documentation_imports():
    # https://www.rabbitmq.com/docs/passwords: user "test12".
    stored = parse_hash("kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR")
    assert isinstance(stored, SaltedHash)
    assert stored.matches(b"test12")


def test_an_argon2_hash_is_read_as_it_was_written():
    made = hash_password("secret", b"0123456789abcdef")
    assert made.text.startswith(f"$argon2id$v=19$m={ARGON2_MEMORY_KIB},t=2,p=1$")
    assert parse_hash(made.text) == made
    assert isinstance(parse_hash(made.text), Argon2Hash)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must be an argon2id hash"),
        ("secret", "must be an argon2id hash"),
        ("AAAA", "must be an argon2id hash"),
        ("ÄÖÜ=", "must be an argon2id hash"),
        (IMPORTED[:-1], "must be an argon2id hash"),
        ("$argon2id$", "not a whole one"),
        ("$2b$12$abcdefghijklmnopqrstuv", "not a whole one"),
        (
            f"$argon2i$v=19$m=19456,t=2,p=1{TAIL}",
            "is argon2i; only argon2id",
        ),
        (
            f"$argon2id$v=19$m=4194304,t=2,p=1{TAIL}",
            "asks for m=4194304 at each login; at most 131072",
        ),
        (
            f"$argon2id$v=19$m=64,t=99999999,p=1{TAIL}",
            "asks for t=99999999",
        ),
    ],
)
def test_other_hashes_are_refused_by_a_reason_without_the_hash(text: str, why: str):
    with pytest.raises(PasswordHashError) as refused:
        parse_hash(text)
    assert why in str(refused.value)
    assert len(text) < 20 or text not in str(refused.value)


def test_a_decoy_costs_as_much_as_the_hash_it_stands_for():
    real = hash_password("x", b"s" * 16)
    assert real.cost == ARGON2_COST
    assert decoy(real.cost).cost == real.cost
    assert parse_hash(decoy(real.cost).text) == decoy(real.cost)
    for password in (b"", b"x", bytes(32)):
        assert not decoy(real.cost).matches(password)


def test_short_salts_and_secrets_are_defects():
    with pytest.raises(ValueError, match="salt must have 16"):
        hash_password("x", b"short")
    with pytest.raises(ValueError, match="secret must have 16"):
        keyed_digest(b"short", b"x")


def test_parts_of_a_digest_do_not_run_together():
    assert keyed_digest(SECRET, b"ab", b"c") != keyed_digest(SECRET, b"a", b"bc")


@pytest.mark.parametrize(
    ("text", "algorithm"),
    [
        (IMPORTED, "rabbit_password_hashing_sha256"),
        (SHA512, "rabbit_password_hashing_sha512"),
        (ARGON2_COST + TAIL, "argon2id"),
        ("", "rabbit_password_hashing_sha256"),
    ],
)
def test_what_is_stored_comes_back(text: str, algorithm: str):
    stored = parse_stored(text)
    assert stored.text == text
    assert algorithm_of(stored) == algorithm


def test_rabbitmqs_md5_is_refused_by_name():
    md5 = base64.b64encode(SALT + b"d" * 16).decode()
    with pytest.raises(PasswordHashError, match=r"salted MD5 \(rabbit_password_hashing_md5\)"):
        parse_hash(md5)


def test_without_a_password_none_is_right():
    for password in (b"", b"x"):
        assert not NoPassword().matches(password)
