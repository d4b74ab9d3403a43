"""Names that are kept free for what an import of definitions is going to make.

Responsible for whoever else wants such a name: it waits, as for one whose bearer is being deleted.
Must not know what is there already. Invariant: a name is reserved by one import at most, which
takes it out before it makes what is called so.
"""

from __future__ import annotations

from typing import Final, Literal

from leporid.amqp.errors import BeingDeleted
from leporid.broker.names import exchange_in, queue_in

Kind = Literal["exchange", "queue"]

_TITLES: Final = {"exchange": exchange_in, "queue": queue_in}


class Reservations:
    """Those of one virtual host.

    Args:
        vhost: its name.
    """

    def __init__(self, vhost: str) -> None:
        self._vhost = vhost
        self._names: set[tuple[Kind, str]] = set()

    def __repr__(self) -> str:
        return f"<Reservations {len(self._names)}>"

    def check(self, kind: Kind, name: str) -> None:
        """Raise BeingDeleted for a name that is reserved."""
        if (kind, name) in self._names:
            raise BeingDeleted(f"{_TITLES[kind](self._vhost, name)} is being imported")

    def add(self, kind: Kind, name: str) -> None:
        """Reserve a name that is free; raises BeingDeleted if it is reserved already."""
        self.check(kind, name)
        self._names.add((kind, name))

    def discard(self, kind: Kind, name: str) -> None:
        """Let a name go, if it is reserved."""
        self._names.discard((kind, name))
