"""Reading a table of settings into a frozen dataclass, with messages an administrator can act on.

Responsible for the mechanism: a field declares what values it takes and what its page of the
documentation says, `read` checks a table against the fields. Must not know any particular setting,
which are in `config`, nor where a value comes from, which `sources` does.

Invariant: a value is never silently dropped or replaced. It is taken as declared, or refused by
a sentence with the key, the value and what is allowed; an unknown key is refused with the nearest
known one. A secret value never appears in a message.
"""

from __future__ import annotations

import dataclasses
import difflib
import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

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


class Problem(NamedTuple):
    """One thing that is wrong: the key that it is about ("" for none), and the sentence."""

    key: str
    message: str


class ConfigError(Exception):
    """The configuration cannot be used; the message is for its author, one line for each problem.

    Args:
        message: what is wrong, with the key in front.
        key: the key alone, so that the line can be found where it stands.
    """

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.problems: tuple[Problem, ...] = (Problem(key, message),)

    @classmethod
    def of(cls, problems: Iterable[Problem]) -> Self:
        """Make one error of several problems."""
        found = tuple(problems)
        error = cls("\n".join(each.message for each in found))
        error.problems = found
        return error


@dataclasses.dataclass(frozen=True, slots=True)
class About:
    """What a setting says of itself; `setting` makes it.

    Attributes:
        check: turns the file's value into the field's.
        doc: what it means, for the page, in Markdown.
        unit: of its number; "" for none.
        live: whether a reload changes it in a running broker.
        rabbitmq: RabbitMQ's name for it, for the page, in Markdown; "" for none.
        secret: the value is shown nowhere.
        default_doc: the default, for the page, where the field's own does not say it.
    """

    check: Check[Any]
    doc: str
    unit: str
    live: bool
    rabbitmq: str
    secret: bool
    default_doc: str


def setting(
    check: Check[T],
    default: Any = dataclasses.MISSING,
    doc: str = "",
    *,
    unit: str = "",
    live: bool = False,
    rabbitmq: str = "",
    secret: bool = False,
    default_doc: str = "",
) -> Any:
    """Declare a field: how its value is checked, and what it is when nothing is said.

    Args:
        check: as in `About`. That of a secret must leave the value out of its messages.
        default: the field's value (not the file's); without one the key must be there. Never a
            dict or list, which would be shared.
        doc: as in `About`, as are the others.
        unit: likewise.
        live: likewise.
        rabbitmq: likewise.
        secret: likewise; the value is left out of the repr, too.
        default_doc: likewise.
    """
    about = About(check, doc, unit, live, rabbitmq, secret, default_doc)
    return dataclasses.field(default=default, repr=not secret, metadata={"about": about})


def about(field: dataclasses.Field[Any]) -> About:
    """Return what a field says of itself."""
    found: About = field.metadata["about"]
    return found


