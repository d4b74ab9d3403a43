"""Every kind of durable definition: its fields and table, what it is made of, how it is restored.

Responsible for all that a kind is: a new one is one class here, and a line in `KINDS`. Must not
know where definitions are kept. Invariant: restoring records nothing; bindings are dropped before
what they are between, readers before their stream, delayed messages before their exchange.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

from leporid.amqp.tables import decode_table, encode_table
from leporid.broker.access.access import User
from leporid.broker.access.passwords import parse_stored
from leporid.broker.access.permissions import PatternError, Permissions
from leporid.broker.access.topics import TopicPermission
from leporid.broker.exchange.types import Binding, DestinationKind
from leporid.broker.policy.policies import Policy, make_policy
from leporid.broker.queue.queue_types import queue_type
from leporid.durable import Change, Drop, Durable, Field, Put, Table
from leporid.filterserver.filter_class import FilterClass

if TYPE_CHECKING:
    from leporid.broker.broker import Broker
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.group.members import Group
    from leporid.broker.pipeline_runs import PipelineRun
    from leporid.broker.queue.queue import QueueState


DIGEST_PREFIX: Final = "definitions:"
"""In front of the digest of definitions that a start has imported, in the name of a mark."""


class Recorder:
    """Records for one virtual host.

    Attributes:
        vhost: its name.
    """

    def __init__(self, vhost: str, record: Callable[[Change], None]) -> None:
        self.vhost = vhost
        self._record: Callable[[Change], object] = record

    def close(self) -> None:
        """The virtual host is gone, and so is the record of all in it: nothing is recorded."""
        self._record = _forget

    def put(self, definition: Stored | None) -> None:
        """Record a definition that is new or has changed; None is not durable."""
        if definition is not None:
            self._record(Put(definition))

    def drop(self, kind: type[Stored], *identity: Field) -> None:
        """Record the end of a definition."""
        self._record(Drop(kind, identity))


def _forget(_change: Change) -> None:
    """What is in a virtual host that is gone."""


@dataclass(frozen=True, slots=True)
class Stored(Durable):
    """The base of all kinds.

    Attributes:
        TITLE: what a definition of this kind is called where it cannot be restored.
        NEEDS: kinds that are restored before.
    """

    TITLE: ClassVar[str]
    NEEDS: ClassVar[tuple[type[Stored], ...]] = ()

    @abstractmethod
    def restore(self, broker: Broker) -> None:
        """Make again what was recorded.

        Raises:
            Fault, LookupError, ValueError: it makes no sense, or something that it needs is gone.
        """


@dataclass(frozen=True, slots=True)
class StoredVhost(Stored):
    """A virtual host."""

    TABLE = Table("vhosts", ("name",), inside="vhost")
    TITLE = "virtual host"
    name: str

    def restore(self, broker: Broker) -> None:
        """Make it, without anything of its own."""
        broker.restore_vhost(self.name)


@dataclass(frozen=True, slots=True)
class StoredFilterClass(Stored):
    """A filter class, in the version that counts."""

    TABLE = Table("filter_classes", ("name",), since=3)
    TITLE = "filter class"
    name: str
    version: int
    class_name: str
    source: bytes

    def restore(self, broker: Broker) -> None:
        """Register it, before bindings and consumers ask for it."""
        found = FilterClass(self.name, self.version, self.class_name, self.source)
        broker.filter_classes.restore(found)


@dataclass(frozen=True, slots=True)
class StoredPolicy(Stored):
    """A policy, or an operator policy, which have names of their own."""

    TABLE = Table("policies", ("vhost", "operator", "name"), since=3)
    TITLE = "policy"
    NEEDS = (StoredVhost,)
    vhost: str
    operator: bool
    name: str
    pattern: str
    apply_to: str
    priority: int
    definition: bytes

    @classmethod
    def of(cls, vhost: str, policy: Policy) -> StoredPolicy:
        """Return what is recorded of a policy."""
        definition = encode_table(policy.definition)
        return cls(
            vhost,
            policy.operator,
            policy.name,
            policy.pattern,
            policy.apply_to,
            policy.priority,
            definition,
        )

    def restore(self, broker: Broker) -> None:
        """Put it in force, before there is anything that should have its limits."""
        policy = make_policy(
            self.name,
            self.pattern,
            decode_table(self.definition)[0],
            priority=self.priority,
            apply_to=self.apply_to,
            operator=self.operator,
        )
        broker.vhosts[self.vhost].policies.put(policy)


@dataclass(frozen=True, slots=True)
class StoredCache(Stored):
    """A durable exchange remembers messages under a number."""

    TABLE = Table("caches", ("id",), unique=("vhost", "exchange"), since=3, checks_id=False)
    TITLE = "cache of an exchange"
    NEEDS = (StoredVhost,)
    id: int
    vhost: str
    exchange: str

    def restore(self, broker: Broker) -> None:
        """Tell the number, before the exchange is made."""
        broker.vhosts[self.vhost].histories.expect(self.exchange, self.id)


@dataclass(frozen=True, slots=True)
class StoredExchange(Stored):
    """A durable exchange; the predeclared ones are never recorded."""

    TABLE = Table("exchanges", ("vhost", "name"))
    TITLE = "exchange"
    NEEDS = (StoredPolicy, StoredCache)
    vhost: str
    name: str
    type: str
    auto_delete: bool
    internal: bool
    arguments: bytes

    @classmethod
    def of(cls, vhost: str, exchange: ExchangeState) -> StoredExchange | None:
        """Return what is recorded of an exchange; None if it is not durable."""
        if not exchange.durable:
            return None
        arguments = encode_table(exchange.arguments)
        flags = exchange.auto_delete, exchange.internal
        return cls(vhost, exchange.name, exchange.type, *flags, arguments)

    def restore(self, broker: Broker) -> None:
        """Make it."""
        broker.vhosts[self.vhost].add_exchange(
            self.name,
            self.type,
            durable=True,
            auto_delete=self.auto_delete,
            internal=self.internal,
            arguments=decode_table(self.arguments)[0],
        )


@dataclass(frozen=True, slots=True)
class StoredDelays(Stored):
    """A durable exchange keeps delayed messages under a number."""

    TABLE = Table("delays", ("id",), unique=("vhost", "exchange"), since=3)
    TITLE = "store of delayed messages"
    NEEDS = (StoredExchange,)
    id: int
    vhost: str
    exchange: str

    def restore(self, broker: Broker) -> None:
        """Make the store of its exchange."""
        vhost = broker.vhosts[self.vhost]
        vhost.delay_stores.restore(self.id, vhost.exchange(self.exchange))


@dataclass(frozen=True, slots=True)
class StoredQueue(Stored):
    """A durable queue, under a number that is never used again."""

    TABLE = Table("queues", ("id",), unique=("vhost", "name"))
    TITLE = "queue"
    NEEDS = (StoredPolicy, StoredExchange)
    id: int
    vhost: str
    name: str
    auto_delete: bool
    arguments: bytes

    @classmethod
    def of(cls, vhost: str, queue: QueueState) -> StoredQueue | None:
        """Return what is recorded of a queue; None if it is not durable."""
        if not queue.durable:
            return None
        return cls(queue.id, vhost, queue.name, queue.auto_delete, encode_table(queue.arguments))

    def restore(self, broker: Broker) -> None:
        """Make it, under its number."""
        arguments = decode_table(self.arguments)[0]
        broker.vhosts[self.vhost].make_queue(
            self.name,
            queue_id=self.id,
            auto_delete=self.auto_delete,
            arguments=arguments,
            kind=queue_type(arguments),
        )


@dataclass(frozen=True, slots=True)
class StoredVerdictQueue(Stored):
    """Messages of a durable binding wait for a filter class, under a number."""

    TABLE = Table("stagings", ("id",), since=3)
    TITLE = "place of what waits for a filter class"
    NEEDS = (StoredFilterClass, StoredExchange, StoredQueue)
    id: int
    vhost: str
    source: str
    destination: str
    kind: str
    key: str
    arguments: bytes

    @classmethod
    def of(cls, number: int, vhost: str, binding: Binding) -> StoredVerdictQueue:
        """Return what is recorded of the place of a durable binding."""
        of = StoredBinding.of(vhost, binding)
        return cls(number, vhost, of.source, of.destination, of.kind, of.key, of.arguments)

    def restore(self, broker: Broker) -> None:
        """Make it again; its binding, which is made later, finds it."""
        binding = _binding(self.source, self.destination, self.kind, self.key, self.arguments)
        if not broker.vhosts[self.vhost].bindings.restore_verdict_queue(self.id, binding):
            raise LookupError("its destination is missing")


@dataclass(frozen=True, slots=True)
class StoredBinding(Stored):
    """A binding between a durable exchange and a durable destination."""

    TABLE = Table("bindings", ("vhost", "source", "destination", "kind", "key", "arguments"))
    TITLE = "binding"
    NEEDS = (StoredVerdictQueue,)
    vhost: str
    source: str
    destination: str
    kind: str
    key: str
    arguments: bytes

    @classmethod
    def of(cls, vhost: str, binding: Binding) -> StoredBinding:
        """Return what is recorded of a binding whose ends are durable."""
        arguments = encode_table(binding.arguments)
        ends = binding.source, binding.destination, binding.destination_kind
        return cls(vhost, *ends, binding.key, arguments)

    def restore(self, broker: Broker) -> None:
        """Make it again."""
        binding = _binding(self.source, self.destination, self.kind, self.key, self.arguments)
        if not broker.vhosts[self.vhost].bindings.restore(binding):
            raise LookupError("one of its ends is missing")


def _binding(source: str, destination: str, recorded: str, key: str, arguments: bytes) -> Binding:
    kind: DestinationKind = "exchange" if recorded == "exchange" else "queue"
    return Binding(source, destination, kind, key, decode_table(arguments)[0])


@dataclass(frozen=True, slots=True)
class StoredReaderOffset(Stored):
    """A named reader has read a stream up to and with that offset."""

    TABLE = Table("reader_offsets", ("vhost", "stream", "reader"), since=2)
    TITLE = "offset of a reader"
    NEEDS = (StoredQueue,)
    vhost: str
    stream: str
    reader: str
    offset: int

    def restore(self, broker: Broker) -> None:
        """Tell the stream."""
        broker.vhosts[self.vhost].stream(self.stream).reader_offsets[self.reader] = self.offset


@dataclass(frozen=True, slots=True)
class StoredReaderProgress(Stored):
    """Who a named reader is, since when, and when its offset changed last; 0: not known."""

    # The user is not a column `user`: the row outlives that user, as the offset does.
    TABLE = Table("reader_progress", ("vhost", "stream", "reader"), since=7)
    TITLE = "progress of a reader"
    NEEDS = (StoredReaderOffset,)
    vhost: str
    stream: str
    reader: str
    read_by: str
    since_ms: int
    moved_ms: int

    def restore(self, broker: Broker) -> None:
        """Tell the stream."""
        vhost = broker.vhosts[self.vhost]
        queue, moved_ms = vhost.stream(self.stream), self.moved_ms or None
        vhost.offset_tracking.restore(queue, self.reader, self.read_by, self.since_ms, moved_ms)


@dataclass(frozen=True, slots=True)
class StoredGroup(Stored):
    """A group reads a stream, or a partitioned one; its filter is a table of arguments."""

    TABLE = Table("groups", ("vhost", "stream", "name"), since=3)
    TITLE = "group"
    NEEDS = (StoredReaderOffset, StoredBinding)
    vhost: str
    stream: str
    name: str
    version: int
    arguments: bytes
    used_ms: int

    @classmethod
    def of(cls, vhost: str, group: Group) -> StoredGroup:
        """Return what is recorded of a group."""
        arguments = encode_table(group.agreed)
        return cls(vhost, group.stream, group.name, group.version, arguments, group.used_ms)

    def restore(self, broker: Broker) -> None:
        """Make it again, without members."""
        arguments = decode_table(self.arguments)[0]
        broker.vhosts[self.vhost].groups.restore(
            self.stream, self.name, self.version, arguments, self.used_ms
        )


@dataclass(frozen=True, slots=True)
class StoredGroupRetries(Stored):
    """What a group retries is kept under a number."""

    TABLE = Table("group_retries", ("id",), since=4)
    TITLE = "retries of a group"
    NEEDS = (StoredGroup,)
    id: int
    vhost: str
    stream: str
    name: str

    def restore(self, broker: Broker) -> None:
        """Make again where the messages are."""
        broker.vhosts[self.vhost].groups.restore_retries(self.stream, self.name, self.id)


@dataclass(frozen=True, slots=True)
class StoredPause(Stored):
    """A durable queue is paused."""

    TABLE = Table("pauses", ("vhost", "queue"), since=6)
    TITLE = "pause of a queue"
    NEEDS = (StoredQueue, StoredGroupRetries)
    vhost: str
    queue: str

    def restore(self, broker: Broker) -> None:
        """Pause it again, before anything is delivered."""
        vhost = broker.vhosts[self.vhost]
        vhost.pauses.restore(vhost.queue(self.queue))


@dataclass(frozen=True, slots=True)
class StoredVhostMetadata(Stored):
    """What a virtual host is for; one without has what it had when it was made."""

    TABLE = Table("vhost_metadata", ("vhost",), since=5)
    TITLE = "description of a virtual host"
    NEEDS = (StoredVhost,)
    vhost: str
    description: str
    tags: str
    default_queue_type: str

    @classmethod
    def of(
        cls, vhost: str, description: str, tags: Iterable[str], default_queue_type: str
    ) -> StoredVhostMetadata:
        """Return what is recorded of it."""
        return cls(vhost, description, _joined(tags), default_queue_type)

    def restore(self, broker: Broker) -> None:
        """Describe it again."""
        vhost = broker.vhosts[self.vhost]
        vhost.description, vhost.tags = self.description, _parted(self.tags)
        vhost.default_queue_type = self.default_queue_type


@dataclass(frozen=True, slots=True)
class StoredVhostProtection(Stored):
    """A virtual host is not deleted before somebody says that it may be."""

    TABLE = Table("vhost_protections", ("vhost",), since=6)
    TITLE = "protection of a virtual host"
    NEEDS = (StoredVhost,)
    vhost: str

    def restore(self, broker: Broker) -> None:
        """Protect it again."""
        broker.vhosts[self.vhost].protected = True


@dataclass(frozen=True, slots=True)
class StoredGlobalParameter(Stored):
    """A global parameter; its value is JSON."""

    TABLE = Table("global_parameters", ("name",), since=6)
    TITLE = "global parameter"
    name: str
    value: str

    def restore(self, broker: Broker) -> None:
        """Have it again."""
        broker.global_parameters.restore(self.name, self.value)


@dataclass(frozen=True, slots=True)
class StoredPipelineRun(Stored):
    """A run of a data pipeline, as it was reported last; its facts are JSON."""

    # The user is not a column `user`: what is known of runs outlives that user.
    TABLE = Table("pipeline_runs", ("vhost", "reported_by", "name", "started_ms"), since=8)
    TITLE = "run of a pipeline"
    NEEDS = (StoredVhost,)
    vhost: str
    reported_by: str
    name: str
    started_ms: int
    reported_ms: int
    facts: str

    @classmethod
    def of(cls, vhost: str, run: PipelineRun) -> StoredPipelineRun:
        """Return what is recorded of a run."""
        facts = json.dumps(dict(run.facts), ensure_ascii=False)
        return cls(vhost, run.user, run.name, run.started_ms, run.reported_ms, facts)

    def restore(self, broker: Broker) -> None:
        """Have it again."""
        runs, at_ms = broker.vhosts[self.vhost].pipeline_runs, (self.started_ms, self.reported_ms)
        runs.restore(self.reported_by, self.name, *at_ms, json.loads(self.facts))


@dataclass(frozen=True, slots=True)
class StoredVhostLimit(Stored):
    """A limit of a virtual host."""

    TABLE = Table("vhost_limits", ("vhost", "name"), since=5)
    TITLE = "limit of a virtual host"
    NEEDS = (StoredVhost,)
    vhost: str
    name: str
    value: int

    def restore(self, broker: Broker) -> None:
        """Set it again; what is there already stays, whatever it says."""
        broker.vhosts[self.vhost].limits[self.name] = self.value


@dataclass(frozen=True, slots=True)
class StoredSeeding(Stored):
    """Something of the configuration was taken once, and is not taken again."""

    TABLE = Table("seedings", ("name",), since=5)
    TITLE = "mark of what was taken from the configuration"
    name: str

    def restore(self, broker: Broker) -> None:
        """Remember it: users, or the definitions whose digest the name has."""
        if self.name.startswith(DIGEST_PREFIX):
            broker.imported_digest = self.name.removeprefix(DIGEST_PREFIX)
        else:
            broker.users.seeded = True


@dataclass(frozen=True, slots=True)
class StoredUser(Stored):
    """A user, with a hash of the password, which may be empty: then no password is right."""

    TABLE = Table("users", ("name",), since=5, inside="user")
    TITLE = "user"
    name: str
    password: str
    tags: str
    loopback_only: bool

    @classmethod
    def of(cls, user: User) -> StoredUser:
        """Return what is recorded of a user, beside its permissions and limits."""
        return cls(user.name, user.password.text, _joined(user.tags), user.loopback_only)

    def __repr__(self) -> str:
        return f"StoredUser({self.name!r}, tags={self.tags!r})"

    def restore(self, broker: Broker) -> None:
        """Add the user, without permissions."""
        password = parse_stored(self.password)
        tags = _parted(self.tags)
        broker.access.put_user(User(self.name, password, tags, loopback_only=self.loopback_only))


@dataclass(frozen=True, slots=True)
class StoredPermissions(Stored):
    """What a user may do in a virtual host."""

    TABLE = Table("permissions", ("vhost", "user"), since=5)
    TITLE = "permissions"
    NEEDS = (StoredVhost, StoredUser)
    vhost: str
    user: str
    configure: str
    write: str
    read: str

    @classmethod
    def of(cls, vhost: str, user: str, permissions: Permissions) -> StoredPermissions:
        """Return what is recorded of a user's permissions."""
        patterns = permissions.configure, permissions.write, permissions.read
        return cls(vhost, user, *(pattern.text for pattern in patterns))

    def restore(self, broker: Broker) -> None:
        """Grant them again."""
        user, vhost = broker.access.require(self.user), broker.vhosts[self.vhost]
        granted = Permissions.of(self.configure, self.write, self.read)
        permissions = {**user.permissions, vhost.name: granted}
        broker.access.put_user(replace(user, permissions=permissions))


