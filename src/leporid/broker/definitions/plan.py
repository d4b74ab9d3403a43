"""What an import is going to do: found out first, recorded in one piece, then made.

Responsible for what all nouns share while a document is compared with what is there: names that are
kept free, what is recorded, what is made afterwards, what is wrong. Must not know any noun.
Invariant: as long as nothing is recorded, an abandoned plan leaves everything as it was; names that
it has reserved stay free until it is made or abandoned, as whoever wants one waits.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from leporid.amqp.errors import NotFound
from leporid.broker.definitions.difference import Difference, Identity
from leporid.broker.definitions.members import Item, WrongDefinition, name_in
from leporid.broker.events.actor import actor
from leporid.durable import Put, Together

if TYPE_CHECKING:
    from leporid.broker.broker import Broker
    from leporid.broker.exchange.types import Binding, Router
    from leporid.broker.policy.policies import Policy
    from leporid.broker.registry import Steps
    from leporid.broker.reservations import Kind
    from leporid.broker.stored import Stored
    from leporid.broker.vhost import VirtualHost

PROBLEMS_MAX: Final = 10
"""As many as are told at a time."""

FREED_AT_ONCE: Final = 256
"""Definitions; some tens of microseconds."""

Maker = Callable[[], "Steps | None"]


Properties = dict[str, Any]
"""Of an exchange or a queue, as JSON has them."""


@dataclass(slots=True)
class End:
    """One end of bindings that a plan makes: an exchange or a queue."""

    durable: bool
    properties: Properties
    router: Router | None = None


@dataclass(slots=True)
class PlannedTopology:
    """What a plan is going to make.

    Attributes:
        exchanges: by virtual host and name.
        queues: likewise.
        bindings: by virtual host.
        bound: keys and arguments, as JSON has them, of bindings that are there and have arguments,
            by virtual host, exchange, kind and name of the destination.
    """

    exchanges: dict[tuple[str, str], End] = field(default_factory=dict)
    queues: dict[tuple[str, str], End] = field(default_factory=dict)
    bindings: set[tuple[str, Binding]] = field(default_factory=set)
    bound: dict[tuple[str, str], set[tuple[str, str, str, str]]] = field(default_factory=dict)


class DefinitionsRefused(Exception):
    """A document cannot be imported, and nothing was changed; the message says what is wrong."""


class Plan:
    """One import on its way.

    Args:
        broker: into which.
        by: who imports, for the log.
        scope: the virtual host that all of the document belongs to; None: the document says.

    Attributes:
        difference: what it changes.
        vhosts: those that are new.
        new_users: likewise.
        queues_max: limits of queues that a document sets, by virtual host.
        new_queues: how many there are going to be more, by virtual host.
        policies: those that are set, by virtual host, kind and name.
        policy_counts: how many there are going to be, by virtual host and kind.
        new_parameters: how many global parameters there are going to be more.
        kept_bytes: what the new definitions are going to be charged.
    """

    def __init__(self, broker: Broker, by: str, scope: str | None) -> None:
        self.broker = broker
        self.by = by
        self.scope = scope
        self.difference = Difference()
        self.vhosts: dict[str, VirtualHost] = {}
        self.new_users: set[str] = set()
        self.queues_max: dict[str, int] = {}
        self.new_queues: Counter[str] = Counter()
        self.policies: dict[str, dict[tuple[bool, str], Policy]] = {}
        self.policy_counts: dict[tuple[str, bool], int] = {}
        self.new_parameters = 0
        self.kept_bytes = 0
        self._problems: list[str] = []
        self._puts: list[Put] = []
        self._makers: deque[Maker] = deque()
        # What is there already and must be there still when the plan is recorded.
        self._needed_vhosts: dict[str, VirtualHost] = {}
        self._needed_users: set[str] = set()
        self.topology = PlannedTopology()
        self._reserved: list[tuple[VirtualHost, Kind, str]] = []

    def __repr__(self) -> str:
        return f"<Plan {self.difference.summary()}>"

    # ------------------------------------------------------------- what there is

    def find_vhost(self, name: str) -> VirtualHost | None:
        """Return a virtual host that is there, or is going to be."""
        return self.vhosts.get(name) or self.broker.vhosts.get(name)

    def vhost_of(self, item: Item) -> VirtualHost:
        """Return the virtual host that a definition belongs to; raises WrongDefinition."""
        if self.scope is None and "vhost" not in item:
            raise WrongDefinition(
                "vhost is missing; definitions of one virtual host are imported into one"
            )
        name = self.scope if self.scope is not None else name_in(item, "vhost")
        vhost = self.find_vhost(name)
        if vhost is None:
            raise WrongDefinition(f"there is no vhost '{name}'")
        if name not in self.vhosts:
            self._needed_vhosts[name] = vhost
        return vhost

    def user_of(self, item: Item) -> str:
        """Return the user that a definition belongs to; raises WrongDefinition."""
        name = name_in(item, "user")
        if name not in self.new_users:
            if self.broker.access.user(name) is None:
                raise WrongDefinition(f"there is no user '{name}'")
            self._needed_users.add(name)
        return name

    # ------------------------------------------------------------- what is to be done

    def reserve(self, vhost: VirtualHost, kind: Kind, name: str) -> None:
        """Keep a name free; raises BeingDeleted."""
        vhost.reserved.add(kind, name)
        self._reserved.append((vhost, kind, name))

    def charge(self, title: str, size: int) -> None:
        """Count what a definition is going to take; raises PreconditionFailed without room."""
        self.broker.memory.check_definition(title, self.kept_bytes + size, actor())
        self.kept_bytes += size

    def put(self, definition: Stored | None) -> None:
        """Have a definition recorded; None is not durable."""
        if definition is not None:
            self._puts.append(Put(definition))

    def make(self, maker: Maker) -> None:
        """Have something done when all is recorded; after what was asked for before."""
        self._makers.append(maker)

    def note(self, noun: str, identity: Identity, before: Any, after: Any) -> bool:
        """Say what becomes of a definition; whether it must be recorded and made.

        Args:
            noun: of which.
            identity: its name.
            before: what is there; None: nothing.
            after: what is to be there.
        """
        found = self.difference[noun]
        if before == after:
            found.unchanged += 1
            return False
        (found.added if before is None else found.changed).append(identity)
        return True

    def problem(self, text: str) -> None:
        """Note a problem; raises DefinitionsRefused once there are PROBLEMS_MAX."""
        self._problems.append(text)
        if len(self._problems) >= PROBLEMS_MAX:
            self.check()

    # ------------------------------------------------------------- the end of it

    def check(self) -> None:
        """Raise DefinitionsRefused if something is wrong."""
        for name, vhost in self._needed_vhosts.items():
            if self.broker.vhosts.get(name) is not vhost:
                self._problems.append(f"vhost '{name}' was deleted meanwhile")
        for name in self._needed_users:
            if self.broker.access.user(name) is None:
                self._problems.append(f"user '{name}' was deleted meanwhile")
        if self._problems:
            raise DefinitionsRefused("; ".join(self._problems[:PROBLEMS_MAX]))

    def making(self) -> Steps:
        """Record everything, in one piece and at once; then make it, in steps.

        Raises:
            DefinitionsRefused: something that it needs is gone; before anything was recorded.
        """
        self.check()
        if self._puts:
            self.broker.record(Together(self._puts))
        while self._makers:
            self.broker.handled += 1
            steps = self._makers.popleft()()
            if steps is not None:
                yield from steps
            yield None

    def abandoning(self) -> Steps:
        """Release the reserved names, and drop what was made and not published yet."""
        for vhost, kind, name in self._reserved:
            vhost.reserved.discard(kind, name)
            yield None
        for name, vhost in self.vhosts.items():
            vhost.leave()
            yield from vhost.emptying()
            self.broker.unreserve_vhost(name)
        yield from self.forgetting()

    def forgetting(self) -> Steps:
        """Free what the plan has kept, in steps: all of it in one piece would take long.

        Only when what was recorded is on disk: whoever writes it has the same list.
        """
        topology = self.topology
        while self._makers:
            self._makers.popleft()
            yield None
        for kept in (topology.queues, topology.exchanges, topology.bindings):
            while kept:
                kept.pop() if isinstance(kept, set) else kept.popitem()
                yield None
        for some in (self._puts, self._reserved):
            while some:
                del some[-FREED_AT_ONCE:]
                yield None


def gone(vhost: VirtualHost) -> bool:
    """Say whether a virtual host was deleted since the plan was made; its records went with it."""
    try:
        vhost.check_there()
    except NotFound:
        return True
    return False
