"""What several settings say together: what cannot be, and what is hardly meant.

Responsible for saying both before a start: that two ports are the same, of which the system tells
only when the second one listens, without a name; and what looks like a mistake, for which no start
is refused. Must not know where settings come from, nor open anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from leporid.broker.access.tags import TAGS
from leporid.server.settings import ConfigError, join, nearest

if TYPE_CHECKING:
    from leporid.server.config import Config

PLAIN: Final = ("amqp_port", "http_port", "metrics_port")
ENCRYPTED: Final = ("amqps_port", "https_port", "metrics_https_port")
"""Opened if there is a certificate."""

CHARACTERS_MIN: Final = 3
"""Shorter beginnings of a tag are words of their own."""


def check_ports(config: Config) -> None:
    """Check that no two ports are the same; 0, any free one, and -1, none, may be.

    Raises:
        ConfigError: two are, or there is none for clients.
    """
    if config.amqp_port < 0 and config.tls.certificate is None:
        raise ConfigError(
            "amqp_port = -1: without a certificate there is no other port for clients ([tls])",
            "amqp_port",
        )
    first: dict[int, str] = {}
    for key in (*PLAIN, *(ENCRYPTED if config.tls.certificate is not None else ())):
        port = getattr(config, key)
        if port > 0 and first.setdefault(port, key) != key:
            raise ConfigError(f"{key} = {port}: {first[port]} is the same port", key)


def doubts(config: Config) -> Iterator[str]:
    """Go through what is hardly meant, a line each."""
    for name, user in (config.users or {}).items():
        for said in doubts_of_tags(user.tags):
            yield f"{join('users', name)}.tags: {said}"


def doubts_of_tags(tags: Iterable[str]) -> Iterator[str]:
    """Go through tags that look like a misspelt one; RabbitMQ allows any, too."""
    for tag in tags:
        # Of a word that was cut short, such as admin, too much is missing to be near.
        longer = [known for known in TAGS if len(tag) >= CHARACTERS_MIN and known.startswith(tag)]
        if tag not in TAGS and (meant := nearest(longer[0] if longer else tag, TAGS)):
            yield f"the tag '{tag}' gives no right{meant}"
