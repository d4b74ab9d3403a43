"""How a password is kept, and how a claimed one is compared with it.

Two ways: argon2id (the way we store), and RabbitMQ's salted SHA-256 or SHA-512 (so that its
definitions import, and for guest, whose password is no secret). Some users have no password, and
cannot log in with one.

Must not know users, mechanisms or connections, and draws no random bytes: salts come from the
caller. Invariant: no password is kept in clear, none appears in a repr, and every comparison
takes the same time wherever the difference is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass, field
from typing import ClassVar, Final

import argon2

# OWASP's second recommendation for argon2id: 19 MiB, two passes, one lane. The smaller memory is
# on purpose: a peer who has not logged in decides how many of these run.
ARGON2_MEMORY_KIB = 19 * 1024
ARGON2_PASSES = 2
ARGON2_LANES = 1
# As it stands in the hashes' text form.
ARGON2_COST = f"$argon2id$v=19$m={ARGON2_MEMORY_KIB},t={ARGON2_PASSES},p={ARGON2_LANES}"

# What an imported hash may ask of us at each login: twice the memory and more passes than
# argon2-cffi's own defaults (64 MiB, 3 passes, 4 lanes). More would let one user row stop the node.
ARGON2_MEMORY_KIB_MAX = 128 * 1024
ARGON2_PASSES_MAX = 16
ARGON2_LANES_MAX = 16

SALT_BYTES = 16
RABBITMQ_SALT_BYTES = 4
SHA256_BYTES = 32
SHA512_BYTES = 64
MD5_BYTES = 16
# SHA-256's block: a longer key gains nothing, a shorter one than 16 could be guessed.
SECRET_BYTES_MIN = 16


class PasswordHashError(ValueError):
    """A stored hash that cannot be read; the message says what is allowed."""


@dataclass(frozen=True, slots=True)
class Argon2Hash:
    """An argon2id hash in its usual text form, `$argon2id$v=19$m=…,t=…,p=…$salt$hash`."""

    slow: ClassVar[bool] = True
    text: str = field(repr=False)

    @property
    def cost(self) -> str:
        """The parameters: hashes with equal ones take equally long to compare with."""
        return self.text.rsplit("$", 2)[0]

    def matches(self, password: bytes) -> bool:
        """Hash and compare; takes tens of milliseconds and releases the interpreter lock."""
        try:
            return argon2.low_level.verify_secret(
                self.text.encode("ascii"), password, argon2.low_level.Type.ID
            )
        except argon2.exceptions.VerificationError:
            return False


@dataclass(frozen=True, slots=True)
class SaltedHash:
    """RabbitMQ's `rabbit_password_hashing_sha256`, or `_sha512`: which one, the length says."""

    slow: ClassVar[bool] = False
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)

    @property
    def text(self) -> str:
        """As RabbitMQ writes it: base64 of salt and digest."""
        return base64.b64encode(self.salt + self.digest).decode("ascii")

    def matches(self, password: bytes) -> bool:
        """Hash and compare; microseconds."""
        made = hashlib.sha512 if len(self.digest) == SHA512_BYTES else hashlib.sha256
        return hmac.compare_digest(made(self.salt + password).digest(), self.digest)


@dataclass(frozen=True, slots=True)
class NoPassword:
    """Of a user that has none: no password is right."""

    slow: ClassVar[bool] = False
    text: ClassVar[str] = ""

    def matches(self, password: bytes) -> bool:
        """Say no."""
        return False


StoredPassword = Argon2Hash | SaltedHash | NoPassword

SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"
MD5: Final = "rabbit_password_hashing_md5"
ARGON2ID: Final = "argon2id"
"""As RabbitMQ would call a module of that name; it has none."""
ALGORITHMS: Final = (ARGON2ID, SHA256, SHA512)


