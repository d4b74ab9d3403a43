"""The files of a configuration, where some of them may be RabbitMQ's.

Responsible for which files of RabbitMQ's there are, in its order, and for what they say together
with the variables of its image. What a line means is known to `rabbitmq_conf` alone. Invariant: no
value of a line is in a message, as passwords are among them.

RabbitMQ's are a file `*.conf`, or a directory that is called `rabbitmq`, as /etc/rabbitmq is. In
the latter, RABBITMQ_CONFIG_FILE names another file in place of `rabbitmq.conf`. Beside either there
may be a `conf.d`, whose files `*.conf` win in the order of their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leporid.server import rabbitmq_environment
from leporid.server.settings import ConfigError, Problem
from leporid.server.sources import DEFAULT, FOLDER_NAME, Values, from_files, text_of

if TYPE_CHECKING:
    from leporid.server.rabbitmq_conf import Line

SUFFIX: Final = ".conf"
FOLDER: Final = "rabbitmq"
FILE: Final = "rabbitmq.conf"
VARIABLE: Final = "RABBITMQ_CONFIG_FILE"
BIND_VARIABLE: Final = "LEPORID_BIND"
DEFAULT_BIND: Final = "127.0.0.1"
ALL_ADDRESSES: Final = ("0.0.0.0", "::")
HTTP_ADDRESSES: Final = tuple(
    f"{what}.ip" for what in ("management.tcp", "management.listener", "management.ssl")
)
ERLANG: Final = ("advanced.config", "rabbitmq.config")
PLUGINS: Final = "enabled_plugins"

PLUGINS_HERE: Final = {
    "rabbitmq_management": "the management API and the web interface",
    "rabbitmq_management_agent": "the management API",
    "rabbitmq_web_dispatch": "the HTTP server",
    "rabbitmq_prometheus": "metrics",
    "rabbitmq_delayed_message_exchange": "exchanges of the type x-delayed-message",
    "rabbitmq_event_exchange": "the exchange amq.rabbitmq.event",
    "rabbitmq_auth_mechanism_ssl": "EXTERNAL, where a certificate was verified",
    "rabbitmq_auth_backend_http": "auth.backends",
    "rabbitmq_auth_backend_oauth2": "auth.backends",
    "rabbitmq_auth_backend_cache": "auth.cache_seconds",
    "rabbitmq_message_timestamp": "interceptors.timestamp",
}
"""What is here without being enabled, and where."""

USER_VARIABLES: Final = {
    "default_user": rabbitmq_environment.USER,
    "default_pass": rabbitmq_environment.PASSWORD,
    "default_vhost": rabbitmq_environment.VHOST,
}


def from_places(
    places: Path | Sequence[Path] | None,
    environment: Mapping[str, str],
    variables: Mapping[str, str],
) -> Values:
    """Read and merge the files of a configuration, and the default user of RabbitMQ's image.

    Args:
        places: files and directories, those that win last.
        environment: the process's, for RabbitMQ's variables.
        variables: of the environment, for `$(NAME)`.

    Raises:
        ConfigError: a file cannot be read, or is none of its form.
    """
    values, has_user = Values(), False
    for place in [places] if isinstance(places, Path) else places or ():
        if is_rabbitmqs(place):
            read, said_user = _read(place, environment, variables)
            values.add(read)
            has_user |= said_user
        if place.suffix != SUFFIX:
            values.add(from_files(place))
    if not has_user:
        rabbitmq_environment.add_default_user(values, environment)
    return values


def is_rabbitmqs(place: Path) -> bool:
    """Say whether there may be files of RabbitMQ's at a place."""
    return place.suffix == SUFFIX or _is_folder(place)


def variables_of(places: Sequence[Path]) -> list[str]:
    """Return the names of RabbitMQ's variables that mean something at these places."""
    return [VARIABLE] if any(map(_is_folder, places)) else []


def _is_folder(place: Path) -> bool:
    return place.name == FOLDER and place.is_dir()


def files(place: Path, environment: Mapping[str, str]) -> list[Path]:
    """Return the files of RabbitMQ's at a place, those that win last."""
    main, folder = place, place.parent
    if place.suffix != SUFFIX:
        folder = place
        main = _main(place / FILE, environment.get(VARIABLE, ""))
    found = [main] if main.suffix == SUFFIX and (main.exists() or main == place) else []
    parts = (each for each in _listed(folder / FOLDER_NAME) if each.suffix == SUFFIX)
    return [*found, *sorted(each for each in parts if not each.name.startswith("."))]


def _main(default: Path, named: str) -> Path:
    """Return the file that a variable names, which may leave its ending out."""
    if not named:
        return default
    if named.endswith((SUFFIX, ".config")):
        return Path(named)
    forms = [Path(named + ending) for ending in (SUFFIX, ".config")]
    return next((form for form in forms if form.exists()), forms[0])


