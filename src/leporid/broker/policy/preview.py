"""What setting or dropping a policy would govern, before it is done.

Responsible for comparing what governs each queue and exchange now with what would govern it
afterwards. Must not know who asks, and changes nothing. Invariant: what is compared is found by the
same rules as what is put in force (`Policies`), so that a preview and the change agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from leporid.broker.exchange.exchange import DEFAULT_EXCHANGE
from leporid.broker.names import REPLY_PREFIX
from leporid.broker.policy.policies import Governed, Policies, Policy

if TYPE_CHECKING:
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.vhost import VirtualHost

EFFECTS: Final = ("added", "replaced", "kept", "released", "outranked")
"""What becomes of an object.

- `added`: the policy governs it from then on; none of its kind does now
- `replaced`: likewise, in place of another one
- `kept`: it governs the object now, and afterwards
- `released`: it governs the object now, and not afterwards
- `outranked`: its pattern matches, and another policy counts all the same
"""


@dataclass(frozen=True, slots=True)
class Effect:
    """What becomes of one queue or exchange.

    Attributes:
        kind: `queue` or `exchange`.
        name: of the object.
        type: of the queue, or of the exchange.
        effect: one of EFFECTS.
        before: the policy of that kind that governs it now; None without one.
        after: likewise, afterwards.
        excess: of a queue, how many ready messages are above its `max-length` afterwards.
    """

    kind: str
    name: str
    type: str
    effect: str
    before: str | None
    after: str | None
    excess: int = 0


class Preview:
    """A change of one policy, to be compared with what is in force.

    Args:
        vhost: where.
        name: of the policy.
        operator: of which kind it is.
        policy: as it is to be; None: it is dropped.
    """

    def __init__(
        self, vhost: VirtualHost, name: str, *, operator: bool, policy: Policy | None
    ) -> None:
        self._vhost = vhost
        self._name = name
        self._operator = operator
        self._alone = Policies([] if policy is None else [policy])
        self._after = vhost.policies.changed(name, operator=operator, policy=policy)

    def effects(self) -> Iterator[Effect | None]:
        """Go through queues and exchanges; None for one that the change does not concern."""
        governor = self._vhost.governor
        for queue in self._vhost.all_queues():
            if queue.deleted or queue.name.startswith(REPLY_PREFIX):
                yield None
                continue
            after = self._after.of_queue(queue.name, queue.type)
            alone = self._alone.of_queue(queue.name, queue.type)
            found = self._effect(governor.of_queue(queue), after, alone)
            yield found and Effect(
                "queue", queue.name, queue.type.name, *found, _excess(queue, after, found[0])
            )
        for exchange in self._vhost.all_exchanges():
            if exchange.deleted or exchange.name == DEFAULT_EXCHANGE:
                yield None
                continue
            after = self._after.of_exchange(exchange.name)
            alone = self._alone.of_exchange(exchange.name)
            found = self._effect(governor.of_exchange(exchange.name), after, alone)
            yield found and Effect("exchange", exchange.name, exchange.type, *found)

    def _effect(
        self, before: Governed, after: Governed, alone: Governed
    ) -> tuple[str, str | None, str | None] | None:
        then, now = self._named(after), self._named(before)
        if then == self._name:
            effect = "kept" if now == then else "added" if now is None else "replaced"
        elif now == self._name:
            effect = "released"
        elif self._named(alone) is not None:
            effect = "outranked"
        else:
            return None
        return effect, now, then

    def _named(self, governed: Governed) -> str | None:
        found = governed.operator_policy if self._operator else governed.policy
        return None if found is None else found.name


def _excess(queue: QueueState, after: Governed, effect: str) -> int:
    """Return how many ready messages are above the queue's limit afterwards."""
    most = after.effective("max-length", queue.arguments, queue.type)
    if effect == "outranked" or queue.stream is not None or not isinstance(most, int):
        return 0
    return max(0, queue.engine.ready_count + queue.engine.held_count - most)
