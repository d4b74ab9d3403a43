"""RabbitMQ's tools under their own names, on the machine of the broker: in its container.

Responsible for which broker they ask and as whom, as theirs need no login there: that of this
machine's configuration, as a user whose password the configuration has, else as `guest`. What a
word means is known to `aliases`. Invariant: a password is in this process's environment alone, and
neither in what is written nor on a command line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leporid.cli import contexts
from leporid.cli.config import EXIT_WRONG_USE, config_places, tell
from leporid.cli.main import main as run_command
from leporid.cli.outcomes import REFUSED, Failure
from leporid.cli.outcomes import tell as tell_failure
from leporid.cli.ping import LOOPBACK
from leporid.server.settings import ConfigError

if TYPE_CHECKING:
    from leporid.server.config import Config

SERVER: Final = "rabbitmq-server"
PLUGINS: Final = "rabbitmq-plugins"
STATUS: Final = "status"
ALARMS: Final = ("check_alarms", "check_local_alarms", "node_health_check")
"""What is answered without a login, lest a health check fails where no password is known."""
LOGIN: Final = (contexts.USER_VARIABLE, contexts.PASSWORD_VARIABLE)
CHOSEN: Final = (contexts.URL_VARIABLE, contexts.CONTEXT_VARIABLE)


def main(arguments: Sequence[str]) -> int:
    """Run the tool whose name comes first, and return the exit code."""
    tool, given = Path(arguments[0]).name, list(arguments[1:])
    if tool == SERVER:
        sys.argv = ["leporid", "serve", *given]
        return run_command()
    try:
        login = {} if tool == PLUGINS else login_here(os.environ)
    except ConfigError as error:
        tell(error)
        return EXIT_WRONG_USE
    except Failure as failure:
        return tell_failure(failure)
    os.environ.update(login)
    if login and any(word in ALARMS for word in given):
        return run_command(["ping", "--healthy"])
    code = run_command([tool, *given])
    if code != REFUSED or contexts.USER_VARIABLE not in login:
        return code
    print(
        f"{tool}: asked as '{login[contexts.USER_VARIABLE]}' of the configuration; "
        f"{' and '.join(LOGIN)} name somebody else",
        file=sys.stderr,
    )
    return run_command(["ping"]) if STATUS in given else code


def login_here(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that say which broker, and as whom, unless somebody has said so.

    Raises:
        ConfigError: the configuration cannot be used.
        Failure: the file of contexts cannot be read.
    """
    from leporid.server.config import build, values_of
    from leporid.server.rabbitmq_environment import USER, value_of

    known = contexts.load(contexts.file_of_contexts(environment))
    if known.current or any(environment.get(name) for name in CHOSEN):
        return {}
    values = values_of(config_places(None, environment), {}, environment)
    found = {contexts.URL_VARIABLE: _url(build(values))}
    if not any(environment.get(name) for name in LOGIN):
        preferred = value_of(USER, environment) or ""
        user, password = _user(values.tables.get("users", {}), preferred)
        found |= dict(zip(LOGIN, (user, password), strict=True))
    return found


def _url(config: Config) -> str:
    host = LOOPBACK.get(config.bind[0], config.bind[0])
    place = f"[{host}]" if ":" in host else host
    if config.http_port < 0 <= config.https_port and config.tls.certificate is not None:
        return f"https://{place}:{config.https_port}"
    return f"http://{place}:{config.http_port}" if config.http_port >= 0 else contexts.URL_DEFAULT


def _user(users: Mapping[str, Mapping[str, Any]], preferred: str) -> tuple[str, str]:
    """Return somebody whose password is known: who may do most, else guest."""
    from leporid.broker.access.access import DEFAULT_USER
    from leporid.broker.access.tags import ADMINISTRATOR

    known = {name: user for name, user in users.items() if user.get("password")}
    for name in sorted(known, key=lambda name: name != preferred):
        if ADMINISTRATOR in known[name].get("tags", ()):
            return name, str(known[name]["password"])
    return next(
        ((name, str(user["password"])) for name, user in known.items()),
        (DEFAULT_USER, DEFAULT_USER),
    )
