"""Where the values of settings come from: files, the environment, the command line.

Responsible for reading them, for their order, and for remembering where each value came from, down
to the line of a file. Must not know what a setting means, nor any one of them by name. Invariants:
tables merge by key, everything else is replaced; what is refused is refused with its origin.

The order, each winning over those before it: the built-in default, the file, the files of `conf.d`
in the order of their names, the environment, the command line.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from leporid.server.settings import (
    Check,
    ConfigError,
    Named,
    Problem,
    Section,
    about,
    fields_of,
    join,
)

PREFIX: Final = "LEPORID_"
CONFIG_VARIABLE: Final = "LEPORID_CONFIG"
"""Where the configuration is, unless the command line says so."""
FILE_NAME: Final = "leporid.toml"
FOLDER_NAME: Final = "conf.d"
SECRET_FILE: Final = "_FILE"  # noqa: S105 - a name
"""What the name of a variable ends in that names a file with the value of a secret."""
SECRET_BYTES_MAX: Final = 64 * 1024

COMMAND_LINE: Final = "command line"
DEFAULT: Final = "default"

OTHER_VARIABLES: Final = frozenset(
    {
        CONFIG_VARIABLE,
        # Of clients: the command line, `leporid pipeline`, `leporid delays`, the examples.
        "LEPORID_AMQP_URL",
        "LEPORID_CONTEXT",
        "LEPORID_PASSWORD",
        "LEPORID_REGISTRY_PASSWORD",
        "LEPORID_REGISTRY_USER",
        "LEPORID_STREAM",
        "LEPORID_URL",
        "LEPORID_USER",
        # Of the build and of the tests.
        "LEPORID_SANITIZE",
        "LEPORID_SKIP_ENGINE",
        "LEPORID_TEST_AMQP_URL",
        "LEPORID_TEST_CHROMIUM",
        "LEPORID_TEST_URL",
        "LEPORID_TEST_API_URL",
        "LEPORID_TEST_COMMAND",
        "LEPORID_TEST_SEED",
        "LEPORID_TRACE",
    }
)
"""Variables with our prefix that are no settings."""

# Kubernetes gives every container variables for each service of its namespace; for one that is
# called `leporid` they have our prefix.
_OF_SERVICES: Final = re.compile(
    r"LEPORID_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)"
    r"(?:_(?:PROTO|PORT|ADDR))?)?)"
)

# How variables end that hold the options of a command elsewhere.
_OF_OPTIONS: Final = frozenset({"ARGS", "FLAGS", "OPTIONS", "OPTS"})

# A statement of TOML that takes several lines ends in a line with one of these.
_ENDS: Final = ("]", "}", '"""', "'''")


class ConfigUnreadable(ConfigError):
    """A file is not there, may not be read, or is no text."""


@dataclass(slots=True)
class Values:
    """Values of settings as TOML has them, and where each came from.

    Attributes:
        tables: nested tables.
        origins: by key, as messages write it. A key that is not there has the origin of the
            longest one that it begins with.
        files: that were read, those that win last.
        remarks: what was said and means nothing here, one line each, without secrets.
    """

    tables: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def origin(self, key: str) -> str:
        """Return where a value came from; "" if nobody said it, or something in it."""
        while key:
            if key in self.origins:
                return self.origins[key]
            key = _parent(key)
        return ""

    def whence(self, key: str) -> str:
        """Return where the value of a setting comes from, which may be its default."""
        inside: Any = self.tables
        for part in key.split("."):
            if not isinstance(inside, dict) or part not in inside:
                return DEFAULT
            inside = inside[part]
        # A header such as [users.ann] says where something in `users` stands, and not that itself.
        within = (at for one, at in self.origins.items() if _is_in(one, key))
        return self.origins.get(key) or next(within, "") or self.origin(key) or DEFAULT

    def add(self, other: Values) -> None:
        """Merge what wins over these."""
        self.files += other.files
        self.remarks += other.remarks
        self._merge(self.tables, other.tables, other, "")

    def set(self, keys: list[str], value: Any, origin: str) -> None:
        """Give one value, which wins over what is there."""
        path, table, origins = "", value, {}
        for key in keys:
            path = join(path, key)
            origins[path] = origin
        for key in reversed(keys):
            table = {key: table}
        self.add(Values(table, origins))

    def drop(self, path: str) -> None:
        """Forget where a value came from that is replaced, with all in it."""
        gone = [key for key in self.origins if key == path or _is_in(key, path)]
        for key in gone:
            del self.origins[key]

    def _merge(
        self, into: dict[str, Any], tables: Mapping[str, Any], other: Values, path: str
    ) -> None:
        for key, value in tables.items():
            full = join(path, key)
            there = into.get(key)
            if isinstance(value, dict) and isinstance(there, dict):
                if not self.origin(full):
                    self.origins[full] = other.origin(full)
                self._merge(there, value, other, full)
                continue
            self.drop(full)
            self.origins[full] = other.origin(full)
            self.origins |= {one: at for one, at in other.origins.items() if _is_in(one, full)}
            # What is merged into it later must not change whose it was.
            into[key] = _copied(value)

    def located(self, error: ConfigError) -> ConfigError:
        """Return an error that says of each problem where the value stands."""
        return ConfigError.of(
            Problem(each.key, _at(self.origin(each.key), each.message)) for each in error.problems
        )


