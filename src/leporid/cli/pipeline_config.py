"""A file of pipelines, `pipelines.toml`: what is run, and how, as on the command line.

Responsible for reading the file and for turning each of its tables into the arguments of
`leporid pipeline run NAME`, whose parser checks them. Must not know what the arguments mean.

Invariant: what is in the file is used or refused, with the table's name; nothing is started for a
file of which a part is refused.
"""

from __future__ import annotations

import argparse
import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

TABLES = ("spark", "run", "defaults", "pipelines")
SPARK = {"master": str, "remote": str, "conf": dict}
RUN = {"directory": str}
# Of the whole process; [spark] says them once.
OF_SPARK = {"master", "remote", "conf"}
# A run's name is that of files.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class ConfigError(ValueError):
    """The file cannot be used."""


@dataclass(frozen=True)
class PipelinesFile:
    """What a file says.

    Attributes:
        runs: the arguments of each run, by its name.
        master: of [spark], or None.
        remote: likewise.
        conf: Spark's settings.
    """

    runs: dict[str, argparse.Namespace]
    master: str | None
    remote: str | None
    conf: dict[str, str]


class _Strict(argparse.ArgumentParser):
    """Raises what is wrong instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


Fill = Callable[[argparse.ArgumentParser], None]


def read(path: Path, kinds: Mapping[str, Fill], only: list[str] | None = None) -> PipelinesFile:
    """Read a file.

    Args:
        path: the file.
        kinds: adds the arguments of a pipeline to a parser, by the pipeline's name.
        only: the runs that are wanted; None for all.

    Raises:
        ConfigError: it cannot be read, or something in it cannot be used.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    _known(content, TABLES, str(path))
    spark = _table(content, "spark", SPARK, path)
    run = _table(content, "run", RUN, path)
    directory = Path(run["directory"]) if "directory" in run else None
    runs: dict[str, argparse.Namespace] = {}
    tables = _mapping(content.get("pipelines", {}), f"{path}: [pipelines]")
    for name in only or tables:
        where = f"{path}: [pipelines.{name}]"
        if name not in tables:
            raise ConfigError(f"{where}: there is no such table{nearest_of(name, list(tables))}")
        if not NAME.fullmatch(name):
            raise ConfigError(f"{where}: a name has letters, digits, dots, - and _ only")
        given = _mapping(content.get("defaults", {}), f"{path}: [defaults]")
        runs[name] = _options(_mapping(tables[name], where), given, kinds, where)
        if directory is not None:
            runs[name].metrics = runs[name].metrics or directory / f"{name}.prom"
            runs[name].status = runs[name].status or directory / f"{name}.json"
    if not runs:
        raise ConfigError(f"{path}: there is no table [pipelines.NAME]")
    conf = {key: _text(value) for key, value in spark.get("conf", {}).items()}
    return PipelinesFile(runs, spark.get("master"), spark.get("remote"), conf)


def _options(
    table: Mapping[str, Any], defaults: Mapping[str, Any], kinds: Mapping[str, Fill], where: str
) -> argparse.Namespace:
    """Return the arguments of one run."""
    kind = table.get("pipeline")
    if not isinstance(kind, str) or kind not in kinds:
        near = nearest_of(str(kind), list(kinds)) if kind else ""
        raise ConfigError(f"{where}: pipeline must be one of {', '.join(kinds)}{near}")
    parser = _Strict(add_help=False, allow_abbrev=False)
    kinds[kind](parser)
    known = {
        name.removeprefix("--"): action
        for action in parser._actions
        for name in action.option_strings
    }
    words: list[str] = []
    own = {key.replace("_", "-"): value for key, value in table.items() if key != "pipeline"}
    general = {key.replace("_", "-"): value for key, value in defaults.items()}
    # A default that this pipeline has no use for is one of the others'.
    for key, value in ({k: v for k, v in general.items() if k in known} | own).items():
        if key in OF_SPARK:
            raise ConfigError(f"{where}: {key} belongs into [spark]: all runs share one Spark")
        if key not in known:
            raise ConfigError(f"{where}: unknown option {key}{nearest_of(key, list(known))}")
        words += _words(key, value, known[key].nargs == 0, where)
    try:
        options = parser.parse_args(words)
    except ConfigError as error:
        raise ConfigError(f"{where}: {str(error).replace('--', '')}") from None
    options.pipeline = kind
    return options


def _words(key: str, value: Any, is_flag: bool, where: str) -> list[str]:
    """Return an option as on the command line."""
    if is_flag:
        if not isinstance(value, bool):
            raise ConfigError(f"{where}: {key} = {value!r}: must be true or false")
        return [f"--{key}"] if value else []
    if isinstance(value, dict):
        return [f"--{key}={name}={_text(each)}" for name, each in value.items()]
    if isinstance(value, list):
        return [f"--{key}={_text(each)}" for each in value]
    if isinstance(value, bool):
        raise ConfigError(f"{where}: {key} = {_text(value)}: must not be true or false")
    return [f"--{key}={_text(value)}"]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _table(
    content: Mapping[str, Any], name: str, kinds: Mapping[str, type], path: Path
) -> Mapping[str, Any]:
    where = f"{path}: [{name}]"
    table = _mapping(content.get(name, {}), where)
    _known(table, tuple(kinds), where)
    for key, value in table.items():
        if not isinstance(value, kinds[key]):
            what = "a table" if kinds[key] is dict else "a text"
            raise ConfigError(f"{where}: {key} = {value!r}: must be {what}")
    return table


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: must be a table")
    return value


def _known(table: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in names:
            raise ConfigError(f"{where}: unknown {key}{nearest_of(key, list(names))}")


def nearest_of(name: str, known: list[str]) -> str:
    """Return a hint at the nearest known name, if one is near."""
    near = difflib.get_close_matches(name, known, n=1)
    return f'; did you mean "{near[0]}"?' if near else ""