def keyed_digest(secret: bytes, *parts: bytes) -> bytes:
    """Digest `parts` under `secret`, each with its length so that they cannot run together."""
    if len(secret) < SECRET_BYTES_MIN:
        raise ValueError(f"the secret must have {SECRET_BYTES_MIN} bytes or more")
    digest = hmac.new(secret, digestmod=hashlib.sha256)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def salted_sha256(password: str, salt: bytes) -> SaltedHash:
    """Make the hash that RabbitMQ makes; of `salt`, the first RABBITMQ_SALT_BYTES count."""
    salt = salt[:RABBITMQ_SALT_BYTES]
    if len(salt) < RABBITMQ_SALT_BYTES:
        raise ValueError(f"the salt must have {RABBITMQ_SALT_BYTES} bytes or more")
    return SaltedHash(salt, hashlib.sha256(salt + password.encode("utf-8")).digest())


def algorithm_of(stored: StoredPassword) -> str:
    """Return the name that RabbitMQ has for how a password is kept, or would have."""
    if isinstance(stored, Argon2Hash):
        return ARGON2ID
    sha512 = isinstance(stored, SaltedHash) and len(stored.digest) == SHA512_BYTES
    return SHA512 if sha512 else SHA256


def hash_password(password: str, salt: bytes) -> Argon2Hash:
    """Make the hash to store for a new password; `salt` is SALT_BYTES random bytes."""
    if len(salt) < SALT_BYTES:
        raise ValueError(f"the salt must have {SALT_BYTES} bytes or more")
    text = argon2.low_level.hash_secret(
        password.encode("utf-8"),
        salt,
        time_cost=ARGON2_PASSES,
        memory_cost=ARGON2_MEMORY_KIB,
        parallelism=ARGON2_LANES,
        hash_len=SHA256_BYTES,
        type=argon2.low_level.Type.ID,
    )
    return Argon2Hash(text.decode("ascii"))


def decoy(cost: str) -> Argon2Hash:
    """Make a hash that no password has: to compare with it takes as long as with a real one."""
    salt, digest = (
        base64.b64encode(bytes(count)).rstrip(b"=").decode() for count in (SALT_BYTES, SHA256_BYTES)
    )
    return Argon2Hash(f"{cost}${salt}${digest}")


def parse_stored(text: str) -> StoredPassword:
    """Read what was stored, which may be no password; raises as `parse_hash`."""
    return parse_hash(text) if text else NoPassword()


def parse_hash(text: str) -> Argon2Hash | SaltedHash:
    """Read a hash: argon2id's text form, or RabbitMQ's base64 of salt and SHA-256 or SHA-512.

    Raises:
        PasswordHashError: it is neither, or it asks for more work than we do for anybody.
    """
    if text.startswith("$"):
        return _parse_argon2(text)
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    digest = raw[RABBITMQ_SALT_BYTES:]
    if len(digest) == MD5_BYTES:
        raise PasswordHashError(
            f"is a salted MD5 ({MD5}), from which passwords are found at once: set a new password"
        )
    if len(digest) not in (SHA256_BYTES, SHA512_BYTES):
        raise PasswordHashError(
            "must be an argon2id hash ($argon2id$…) or RabbitMQ's salted SHA-256 or SHA-512 "
            "(base64 of a 4-byte salt and 32 or 64 bytes of hash)"
        )
    return SaltedHash(raw[:RABBITMQ_SALT_BYTES], digest)


def _parse_argon2(text: str) -> Argon2Hash:
    try:
        asked = argon2.extract_parameters(text)
    except (argon2.exceptions.InvalidHash, ValueError):
        raise PasswordHashError("starts like an argon2 hash but is not a whole one") from None
    if asked.type is not argon2.low_level.Type.ID:
        raise PasswordHashError(f"is argon2{asked.type.name.lower()}; only argon2id is accepted")
    for name, value, most in (
        ("m", asked.memory_cost, ARGON2_MEMORY_KIB_MAX),
        ("t", asked.time_cost, ARGON2_PASSES_MAX),
        ("p", asked.parallelism, ARGON2_LANES_MAX),
    ):
        if value > most:
            raise PasswordHashError(f"asks for {name}={value} at each login; at most {most}")
    return Argon2Hash(text)
