"""Writes the tables of docs/configuration.md from the table of settings in the code.

    python tools/configuration_page.py

A comment `<!-- settings: NAME -->` stands before each table. `tests/server/test_config.py` fails
while the page has others. The columns of units and of RabbitMQ's names are left out where nothing
would stand in them.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any, Final

from leporid.server.config import (
    Config,
    EventExchange,
    Http,
    ImportedDefinitions,
    Interceptors,
    Limits,
    Rights,
    UserSettings,
)
from leporid.server.filter_class_settings import FilterServer
from leporid.server.oauth_settings import Auth, AuthHttp, OAuth2
from leporid.server.proxy_protocol import ProxyProtocol
from leporid.server.settings import Named, Section, about, to_toml
from leporid.server.tls import KeyPair, Tls

PAGE: Final = Path(__file__).parents[1] / "docs" / "configuration.md"
SECTIONS: Final[dict[str, type[Any]]] = {
    "all": Config,
    "limits": Limits,
    "interceptors": Interceptors,
    "event_exchange": EventExchange,
    "filter_server": FilterServer,
    "http": Http,
    "tls": Tls,
    "tls_names": KeyPair,
    "auth": Auth,
    "auth_http": AuthHttp,
    "oauth2": OAuth2,
    "proxy_protocol": ProxyProtocol,
    "definitions": ImportedDefinitions,
    "users": UserSettings,
    "permissions": Rights,
}

_TABLE: Final = re.compile(r"(?<=^<!-- settings: )(\w+)( -->\n)((?:\|.*\n)*)", re.MULTILINE)


def table_of(section: type[Any]) -> str:
    """Return the table of one section."""
    rows = [["Setting", "Default", "Unit", "Means", "Reload", "RabbitMQ's name"], []]
    for field in dataclasses.fields(section):
        said = about(field)
        if isinstance(said.check, Section):
            continue
        rows.append(
            [
                f"`{field.name.removesuffix('_')}`",
                default_of(field),
                said.unit,
                said.doc,
                "yes" if said.live else "restart",
                said.rabbitmq,
            ]
        )
    rows[1] = ["---"] * len(rows[0])
    body = rows[2:]
    kept = [at for at in range(6) if at in (0, 1, 3, 4) or any(row[at] for row in body)]
    return "".join("| " + " | ".join(row[at] for at in kept) + " |\n" for row in rows)


def default_of(field: dataclasses.Field[Any]) -> str:
    """Return a default as the page has it."""
    said = about(field)
    if said.default_doc or field.default in (None, dataclasses.MISSING):
        return said.default_doc
    default = field.default
    if field.name == "bind":
        # One address may stand without brackets.
        (default,) = default
    if isinstance(said.check, Named):
        default = {}
    return f"`{to_toml(default)}`"


def page_of(text: str) -> str:
    """Return the page with its tables as they should be."""
    return _TABLE.sub(lambda found: found[1] + found[2] + table_of(SECTIONS[found[1]]), text)


def main() -> int:
    """Write the page."""
    PAGE.write_text(page_of(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
