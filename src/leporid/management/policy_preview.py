"""The answer to a dry run of setting or dropping a policy: what it would govern.

Responsible for counting and choosing what is listed, in slices between other work. Must not know
how policies are matched (`broker.policy.preview`). Invariant: of each effect at most ITEMS_MAX
objects are kept, and all are counted.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from leporid.broker.policy.preview import EFFECTS, Effect, Preview
from leporid.management.amqp_json import shown
from leporid.management.paging import in_slices

if TYPE_CHECKING:
    from leporid.broker.access.access import User
    from leporid.management.listings import Listing
    from leporid.management.surroundings import Surroundings

ITEMS_MAX: Final = 100
"""Objects of each effect that are listed."""


async def previewed(around: Surroundings, user: User, preview: Preview) -> Listing:
    """Answer what a change would do.

    Args:
        around: the broker.
        user: who asks.
        preview: of the change.

    Returns:
        `{"dry_run": true, "queues": {effect: count}, "exchanges": {…}, "excess": …, "items": […]}`.
        `excess` is the sum over all queues.
    """
    counts = {kind: dict.fromkeys(EFFECTS, 0) for kind in ("queue", "exchange")}
    listed: dict[str, list[Effect]] = {effect: [] for effect in EFFECTS}
    excess = 0
    async for some in in_slices(around, user, preview.effects()):
        for one in some:
            counts[one.kind][one.effect] += 1
            excess += one.excess
            if len(listed[one.effect]) < ITEMS_MAX:
                listed[one.effect].append(one)
    items = (_shown(one) for effect in EFFECTS for one in listed[effect])
    found: dict[str, Any] = {
        "dry_run": True,
        "queues": counts["queue"],
        "exchanges": counts["exchange"],
        "excess": excess,
        "items": items,
        "items_max": ITEMS_MAX,
    }
    return around.listing(user, found)


def _shown(one: Effect) -> dict[str, Any]:
    return {**asdict(one), "name": shown(one.name)}