def _listed(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _read(
    place: Path, environment: Mapping[str, str], variables: Mapping[str, str]
) -> tuple[Values, bool]:
    """Return what the files at a place say, and whether they have the default user."""
    from leporid.server.rabbitmq_conf import (
        USER_BEGINNINGS,
        USER_KEYS,
        Line,
        interpolated,
        lines_of,
        values_of_lines,
    )

    lines: dict[str, Line] = {}
    found = files(place, environment)
    remarks: list[str] = []
    for file in found:
        for key, line in lines_of(text_of(file), str(file)).items():
            # The last of them counts, and of keys that mean the same the one that is last.
            if not key.startswith("auth_backends."):
                lines.pop(key, None)
            lines[key] = replace(line, earlier=())
            remarks += [f"{each}: is said again below, which wins" for each in line.earlier]
    has_user = any(key in USER_KEYS or key.startswith(USER_BEGINNINGS) for key in lines)
    given = {
        key: Line(value, variable)
        for key, variable in USER_VARIABLES.items()
        if has_user and (value := rabbitmq_environment.value_of(variable, environment)) is not None
    }
    # A password of a variable is taken as it is.
    kept = {key: line for key, line in lines.items() if key not in given}
    whole = interpolated(kept, variables) | given
    values = values_of_lines(whole, str(found[0]) if found else FILE)
    opened = list(_opened(whole, values, environment.get(BIND_VARIABLE, "")))
    if opened:
        raise ConfigError.of(Problem("", each) for each in opened)
    values.remarks += [*remarks, *_passed_over(place, environment)]
    values.files = [file.absolute() for file in found]
    return values, has_user


def _opened(lines: Mapping[str, Line], values: Values, bind: str) -> Iterator[str]:
    """Go through lines that keep somebody out of RabbitMQ, and would keep nobody out of here.

    Args:
        lines: of all files.
        values: what is made of them.
        bind: addresses of the environment, which win; "": there are none.
    """
    backends = [line for key, line in lines.items() if key.startswith("auth_backends.")]
    if backends and not values.tables.get("auth", {}).get("backends"):
        yield f"{backends[0].at}: is not there; users with passwords of the broker would be let in"
    mechanisms = [line for key, line in lines.items() if key.startswith("auth_mechanisms.")]
    if mechanisms and not {"PLAIN", "AMQPLAIN"} & {line.value for line in mechanisms}:
        yield f"{mechanisms[0].at}: PLAIN and AMQPLAIN cannot be left out"
    tls, verify = values.tables.get("tls", {}), lines.get("ssl_options.verify")
    if verify and verify.value == "verify_peer" and "certificate" in tls and "client_ca" not in tls:
        yield f"{verify.at}: takes ssl_options.cacertfile, too; no certificate would be asked for"
    said = values.tables.get("bind", [DEFAULT_BIND])
    bound = bind.split(",") if bind else [said] if isinstance(said, str) else said
    for key, line in lines.items():
        host = line.value if key.endswith(".ip") else line.value.rpartition(":")[0].strip("[]")
        listens = key.startswith("listeners.") or key in HTTP_ADDRESSES
        if listens and host and host not in (*ALL_ADDRESSES, *bound):
            yield f"{line.at}: all ports listen on the same addresses ({', '.join(bound)})"


def _passed_over(place: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Go through what RabbitMQ reads at a place and nobody does here."""
    if place.suffix == SUFFIX:
        return
    named = environment.get(VARIABLE, "")
    main = _main(place / FILE, named)
    if named and not (main.exists() and main.suffix == SUFFIX):
        why = "holds Erlang terms, which are not read" if main.exists() else "there is no such file"
        yield f"{VARIABLE}: {main}: {why}"
    for name in ERLANG:
        if (place / name).exists() and place / name != main:
            yield f"{place / name}: holds Erlang terms, which are not read"
    if (place / PLUGINS).is_file():
        for plugin in missing_plugins(text_of(place / PLUGINS)):
            yield f"{place / PLUGINS}: {plugin}: there is no such plugin here"


def remarks(values: Values) -> list[str]:
    """Return what of a configuration has no effect, one line each."""
    if not any(file.suffix == SUFFIX for file in values.files) or values.whence("bind") != DEFAULT:
        return values.remarks
    from leporid.server.rabbitmq_conf import LISTENS

    return [*values.remarks, LISTENS]


def plugins_in(text: str) -> list[str]:
    """Return the names in a file of enabled plugins, which is a list of Erlang's."""
    return re.findall(r"[a-z][a-z0-9_]*", re.sub(r"%.*", "", text))


def missing_plugins(text: str) -> Iterator[str]:
    """Go through the plugins of such a file of which there is nothing here."""
    return (name for name in plugins_in(text) if name not in PLUGINS_HERE)
