"""Setting policies and arguments while queues and exchanges are there, and having these follow.

Responsible for what changes when a policy comes, changes or goes, and when other arguments are
adopted: the record, and everything concerned, in steps. Must not know how a policy is matched (that
is `policies`), what a setting does to a queue (that is `effects`), nor who may adopt what (that is
`redeclaring`). Invariant: what governs a queue or an exchange is what the policies say now, once
the last step of the last change is done.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from leporid.amqp.errors import NotFound, PreconditionFailed
from leporid.broker.exchange.exchange import ALTERNATE_ARGUMENT, DEFAULT_EXCHANGE
from leporid.broker.names import REPLY_PREFIX
from leporid.broker.policy.policies import NOT_GOVERNED, POLICIES_MAX, Governed, Policies, Policy
from leporid.broker.settings import effects
from leporid.broker.stored import StoredExchange, StoredPolicy, StoredQueue

if TYPE_CHECKING:
    from leporid.broker.events.events import Events
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.exchange.topology import Topology
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.registry import Steps, StepsTo
    from leporid.broker.settings.redeclaring import Redeclare
    from leporid.broker.settings.values import Arguments
    from leporid.broker.stored import Recorder
    from leporid.broker.vhost import VirtualHost


class Governor:
    """The policies of one virtual host, and what they govern.

    Args:
        vhost: whose.
        recorder: told of what is to last.
        topology: told of alternate exchanges.
        policies: those of the configuration file.
        redeclare: what becomes of a declaration that differs from what is there.
        events: told of each change.
    """

    def __init__(
        self,
        vhost: VirtualHost,
        recorder: Recorder,
        topology: Topology,
        policies: Policies,
        redeclare: Redeclare,
        events: Events,
    ) -> None:
        self.redeclare = redeclare
        self.policies = policies
        self._vhost = vhost
        self._recorder = recorder
        self._topology = topology
        self._events = events

    def setting(self, policy: Policy) -> StepsTo[bool]:
        """Put a policy in force, in steps; returns whether it is new.

        Raises:
            PreconditionFailed: the configuration file has one of that name, or there are too many.
        """
        self.check_settable(policy)
        before = self.policies.find(policy.name, operator=policy.operator)
        if before != policy:
            self.policies.put(policy)
            self._recorder.put(StoredPolicy.of(self._vhost.name, policy))
            self._events.policy_set(self._vhost.name, policy)
            yield from self.following()
        return before is None

    def check_settable(self, policy: Policy) -> None:
        """Refuse what `setting` refuses; raises as it does."""
        self.check_not_configured(policy.name, operator=policy.operator)
        if not self.policies.has_room(policy):
            raise PreconditionFailed(
                f"vhost '{self._vhost.name}' has {POLICIES_MAX} policies of that kind already"
            )

    def setting_all(self, policies: Iterable[Policy]) -> Steps:
        """Put several policies in force, in steps; for which there is room, as `setting` checks."""
        for policy in policies:
            self.policies.put(policy)
            self._recorder.put(StoredPolicy.of(self._vhost.name, policy))
            self._events.policy_set(self._vhost.name, policy)
            yield None
        yield from self.following()

    def dropping(self, name: str, *, operator: bool) -> Steps:
        """Take a policy out of force, in steps.

        Raises:
            NotFound: there is none of that name.
            PreconditionFailed: it is the configuration file's.
        """
        self.check_not_configured(name, operator=operator)
        if self.policies.find(name, operator=operator) is None:
            raise NotFound(f"no {self._title(name, operator=operator)}")
        self.policies.drop(name, operator=operator)
        self._recorder.drop(StoredPolicy, self._vhost.name, operator, name)
        cleared = "operator.policy.cleared" if operator else "policy.cleared"
        self._events.changed(cleared, name=name, vhost=self._vhost.name)
        yield from self.following()

    def of_queue(self, queue: QueueState) -> Governed:
        """Return what governs a queue; nothing does one of direct reply-to."""
        if queue.name.startswith(REPLY_PREFIX):
            return NOT_GOVERNED
        return self.policies.of_queue(queue.name, queue.type)

    def of_exchange(self, name: str) -> Governed:
        """Return what governs an exchange; nothing does the default exchange."""
        return self.policies.of_exchange(name) if name != DEFAULT_EXCHANGE else NOT_GOVERNED

    def following(self) -> Steps:
        """Have everything governed by what the policies say; what is made meanwhile is already."""
        for queue in self._vhost.all_queues():
            found = self.of_queue(queue)
            if not queue.deleted and not _is_same(found, queue.governed):
                queue.governed = found
                effects.adjust(self._vhost, queue)
                self._vhost.used(queue)
            yield None
        for exchange in self._vhost.all_exchanges():
            found = self.of_exchange(exchange.name)
            if not exchange.deleted and not _is_same(found, exchange.governed):
                exchange.governed = found
                self._topology.set_alternate(exchange, exchange.wanted_alternate())
            yield None

    def adopt_queue(self, queue: QueueState, arguments: Arguments, *, auto_delete: bool) -> None:
        """Give a queue other arguments, which were checked, now."""
        queue.arguments, queue.auto_delete = arguments, auto_delete
        effects.adjust(self._vhost, queue)
        self._recorder.put(StoredQueue.of(self._vhost.name, queue))

    def adopt_exchange(
        self, exchange: ExchangeState, arguments: Arguments, *, auto_delete: bool
    ) -> None:
        """Give an exchange another alternate exchange, which was checked, now.

        Its other arguments it was made with, and a restart makes it with them again.
        """
        adopted = {key: value for key, value in exchange.arguments.items()
                   if key != ALTERNATE_ARGUMENT}  # fmt: skip
        if ALTERNATE_ARGUMENT in arguments:
            adopted[ALTERNATE_ARGUMENT] = arguments[ALTERNATE_ARGUMENT]
        exchange.arguments, exchange.auto_delete = adopted, auto_delete
        self._topology.set_alternate(exchange, exchange.wanted_alternate())
        self._recorder.put(StoredExchange.of(self._vhost.name, exchange))

    def check_not_configured(self, name: str, *, operator: bool) -> None:
        """Refuse to change a policy of the configuration file; raises PreconditionFailed."""
        if self.policies.is_configured(name, operator=operator):
            raise PreconditionFailed(
                f"{self._title(name, operator=operator)} is the configuration file's: change it "
                "there"
            )

    def _title(self, name: str, *, operator: bool) -> str:
        noun = "operator policy" if operator else "policy"
        return f"{noun} '{name}' in vhost '{self._vhost.name}'"


def _is_same(one: Governed, other: Governed) -> bool:
    return one.policy is other.policy and one.operator_policy is other.operator_policy
