"""Definitions that are imported at a start, from files: RabbitMQ's `load_definitions`.

Responsible for finding and reading the files, and for leaving them out if the last import was of
the same ones. Must not know what a definition looks like (`broker.definitions`). Invariants: all of
it is on disk before clients may connect; a file that cannot be imported keeps the broker from
starting, and nothing has changed then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leporid.broker.access.passwords import (
    RABBITMQ_SALT_BYTES,
    SALT_BYTES,
    hash_password,
    salted_sha256,
)
from leporid.broker.definitions.document import BYTES_MAX, Document, DocumentError, reading
from leporid.broker.definitions.importing import importing
from leporid.broker.definitions.passwords import in_clear, put_hash
from leporid.broker.definitions.plan import DefinitionsRefused
from leporid.broker.registry import finished
from leporid.broker.stored import DIGEST_PREFIX, StoredSeeding
from leporid.durable import Drop, Put
from leporid.server.settings import ConfigError

if TYPE_CHECKING:
    from leporid.broker.broker import Broker

KEY: Final = "definitions.import"
SUFFIX: Final = ".json"
UNHASHED: Final = salted_sha256("", bytes(RABBITMQ_SALT_BYTES))
"""In the place of passwords that are not kept: a hash of each would take long."""


def import_files(
    broker: Broker,
    place: Path,
    random_bytes: Callable[[int], bytes],
    *,
    skip_if_unchanged: bool = False,
) -> list[str]:
    """Import a file, or those of a directory; returns the names of the users that they define.

    Args:
        broker: into which; nobody is connected to it.
        place: of the file or directory.
        random_bytes: where salts come from.
        skip_if_unchanged: whether to leave out what was imported the last time.

    Raises:
        ConfigError: one cannot be read, or cannot be imported.
    """
    files = _files(place)
    contents = [_content(path) for path in files]
    digest = _digest(contents)
    documents = [_document(*one) for one in zip(files, contents, strict=True)]
    users = [str(each.get("name")) for one in documents for each in one.items.get("users", [])]
    if skip_if_unchanged and broker.imported_digest == digest:
        return users
    for path, document in zip(files, documents, strict=True):
        try:
            for item, password in in_clear(document):
                _hash(broker, item, password, random_bytes)
            finished(importing(broker, document, str(path)))
        except DefinitionsRefused as refused:
            raise _error(path, str(refused)) from None
    if digest != broker.imported_digest:
        if broker.imported_digest:
            broker.record(Drop(StoredSeeding, (DIGEST_PREFIX + broker.imported_digest,)))
        broker.record(Put(StoredSeeding(DIGEST_PREFIX + digest)))
        broker.imported_digest = digest
    return users


def check_files(broker: Broker, place: Path) -> int:
    """Import a file, or those of a directory, where nothing lasts; returns how many there are.

    Args:
        broker: which is for this alone, and has the virtual hosts of the configuration.
        place: as for `import_files`.

    Raises:
        ConfigError: one cannot be read, or could not be imported.
    """
    found = _files(place)
    for path in found:
        document = _document(path, _content(path))
        try:
            for item, _ in in_clear(document):
                put_hash(item, UNHASHED)
            finished(importing(broker, document, str(path)))
        except DefinitionsRefused as refused:
            raise _error(path, str(refused)) from None
    return len(found)


def _files(place: Path) -> list[Path]:
    try:
        if not place.is_dir():
            return [place]
        return sorted(path for path in place.iterdir() if path.suffix == SUFFIX)
    except OSError as error:
        raise _error(place, f"cannot be read: {error.strerror or error}") from None


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > BYTES_MAX:
            raise _error(path, f"has more than {BYTES_MAX} bytes (definitions_bytes)")
        return path.read_bytes()
    except OSError as error:
        raise _error(path, f"cannot be read: {error.strerror or error}") from None


def _digest(contents: Sequence[bytes]) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(len(content).to_bytes(8) + content)
    return digest.hexdigest()


def _document(path: Path, content: bytes) -> Document:
    try:
        return finished(reading(content))
    except DocumentError as error:
        raise _error(path, str(error)) from None


def _hash(
    broker: Broker, item: dict[str, object], password: str, random_bytes: Callable[[int], bytes]
) -> None:
    """Hash a password, unless the user has it already."""
    user = broker.access.user(str(item.get("name")))
    if user is not None and user.password.matches(password.encode()):
        put_hash(item, user.password)
    else:
        put_hash(item, hash_password(password, random_bytes(SALT_BYTES)))


def _error(path: Path, reason: str) -> ConfigError:
    return ConfigError(f"{KEY}: {path}: {reason}", KEY)