def from_files(path: Path | None) -> Values:
    """Read and merge the files of a configuration.

    Args:
        path: as for `files`; None: there are none.

    Raises:
        ConfigError: one cannot be read, or is not TOML.
    """
    values = Values()
    for file in files(path) if path is not None else ():
        values.add(read_file(file))
        values.files.append(file.absolute())
    return values


def files(path: Path) -> list[Path]:
    """Return the files of a configuration, those that win last.

    Args:
        path: a file, beside which there may be a `conf.d`; or the directory of both, in which
            there need not be either.
    """
    main, folder = _main_and_folder(path)
    found = [] if path.is_dir() and not main.exists() else [main]
    if folder.is_dir():
        parts = (each for each in folder.iterdir() if each.suffix == ".toml")
        # Editors and mounts leave hidden files.
        found += sorted(each for each in parts if not each.name.startswith("."))
    return found


def _main_and_folder(path: Path) -> tuple[Path, Path]:
    main = path / FILE_NAME if path.is_dir() else path
    return main, main.parent / FOLDER_NAME


def notes(path: Path) -> Iterator[str]:
    """Go through what has no effect among the files of a configuration: no error, but no help.

    Args:
        path: as for `files`.
    """
    main, folder = _main_and_folder(path)
    found = files(path)
    if not found:
        named = f"; give {path.parent}, which it is in" if path.name == FOLDER_NAME else ""
        yield f"{path}: there is nothing in it: no {FILE_NAME}, no {FOLDER_NAME}{named}"
    elif folder.is_dir() and not set(found) - {main}:
        yield f"{folder}: there is nothing in it: no file *.toml"


def text_of(file: Path) -> str:
    """Return the text of a file.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigUnreadable(f"{file}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigUnreadable(f"{file}: is not UTF-8 text") from None


def read_file(file: Path) -> Values:
    """Read one file.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    text = text_of(file)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"\(at line (\d+), ", str(error))
        at = line[1] if line else max(1, len(text.splitlines()))  # else it says: at the end
        raise ConfigError(f"{file}:{at}: is not TOML: {error}") from None
    return Values(tables, {key: f"{file}:{line}" for key, line in lines_of(text).items()})


def lines_of(text: str) -> dict[str, int]:
    """Return the line of each key of a TOML text.

    tomllib does not say where a key stood. But each statement of TOML is a document by itself, and
    a part of one is not: so lines are put together until tomllib takes them.

    Args:
        text: what tomllib takes as a whole.
    """
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    header = ""
    for line, statement in _statements(text):
        tables = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            header = _header(tables, counts)
            found.setdefault(header, line)
        else:
            _note(found, tables, header, line)
    return found


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Go through the statements of a TOML text, each with the number of its first line."""
    first, taken = 0, ""
    # Not splitlines: TOML has no other ends of lines.
    for number, line in enumerate(text.split("\n"), 1):
        if not taken:
            first = number
        elif not any(end in line for end in _ENDS):
            taken += line + "\n"
            continue
        taken += line + "\n"
        try:
            tomllib.loads(taken)
        except tomllib.TOMLDecodeError:
            continue
        yield first, taken
        taken = ""


def _header(tables: dict[str, Any], counts: dict[str, int]) -> str:
    """Return the key of the table that a header begins; the last of several of one name."""
    path, inside = "", tables
    while inside:
        ((key, value),) = inside.items()
        path = join(path, key)
        if isinstance(value, list):
            counts[path] = counts.get(path, 0) + 1
            inside = value[0]
        else:
            inside = value
        if path in counts:
            path = f"{path}[{counts[path] - 1}]"
    return path


def _note(found: dict[str, int], value: Any, path: str, line: int) -> None:
    """Note a line for a key and for all in its value."""
    if path:
        found.setdefault(path, line)
    if isinstance(value, dict):
        for key, one in value.items():
            _note(found, one, join(path, key), line)
    elif isinstance(value, list):
        for at, one in enumerate(value):
            _note(found, one, f"{path}[{at}]", line)


# ---------------------------------------------------------------- the environment


def from_environment(into: type[Any], environment: Mapping[str, str]) -> Values:
    """Return what variables `LEPORID_…` say; `__` stands between a section and its settings.

    Raises:
        ConfigError: one is no setting, or its value is not allowed, or its file cannot be read.
    """
    values = Values()
    problems: list[Problem] = []
    settings = set(variables_of(into))
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or (variable not in settings and is_other(variable)):
            continue
        try:
            keys, check, in_file = _find(into, variable)
            text = environment[variable]
            value = secret_in(variable, text) if in_file else value_of(check, keys, text)
            path = ""
            for key in keys:
                path = join(path, key)
            if values.origins.get(path):
                raise ConfigError(f"{values.origins[path]} and {variable} say the same setting")
            values.set(keys, value, variable)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError.of(problems)
    return values


def default_data_dir(environment: Mapping[str, str]) -> Path:
    """Return `leporid` in the user's state directory (XDG base directories, 0.8)."""
    state = environment.get("XDG_STATE_HOME", "")
    # The specification wants relative paths ignored.
    if state.startswith("/"):
        return Path(state) / "leporid"
    return Path.home() / ".local" / "state" / "leporid"


