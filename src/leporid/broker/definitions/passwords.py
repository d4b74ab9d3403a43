"""Passwords that stand in a document in clear, as people write them by hand.

Responsible for finding them, and for putting hashes in their places. Must not hash: that takes tens
of milliseconds each, and whoever imports knows where. Invariant: afterwards none is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from leporid.broker.definitions.members import WrongDefinition, text_in
from leporid.broker.definitions.plan import DefinitionsRefused

if TYPE_CHECKING:
    from leporid.broker.access.passwords import StoredPassword
    from leporid.broker.definitions.document import Document

PASSWORD_BYTES_MAX: Final = 4096
"""A login over AMQP has 8 KiB for all that it says."""
CLEAR_MAX: Final = 1000
"""Passwords in clear in one document: 25 s of hashing on a thread. Hashes have no such limit."""


def in_clear(document: Document) -> list[tuple[dict[str, Any], str]]:
    """Return the users of a document whose passwords stand there in clear, and these.

    Raises:
        DefinitionsRefused: one is no text, or there are too many.
    """
    found = []
    for at, item in enumerate(document.items.get("users", [])):
        if "password" not in item:
            continue
        try:
            password = text_in(item, "password", bytes_max=PASSWORD_BYTES_MAX)
        except WrongDefinition as error:
            raise DefinitionsRefused(f"users[{at}]: {error}") from None
        if "password_hash" in item:
            raise DefinitionsRefused(f"users[{at}]: has both password and password_hash")
        found.append((item, password))
    if len(found) > CLEAR_MAX:
        reason = f"{len(found)} users have passwords in clear; at most {CLEAR_MAX} may"
        raise DefinitionsRefused(f"{reason}: give password_hash instead")
    return found


def put_hash(item: dict[str, Any], password: StoredPassword) -> None:
    """Put how a password is kept in its place."""
    del item["password"]
    item.pop("hashing_algorithm", None)
    item["password_hash"] = password.text
