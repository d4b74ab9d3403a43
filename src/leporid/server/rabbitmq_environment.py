"""Variables of RabbitMQ's image: `RABBITMQ_DEFAULT_USER`, `_PASS` and `_VHOST`.

Responsible for what they mean as settings, so that a compose file needs another name of the image
and nothing else, and for naming those that mean nothing here. Must not know what a user is beyond
its settings. Invariant: no value of a variable is in a message.

As in RabbitMQ, an empty variable counts as none, and each may be given as `…_FILE` with the path of
a file. A default user is what the configuration would say as `[users.NAME]`: without other users
there is no `guest`. Its rights are on the default virtual host only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from leporid.broker.access.access import DEFAULT_USER
from leporid.server.settings import ConfigError
from leporid.server.sources import SECRET_FILE, Values, secret_in

PREFIX: Final = "RABBITMQ_"
USER: Final = "RABBITMQ_DEFAULT_USER"
PASSWORD: Final = "RABBITMQ_DEFAULT_PASS"  # noqa: S105 - a name
VHOST: Final = "RABBITMQ_DEFAULT_VHOST"
KNOWN: Final = (USER, PASSWORD, VHOST)

ROOT_VHOST: Final = "/"
EVERYTHING: Final = {"configure": ".*", "write": ".*", "read": ".*"}


def add_default_user(values: Values, environment: Mapping[str, str]) -> None:
    """Add the default user, in place of one of that name.

    Raises:
        ConfigError: a variable's file cannot be read.
    """
    user, password, vhost = (value_of(name, environment) for name in KNOWN)
    if user is None and password is None and (vhost is None or "users" in values.tables):
        return
    name = user or DEFAULT_USER
    settings: dict[str, Any] = {
        "password": password or DEFAULT_USER,
        "tags": ["administrator"],
        "permissions": {vhost or ROOT_VHOST: EVERYTHING},
        # Everybody knows the password that nobody chose.
        "loopback_only": password is None,
    }
    users = values.tables.get("users", {})
    if not isinstance(users, dict):
        return  # which will be refused
    users.pop(name, None)
    values.set(["users", name], settings, USER if user else PASSWORD if password else VHOST)


def add_default_vhost(values: Values, environment: Mapping[str, str]) -> None:
    """Add the default virtual host to those that there are.

    Raises:
        ConfigError: its file cannot be read.
    """
    vhost = value_of(VHOST, environment)
    there = values.tables.get("vhosts", [])
    if vhost is not None and isinstance(there, list) and vhost not in there:
        values.set(["vhosts"], [*there, vhost], VHOST)


def ignored(environment: Mapping[str, str], others: Collection[str] = ()) -> list[str]:
    """Return the names of RabbitMQ's variables that are set and mean nothing here.

    Args:
        environment: the process's.
        others: names that mean something where this configuration is.
    """
    known = {*KNOWN, *(name + SECRET_FILE for name in KNOWN), *others}
    return sorted(name for name in environment if name.startswith(PREFIX) and name not in known)


def value_of(name: str, environment: Mapping[str, str]) -> str | None:
    """Return the value of a variable that may be in a file; None if there is none.

    Raises:
        ConfigError: it is in both, or the file cannot be read.
    """
    text, file = environment.get(name), environment.get(name + SECRET_FILE)
    if text and file:
        raise ConfigError(f"{name} and {name}{SECRET_FILE} say the same setting")
    return secret_in(name + SECRET_FILE, file) or None if file else text or None
