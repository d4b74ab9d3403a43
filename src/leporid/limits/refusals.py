"""How often peers were refused something, by the limit that refused it.

Responsible for the numbers only. Must not know what is limited, and who was refused: a peer cannot
make a kind, so there are as many kinds as limits in the code.

Invariant: a number only grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


class Refusals:
    """Counts refusals; `/metrics` shows them as `leporid_refusals_total{kind="..."}`."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.by_kind: Mapping[str, int] = MappingProxyType(self._counts)
        """How many there were since the start, by kind; a view that follows."""

    def __repr__(self) -> str:
        return f"<Refusals {self._counts}>"

    def expect(self, kind: str) -> None:
        """Show a kind before the first refusal, as 0: monitoring sees the first one as growth."""
        self._counts.setdefault(kind, 0)

    def count(self, kind: str) -> None:
        """Count one refusal.

        Args:
            kind: the name of the limit, in lower case with underscores, such as `http_uploads`.
        """
        self._counts[kind] = self._counts.get(kind, 0) + 1
