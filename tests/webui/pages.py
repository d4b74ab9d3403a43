"""The pages that there are, with objects of the example data, for tests that look at all."""

from __future__ import annotations

from typing import Final

Place = tuple[str, ...]

PAGES: Final[tuple[Place, ...]] = (
    (),
    ("connections",),
    ("channels",),
    ("exchanges",),
    ("exchanges", "/", "departures"),
    ("queues",),
    ("queues", "/", "orders"),
    ("streams",),
    ("streams", "/", "flights"),
    ("topology",),
    ("filters",),
    ("delays",),
    ("dead-letters",),
    ("pipelines",),
    ("users",),
    ("users", "carl"),
    ("permissions",),
    ("vhosts",),
    ("vhosts", "shop"),
    ("policies",),
    ("policies", "/", "short"),
    ("policies", "new"),
    ("operator-policies",),
    ("limits",),
    ("definitions",),
    ("filter-classes",),
    ("filter-classes", "late"),
    ("parameters",),
    ("audit",),
    ("backups",),
    ("feature-flags",),
)
"""Each as the parts of its address; connections and channels have theirs while there are any."""

DIALOGS: Final[tuple[tuple[Place, str, str], ...]] = (
    (("users",), "Add user", ""),
    (("users", "carl"), "Change tags", ""),
    (("users", "carl"), "Delete user", ""),
    (("vhosts",), "Add virtual host", ""),
    (("filter-classes",), "Register class", ""),
    (("exchanges",), "Declare an exchange", ""),
    (("queues",), "Declare a queue", ""),
    (("queues", "/", "orders"), "Purge", ""),
    (("delays",), "Cancel [^a]", "vhost=/&exchange=reminders"),
    (("dead-letters",), "Send all back", "vhost=/&queue=letters"),
    (("streams", "/", "flights"), "Move reader", "show=readers"),
    (("filters",), "Bind with this", "vhost=/&queue=orders&filter=n>1"),
    (("permissions",), "alice in .:", ""),
)
"""Pages, how the names of buttons begin that open a dialog there, and queries of the pages."""


def titled(place: Place) -> str:
    """Return what a test with this page is called."""
    return "-".join(place).replace("/", "root") or "overview"