@dataclass(frozen=True, slots=True)
class StoredTopicPermissions(Stored):
    """With which routing keys a user may use a topic exchange."""

    TABLE = Table("topic_permissions", ("vhost", "user", "exchange"), since=5)
    TITLE = "topic permissions"
    NEEDS = (StoredVhost, StoredUser)
    vhost: str
    user: str
    exchange: str
    write: str
    read: str

    def restore(self, broker: Broker) -> None:
        """Set them again; if a pattern makes no sense any more, no key may be used."""
        user, vhost = broker.access.require(self.user), broker.vhosts[self.vhost]
        names = {"username": user.name, "vhost": vhost.name}
        fault: PatternError | None = None
        try:
            permission = TopicPermission.of(self.write, self.read, **names)
        except PatternError as error:
            permission, fault = TopicPermission.of("", "", **names), error
        there = {**user.topics.get(vhost.name, {}), self.exchange: permission}
        broker.access.put_user(replace(user, topics={**user.topics, vhost.name: there}))
        if fault is not None:
            raise fault


@dataclass(frozen=True, slots=True)
class StoredUserLimit(Stored):
    """A limit of a user."""

    TABLE = Table("user_limits", ("user", "name"), since=5)
    TITLE = "limit of a user"
    NEEDS = (StoredUser,)
    user: str
    name: str
    value: int

    def restore(self, broker: Broker) -> None:
        """Set it again."""
        user = broker.access.require(self.user)
        broker.access.put_user(replace(user, limits={**user.limits, self.name: self.value}))


def _joined(tags: Iterable[str]) -> str:
    """Tags have no commas."""
    return ",".join(tags)


def _parted(tags: str) -> tuple[str, ...]:
    return tuple(tags.split(",")) if tags else ()


KINDS: Final[tuple[type[Stored], ...]] = (
    StoredVhost,
    StoredExchange,
    StoredQueue,
    StoredBinding,
    StoredReaderOffset,
    StoredGroup,
    StoredGroupRetries,
    StoredPolicy,
    StoredCache,
    StoredDelays,
    StoredFilterClass,
    StoredVerdictQueue,
    StoredVhostMetadata,
    StoredVhostLimit,
    StoredSeeding,
    StoredUser,
    StoredPermissions,
    StoredTopicPermissions,
    StoredUserLimit,
    StoredPause,
    StoredVhostProtection,
    StoredGlobalParameter,
    StoredReaderProgress,
    StoredPipelineRun,
)
"""All of them, in the order in which a new file gets their tables."""