def is_other(variable: str) -> bool:
    """Say whether a variable with our prefix, of which no setting has that name, is known."""
    return variable in OTHER_VARIABLES or _OF_SERVICES.fullmatch(variable) is not None


def secret_in(variable: str, path: str) -> str:
    """Return the text in the file that a variable names, without the end of its last line.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(SECRET_BYTES_MAX + 1)
        if len(text) > SECRET_BYTES_MAX:
            raise ConfigError(f"{variable}: {path} has more than {SECRET_BYTES_MAX} bytes")
        return text.decode().removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise ConfigError(f"{variable}: {path} cannot be read: {reason}") from None


def variables_of(into: type[Any], prefix: str = PREFIX) -> Iterator[str]:
    """Go through the variables of all settings, but for those of tables whose keys are names."""
    for name, field_ in fields_of(into).items():
        variable, check = prefix + name.upper(), about(field_).check
        yield variable
        if about(field_).secret:
            yield variable + SECRET_FILE
        if isinstance(check, Section):
            yield from variables_of(check.into, variable + "__")


def _find(into: type[Any], variable: str) -> tuple[list[str], Check[Any], bool]:
    """Return the keys that a variable means, their check, and whether it names a file."""
    keys: list[str] = []
    check: Check[Any] = Section(into)
    known = list(variables_of(into))
    prefix = PREFIX
    for part in variable.removeprefix(PREFIX).split("__"):
        if isinstance(check, Named) and part:
            # As it is written: names of users and virtual hosts have upper and lower case.
            keys.append(part)
            check = check.each
        elif isinstance(check, Section):
            fields = fields_of(check.into)
            known += variables_of(check.into, prefix)
            key = part.lower()
            secret = key.removesuffix(SECRET_FILE.lower())
            if key not in fields and secret in fields and about(fields[secret]).secret:
                return [*keys, secret], about(fields[secret]).check, True
            if key not in fields:
                break
            keys.append(key)
            check = about(fields[key]).check
        else:
            break
        prefix += part + "__"
    else:
        return keys, check, False
    raise ConfigError(f"{variable}: no setting has this variable{_instead(variable, known)}")


def _instead(variable: str, known: list[str]) -> str:
    """Say which variable was meant, or how variables are called."""
    # Without what all have in common: with it, any two short names are near.
    names = [each.removeprefix(PREFIX) for each in (*known, CONFIG_VARIABLE)]
    given = variable.removeprefix(PREFIX)
    near = difflib.get_close_matches(given, names, n=1)
    if near and given.rpartition("_")[2] not in _OF_OPTIONS:
        return f'; did you mean "{PREFIX}{near[0]}"?'
    return f"; `leporid serve --help` lists the settings: --amqp-port is {PREFIX}AMQP_PORT"


def value_of(check: Check[Any], keys: list[str], text: str) -> Any:
    """Return the text itself if that is allowed, else what it is in TOML."""
    path = ".".join(keys)
    try:
        check(path, text)
    except ConfigError:
        try:
            found = tomllib.loads(f"value = {text}")
        except tomllib.TOMLDecodeError:
            return text
        if found.keys() == {"value"}:
            return found["value"]
    return text


def _at(origin: str, message: str) -> str:
    return message if origin in ("", COMMAND_LINE, DEFAULT) else f"{origin}: {message}"


def _is_in(key: str, path: str) -> bool:
    return key.startswith((f"{path}.", f"{path}["))


def _parent(key: str) -> str:
    """Return the key of what a value is in; "" at the top."""
    found = re.fullmatch(r'(.*?)(?:\[\d+\]|\.?(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"))', key)
    return found[1] if found else ""


def _copied(value: Any) -> Any:
    return {key: _copied(one) for key, one in value.items()} if isinstance(value, dict) else value
