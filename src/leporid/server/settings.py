"""Reading a table of settings into a frozen dataclass, with messages an administrator can act on.

Responsible for the mechanism: a field declares what values it takes, `read` checks a table
against the fields. Must not know any particular setting; those are in `config`.

Invariant: a value is never silently dropped or replaced. It is taken as declared, or refused by
a sentence with the key, the value and what is allowed; an unknown key is refused with the nearest
known one. A secret value never appears in a message.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

# Turns (path of the key, value as TOML gives it) into the value to keep, or raises ConfigError.
Check = Callable[[str, Any], T]

# Values are quoted in messages up to this length; a configuration may hold anything.
QUOTED_CHARACTERS_MAX = 80
# AMQP's short strings.
NAME_BYTES_MAX = 255

SIZE_UNITS = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}


class ConfigError(Exception):
    """The configuration cannot be used; the message is for its author."""


def setting(check: Check[T], default: Any = dataclasses.MISSING, *, secret: bool = False) -> Any:
    """Declare a field: how its value is checked, and what it is when the file is silent.

    Args:
        check: what turns the file's value into the field's.
        default: the field's value (not the file's); without one the key must be there. Never a
            dict or list, which would be shared.
        secret: the value is left out of the repr. The check must leave it out of its messages.
    """
    return dataclasses.field(default=default, repr=not secret, metadata={"check": check})


def read(into: type[T], values: Mapping[str, Any], path: str = "") -> T:
    """Make an `into` from `values`.

    Args:
        into: a frozen dataclass, all of whose fields are `setting`s.
        values: a table as tomllib gives it.
        path: the table's own key, for messages.

    Raises:
        ConfigError: a key is unknown or missing, or a value is not allowed.
    """
    fields = {field.name: field for field in dataclasses.fields(into)}  # type: ignore[arg-type]
    checked: dict[str, Any] = {}
    for key, value in values.items():
        if key not in fields:
            raise ConfigError(f"{join(path, key)}: unknown setting{nearest(key, fields)}")
        checked[key] = fields[key].metadata["check"](join(path, key), value)
    for key, field in fields.items():
        if key not in checked and field.default is dataclasses.MISSING:
            raise ConfigError(f"{join(path, key)}: missing; it has no default")
    return into(**checked)


def refusal(path: str, value: Any, allowed: str) -> ConfigError:
    """Make the error for one value: the key, the value, what is allowed."""
    if isinstance(value, str):
        shown = '"' + value.encode("unicode_escape").decode("ascii") + '"'
    elif isinstance(value, bool):
        shown = str(value).lower()
    else:
        shown = str(value)
    if len(shown) > QUOTED_CHARACTERS_MAX:
        shown = shown[:QUOTED_CHARACTERS_MAX] + "…"
    return ConfigError(f"{path} = {shown}: {allowed}")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean "…"?`, or nothing when no known word is near."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f'; did you mean "{near[0]}"?' if near else ""


def join(path: str, key: str) -> str:
    """Append a key to a path as TOML would write it."""
    if not re.fullmatch(r"[A-Za-z0-9_-]+", key):
        key = '"' + key.encode("unicode_escape").decode("ascii") + '"'
    return f"{path}.{key}" if path else key


# ---------------------------------------------------------------- checks


def whole(least: int, most: int) -> Check[int]:
    """Allow an integer from `least` to `most`."""

    def check(path: str, value: Any) -> int:
        # A bool is an int to Python, not to the author of a configuration.
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise refusal(path, value, f"must be a whole number from {least} to {most}")
        return value

    return check


def size(least: int, most: int) -> Check[int]:
    """Allow a number of bytes, or a text such as "64 MiB" (KB, MB, … are powers of 1000)."""

    def check(path: str, value: Any) -> int:
        count = parse_size(value)
        if count is None or not least <= count <= most:
            allowed = f'must be a number of bytes from {least} to {most}, or a text like "64 MiB"'
            raise refusal(path, value, allowed)
        return count

    return check


def parse_size(value: Any) -> int | None:
    """Return the number of bytes that `value` says, None if it says none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    match = re.fullmatch(r"([0-9]{1,15}) ?([A-Za-z]{1,3})", value, re.ASCII)
    unit = SIZE_UNITS.get(match[2].upper()) if match else None
    return int(match[1]) * unit if match and unit else None


def choice(*allowed: str) -> Check[str]:
    """Allow one of a few words."""

    def check(path: str, value: Any) -> str:
        if value not in allowed:
            quoted = ", ".join(f'"{one}"' for one in allowed)
            hint = nearest(value, allowed) if isinstance(value, str) else ""
            raise refusal(path, value, f"must be one of {quoted}{hint}")
        return str(value)

    return check


def name(path: str, value: Any) -> str:
    """Allow what AMQP can carry as a name: a text of 1 to 255 bytes."""
    if not isinstance(value, str) or not 1 <= len(value.encode()) <= NAME_BYTES_MAX:
        raise refusal(path, value, f"must be a text of 1 to {NAME_BYTES_MAX} bytes")
    return value


def flag(path: str, value: Any) -> bool:
    """Allow true and false."""
    if not isinstance(value, bool):
        raise refusal(path, value, "must be true or false")
    return value


def many(check: Check[T]) -> Check[tuple[T, ...]]:
    """Allow a list of what `check` allows."""

    def check_all(path: str, value: Any) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise refusal(path, value, "must be a list, in square brackets")
        return tuple(check(f"{path}[{at}]", one) for at, one in enumerate(value))

    return check_all


def section(into: type[T]) -> Check[T]:
    """Allow a table that `into` describes."""
    return lambda path, value: read(into, _table(path, value), path)


def named(check: Check[T]) -> Check[Mapping[str, T]]:
    """Allow a table whose keys are names and whose values are what `check` allows."""

    def check_all(path: str, value: Any) -> Mapping[str, T]:
        values = _table(path, value)
        return {name(path, key): check(join(path, key), one) for key, one in values.items()}

    return check_all


def _table(path: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        # Not quoted: what should have been a table may hold a password.
        raise ConfigError(f"{path}: must be a table of settings")
    return value