def fields_of(into: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    """Return the settings of a section by name; a word of Python's has `_` behind it in code."""
    return {field.name.removesuffix("_"): field for field in dataclasses.fields(into)}


def value_at(values: object, key: str) -> Any:
    """Return the value of a setting, by its key as the file has it."""
    for part in key.split("."):
        values = getattr(values, f"{part}_" if keyword.iskeyword(part) else part)
    return values


def settings_of(into: type[Any], path: str = "") -> Iterator[tuple[str, About]]:
    """Go through all settings, those of sections with the section in front; none of a name's."""
    for name, field in fields_of(into).items():
        check = about(field).check
        if isinstance(check, Section):
            yield from settings_of(check.into, join(path, name))
        else:
            yield join(path, name), about(field)


def read(into: type[T], values: Mapping[str, Any], path: str = "") -> T:
    """Make an `into` from `values`.

    Args:
        into: a frozen dataclass, all of whose fields are `setting`s.
        values: a table as tomllib gives it.
        path: the table's own key, for messages.

    Raises:
        ConfigError: keys are unknown or missing, or values are not allowed; all that are.
    """
    fields = fields_of(into)
    checked: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, value in values.items():
        full = join(path, key)
        if key not in fields:
            problems.append(Problem(full, f"{full}: unknown setting{nearest(key, fields)}"))
            continue
        try:
            checked[key] = about(fields[key]).check(full, value)
        except ConfigError as error:
            problems += error.problems
    for key, field in fields.items():
        if key not in values and field.default is dataclasses.MISSING:
            full = join(path, key)
            problems.append(Problem(full, f"{full}: missing; it has no default"))
    if problems:
        raise ConfigError.of(problems)
    return into(**{fields[key].name: value for key, value in checked.items()})


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
    return ConfigError(f"{path} = {shown}: {allowed}", path)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean "…"?`, or nothing when no known word is near."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f'; did you mean "{near[0]}"?' if near else ""


def join(path: str, key: str) -> str:
    """Append a key to a path as TOML would write it."""
    if not re.fullmatch(r"[A-Za-z0-9_-]+", key):
        key = quoted(key)
    return f"{path}.{key}" if path else key


def quoted(text: str) -> str:
    """Write a text as TOML has it, with escapes for what cannot be printed."""
    return '"' + "".join(_escaped(one) for one in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number < 2**16 else f"\\U{number:08x}"


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


class Choice:
    """Allows one of a few words."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def __call__(self, path: str, value: Any) -> str:
        """Check a value."""
        if value not in self.allowed:
            quoted = ", ".join(f'"{one}"' for one in self.allowed)
            hint = nearest(value, self.allowed) if isinstance(value, str) else ""
            raise refusal(path, value, f"must be one of {quoted}{hint}")
        return str(value)


def name(path: str, value: Any) -> str:
    """Allow what AMQP can carry as a name: a text of 1 to 255 bytes."""
    if not isinstance(value, str) or not 1 <= len(value.encode()) <= NAME_BYTES_MAX:
        raise refusal(path, value, f"must be a text of 1 to {NAME_BYTES_MAX} bytes")
    return value


def file(path: str, value: Any) -> Path:
    """Allow an absolute path, or one that begins with "~/"."""
    allowed = 'must be an absolute path, or one that begins with "~/"'
    if not isinstance(value, str) or not value or "\0" in value:
        raise refusal(path, value, allowed)
    found = Path.home() / value[2:] if value.startswith("~/") else Path(value)
    if not found.is_absolute():
        raise refusal(path, value, allowed)
    return found


def flag(path: str, value: Any) -> bool:
    """Allow true and false."""
    if not isinstance(value, bool):
        raise refusal(path, value, "must be true or false")
    return value


class Many(Generic[T]):
    """Allows a list of what `each` allows."""

    def __init__(self, each: Check[T]) -> None:
        self.each = each

    def __call__(self, path: str, value: Any) -> tuple[T, ...]:
        """Check a list."""
        if not isinstance(value, list):
            raise refusal(path, value, "must be a list, in square brackets")
        return tuple(_all(self.each, ((f"{path}[{at}]", one) for at, one in enumerate(value))))


class Section(Generic[T]):
    """Allows a table that `into` describes."""

    def __init__(self, into: type[T]) -> None:
        self.into = into

    def __call__(self, path: str, value: Any) -> T:
        """Check a table."""
        return read(self.into, _table(path, value), path)


class Named(Generic[T]):
    """Allows a table whose keys are names and whose values are what `each` allows."""

    def __init__(self, each: Check[T]) -> None:
        self.each = each

    def __call__(self, path: str, value: Any) -> Mapping[str, T]:
        """Check a table."""
        values = _table(path, value)
        names = [name(path, key) for key in values]
        checked = _all(self.each, ((join(path, key), one) for key, one in values.items()))
        return dict(zip(names, checked, strict=True))


def many(check: Check[T]) -> Check[tuple[T, ...]]:
    """Allow a list of what `check` allows."""
    return Many(check)


def section(into: type[T]) -> Check[T]:
    """Allow a table that `into` describes."""
    return Section(into)


def named(check: Check[T]) -> Check[Mapping[str, T]]:
    """Allow a table whose keys are names and whose values are what `check` allows."""
    return Named(check)


def _all(check: Check[T], values: Iterable[tuple[str, Any]]) -> list[T]:
    """Check all of several values, each with its key, before any is refused."""
    checked: list[T] = []
    problems: list[Problem] = []
    for path, value in values:
        try:
            checked.append(check(path, value))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError.of(problems)
    return checked


def _table(path: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        # Not quoted: what should have been a table may hold a password.
        raise ConfigError(f"{path}: must be a table of settings", path)
    return value


# ---------------------------------------------------------------- showing

HIDDEN: Final = "***"


def to_toml(value: Any) -> str:
    """Write a value of a setting as TOML has it, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{join('', key)} = {to_toml(one)}" for key, one in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(to_toml(one) for one in value) + "]"
    return quoted(str(value))


def hide(check: Check[Any], value: Any) -> Any:
    """Return what may be shown of a value: all but its secrets."""
    if isinstance(check, Section) and isinstance(value, Mapping):
        fields = fields_of(check.into)
        return {key: _hidden(fields.get(key), one) for key, one in value.items()}
    if isinstance(check, Named) and isinstance(value, Mapping):
        return {key: hide(check.each, one) for key, one in value.items()}
    if isinstance(check, Many) and isinstance(value, Sequence) and not isinstance(value, str):
        return [hide(check.each, one) for one in value]
    return value


def _hidden(field: dataclasses.Field[Any] | None, value: Any) -> Any:
    if field is None:
        return value
    return HIDDEN if about(field).secret else hide(about(field).check, value)


def leaves(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Go through the values of nested tables, each with its key; a table without any is one."""
    for key, value in values.items():
        full = join(path, key)
        if isinstance(value, Mapping) and value:
            yield from leaves(value, full)
        else:
            yield full, value


def with_defaults(into: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with the defaults of those that nobody said, in the order of the table."""
    found: dict[str, Any] = {}
    for key, field in fields_of(into).items():
        check = about(field).check
        if isinstance(check, Section):
            found[key] = with_defaults(check.into, values.get(key, {}))
        elif key in values:
            found[key] = values[key]
        elif isinstance(check, Named):
            found[key] = {}
        elif field.default is not None:
            found[key] = list(field.default) if isinstance(field.default, tuple) else field.default
    return found
