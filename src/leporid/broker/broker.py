"""The broker: virtual hosts, users, sessions, alarms, and what all of them share.

Responsible for joining the parts of the control plane and for giving them what comes from
outside: the engine, randomness, threads, and somebody who records durable changes. Must not
know where any of it comes from.

Invariant: every durable change goes through `record`, once, in the order in which it happened.
"""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from leporid.amqp.errors import BeingDeleted, ConnectionForced, NotFound
from leporid.broker.access.backends import Backends, Internal
from leporid.broker.access.logins import Logins, Offload
from leporid.broker.access.users import Users
from leporid.broker.connection.cancels import Cancels
from leporid.broker.connection.session_index import SessionIndex
from leporid.broker.connection.user_changes import recheck, renewing
from leporid.broker.events.events import Events
from leporid.broker.events.outbox import Outbox
from leporid.broker.filter.filter_arguments import CLASS
from leporid.broker.filter.filter_classes import FilterClasses
from leporid.broker.global_parameters import CLUSTER_NAME, GlobalParameters
from leporid.broker.group.handovers import Handovers
from leporid.broker.memory import Memory
from leporid.broker.queue.dead_letters import DeadLetterCounts
from leporid.broker.queue.unused import UnusedQueues
from leporid.broker.restore import restore
from leporid.broker.settings.effects import expires_ms
from leporid.broker.statistics import Churn, VirtualHostStatistics
from leporid.broker.stored import StoredVhost
from leporid.broker.vhost import VirtualHost
from leporid.durable import Change, DefinitionsSnapshot, Drop, Put
from leporid.engine.bounds.clock import Party
from leporid.filterserver.filter_class import FilterClass
from leporid.limits.refusals import Refusals

if TYPE_CHECKING:
    from leporid.amqp.tables import Value
    from leporid.broker.access.access import Access
    from leporid.broker.connection.session import ConnectionState
    from leporid.broker.policy.policies import Policy
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.registry import Steps, StepsTo
    from leporid.broker.settings.redeclaring import Redeclare
    from leporid.broker.settings.unknown_arguments import OnUnknown
    from leporid.engine.engine import Engine

logger = logging.getLogger(__name__)

NAME_BYTES: Final = 16
"""Random bytes in a name we make: nobody guesses a reply queue, and no two are the same."""

GROUP_EXPIRES_MS: Final = 86_400_000
"""A group that nobody reads in for a day is dead, as in RocketMQ."""

# In the order in which RabbitMQ names them.
ALARMS: Final = ("memory", "disk")


@dataclass(frozen=True, slots=True)
class TuneLimits:
    """What connection.tune offers; the defaults are RabbitMQ's."""

    channel_max: int = 2047
    frame_max: int = 131072
    heartbeat_s: int = 60


@dataclass(frozen=True, slots=True)
class BrokerStatistics:
    """What there is to know about the whole broker at one moment."""

    connection_count: int
    channel_count: int
    churn: Churn
    alarms: tuple[str, ...]
    vhosts: tuple[VirtualHostStatistics, ...]


def run_now(work: Callable[[], None], done: Callable[[], None]) -> None:
    """Offload nothing; for tests, and where blocking is no harm."""
    work()
    done()


class Broker:
    """Everything that connections share.

    Attributes:
        importing: whether definitions are being imported.
        handled: counts what may have made something: methods, requests, definitions and so on.
        imported_digest: of what was imported at a start; "" for nothing.
    """

    importing = False
    handled = 0
    imported_digest = ""
    _said_quorum = False

    def __init__(
        self,
        engine: Engine,
        access: Access,
        *,
        record: Callable[[Change], None],
        random_bytes: Callable[[int], bytes],
        offload: Offload = run_now,
        limits: TuneLimits | None = None,
        identity: Mapping[str, Value] | None = None,
        policies: Mapping[str, Sequence[Policy]] | None = None,
        redeclare: Callable[[str], Redeclare] = lambda _: "strict",
        unknown_arguments: Callable[[str], OnUnknown] = lambda _: "warn",
        filter_classes: Iterable[FilterClass] = (),
        group_expires_ms: int = GROUP_EXPIRES_MS,
        memory_bytes_max: int | None = None,
        event_vhost: str = "",
    ) -> None:
        """Makes it.

        Args:
            engine: the engine.
            access: the users.
            record: told of every durable change, in order.
            random_bytes: where unguessable names come from.
            offload: where passwords are hashed.
            limits: what clients are offered.
            identity: server properties beside the capabilities; `product` and `version` at least.
            policies: those of the configuration file, by virtual host.
            filter_classes: those of the configuration file.
            redeclare: what becomes, in a virtual host, of declarations that differ from what is
                there.
            unknown_arguments: what becomes, in a virtual host, of arguments that nothing reads.
            group_expires_ms: how long a group of readers is kept without a member.
            memory_bytes_max: the memory watermark; None: what peers keep has no limit.
            event_vhost: the virtual host whose event exchange gets events; empty: none has one.
        """
        self.engine = engine
        self.group_expires_ms = group_expires_ms
        self.access = access
        self.limits = limits or TuneLimits()
        self.identity: Mapping[str, Value] = identity or {"product": "Leporid"}
        self.vhosts: dict[str, VirtualHost] = {}
        self.sessions: dict[ConnectionState, None] = {}  # in the order in which they began
        self.session_index, self.churn = SessionIndex(), Churn()
        self.refusals = Refusals()
        self.memory = Memory(memory_bytes_max, self.refusals)
        # Of users, and of addresses before the login: all of these have as much as one user.
        self._parties: WeakValueDictionary[tuple[str, Hashable], Party] = WeakValueDictionary()
        self._without_login = Party()
        self.unused = UnusedQueues(self._expire)
        self.handovers, self.cancels = Handovers(engine.jobs), Cancels(engine)
        self.alarms: set[str] = set()
        self.events = Events(engine, event_vhost, self.node_name, self.alarms)
        self.traces = Outbox(engine, "copies of traced messages")
        self.dead_letter_counts = DeadLetterCounts()
        self.logins = Logins(access, offload, self.refusals, engine.jobs)
        self.backends = Backends(Internal(access, lambda: self.logins), access.attempts)
        self.users = Users(access, self.record, self._user_changed, self._user_dropped)
        self.users.events = self.events
        # Virtual hosts whose names are not free, and what becomes of them: deleted, imported.
        self._unfree_vhosts: dict[str, str] = {}
        self.global_parameters = GlobalParameters(self.record, self.events)
        self.filter_classes = FilterClasses(filter_classes, self.record, self._uses_filter_class)
        # How many changes were recorded, and the generation of the last one: whoever sees the
        # count grow has that generation to wait for.
        self.recorded_count = self.recorded_generation = 0
        self._record, self._random_bytes = record, random_bytes
        self._next_queue_id, self._configured_policies = 1, policies or {}
        self._redeclare, self._unknown_arguments = redeclare, unknown_arguments

    def __repr__(self) -> str:
        return f"<Broker vhosts={len(self.vhosts)} sessions={len(self.sessions)}>"

    @property
    def node_name(self) -> str:
        """What RabbitMQ's clients are told that the node is called."""
        return str(self.identity.get("cluster_name", "leporid@localhost"))

    @property
    def cluster_name(self) -> str:
        """What the cluster is called: as somebody has said, or as its node."""
        given = self.global_parameters.get(CLUSTER_NAME)
        if given is not None and isinstance(given.value, str):
            return given.value
        return self.node_name

    def record(self, change: Change) -> None:
        """Record a durable change."""
        self.recorded_count += 1
        self.recorded_generation = self.engine.logs.note_change()
        self._record(change)

    def _expire(self, queue: QueueState) -> None:
        """Nobody has used a queue for as long as it may be unused."""
        logger.debug("%s: nobody used it for %s ms", queue.title, expires_ms(queue))
        self.handled += 1
        vhost = self.vhosts.get(queue.vhost)
        if vhost is None:
            return  # it is being deleted, with all in it
        try:
            vhost.delete_queue(queue)
        except Exception:
            # Everybody's turn goes on.
            logger.exception("defect: %s could not be deleted", queue.title)

    def _uses_filter_class(self, name: str) -> Iterator[str | None]:
        """Say which bindings, consumers and groups ask for a filter class.

        Of a binding that is gone, what waits does. None for what was looked at only, so that
        whoever asks can stop after each and leave the turn to others.
        """
        for vhost in tuple(self.vhosts.values()):
            for place in vhost.verdict_queues.of(name):
                binding = place.binding
                if vhost.verdict_queues.leaves(place):
                    yield (
                        f"messages of a deleted binding from {binding.source} to "
                        f"{binding.destination} in vhost '{vhost.name}', which wait"
                    )
                else:
                    yield (
                        f"the binding from {binding.source} to {binding.destination} in vhost "
                        f"'{vhost.name}'"
                    )
            for group in tuple(vhost.groups):
                yield group.title if group.agreed.get(CLASS) == name else None
            for each in tuple(vhost.consumers.asking(name)):
                yield f"consumer '{each.tag}' of {each.queue.title}"

    def waiting_for_verdicts(self, name: str) -> Iterator[int]:
        """Count the messages that wait for the verdicts of a filter class, part by part.

        Of those that consumers look for, as far as they have looked.
        """
        yield self.engine.searches.waiting_for(name)
        for vhost in tuple(self.vhosts.values()):
            for place in vhost.verdict_queues.of(name):
                yield place.engine.ready_count + place.engine.unacked_count
            for each in tuple(vhost.consumers.asking(name)):
                yield 0 if each.consumer is None else each.consumer.judging

    def settle_verdict_queues(self) -> None:
        """Something was judged: bindings that are gone may have nothing waiting any more."""
        for vhost in self.vhosts.values():
            vhost.verdict_queues.settle()

    def new_queue_id(self) -> int:
        """Return a number that no durable queue ever had."""
        number = self._next_queue_id
        self._next_queue_id += 1
        return number

    def made_quorum_queue(self, title: str) -> None:
        """Say, once, what a quorum queue is here."""
        if not self._said_quorum:
            self._said_quorum = True
            logger.warning(
                "%s is a quorum queue: there is one node, so it has one copy, synced before it is "
                "confirmed; this is said once, of all of them",
                title,
            )

    def redeclare_in(self, vhost: str) -> Redeclare:
        """Return what becomes of declarations that differ from what is there."""
        return self._redeclare(vhost)

    def unknown_arguments_in(self, vhost: str) -> OnUnknown:
        """Return what becomes of arguments that nothing reads."""
        return self._unknown_arguments(vhost)

    def configured_policies(self, vhost: str) -> Iterable[Policy]:
        """Return the policies that the configuration file has for a virtual host."""
        return self._configured_policies.get(vhost, ())

    def set_declaring(
        self, redeclare: Callable[[str], Redeclare], unknown_arguments: Callable[[str], OnUnknown]
    ) -> None:
        """Have other answers to declarations that differ, and to arguments that nothing reads."""
        self._redeclare, self._unknown_arguments = redeclare, unknown_arguments
        for vhost in self.vhosts.values():
            vhost.governor.redeclare = redeclare(vhost.name)
            vhost.unknown_arguments.mode = unknown_arguments(vhost.name)

    def configuring_policies(self, policies: Mapping[str, Sequence[Policy]]) -> Steps:
        """Have other policies of the configuration file, in steps."""
        self._configured_policies = policies
        for vhost in tuple(self.vhosts.values()):
            vhost.governor.policies.configure(policies.get(vhost.name, ()))
            yield from vhost.governor.following()

    def setting_memory_bytes_max(self, memory_bytes_max: int) -> Steps:
        """Have another memory watermark, in steps."""
        accounts = [session.connection.account for session in self.sessions]
        return self.memory.set_watermark(memory_bytes_max, accounts)

    def random_bytes(self, count: int) -> bytes:
        """Return bytes that nobody can guess."""
        return self._random_bytes(count)

    def random_number(self) -> int:
        """Return any number of 64 bits."""
        return int.from_bytes(self._random_bytes(8))

    def new_name(self, prefix: str) -> str:
        """Make a name that nobody can guess."""
        token = urlsafe_b64encode(self._random_bytes(NAME_BYTES)).rstrip(b"=")
        return prefix + token.decode()

    # ------------------------------------------------------------------ virtual hosts

    def add_vhost(self, name: str) -> VirtualHost:
        """Return the virtual host of that name, made if there was none.

        Raises:
            BeingDeleted: one of that name is.
        """
        self._check_vhost_free(name)
        vhost = self.vhosts.get(name)
        if vhost is None:
            vhost = self.vhosts[name] = VirtualHost(name, self)
            self.record(Put(StoredVhost(name)))
            self.events.vhost_set(vhost, new=True)
        return vhost

    def adding_vhost(self, name: str) -> StepsTo[bool]:
        """Make a virtual host, if there is none; returns whether it is new. For jobs."""
        new = name not in self.vhosts
        self.add_vhost(name)
        yield None
        return new

    def _check_vhost_free(self, name: str) -> None:
        if name in self._unfree_vhosts:
            raise BeingDeleted(f"vhost '{name}' is being {self._unfree_vhosts[name]}")

    def reserve_vhost(self, name: str) -> VirtualHost:
        """Make a virtual host that nobody finds before `adopt_vhost`; nothing is recorded.

        Raises:
            BeingDeleted: one of that name is, or is reserved already.
        """
        self._check_vhost_free(name)
        vhost = VirtualHost(name, self)
        self._unfree_vhosts[name] = "imported"
        return vhost

    def adopt_vhost(self, vhost: VirtualHost) -> None:
        """Have one that was reserved, and recorded, found by everybody."""
        self._unfree_vhosts.pop(vhost.name, None)
        self.vhosts[vhost.name] = vhost
        self.events.vhost_set(vhost, new=True)

    def unreserve_vhost(self, name: str) -> None:
        """Let the name of one go that is not wanted any more, and empty."""
        self._unfree_vhosts.pop(name, None)

    def restore(self, snapshot: DefinitionsSnapshot) -> None:
        """Rebuild what was recorded, without recording it again; for start-up."""
        self._next_queue_id = snapshot.next_queue_id
        restore(snapshot, self)

    def restore_vhost(self, name: str) -> None:
        """Add a virtual host that was recorded."""
        self.vhosts[name] = VirtualHost(name, self)

    def dropping_vhost(self, name: str) -> Steps:
        """Delete a virtual host, with all that is in it, in steps; connections to it end first.

        From the first step on nobody finds it. Its record, with that of all inside, goes in one
        piece: a start in the middle finds nothing of it. Its name is free after the last step.

        Raises:
            NotFound: there is none.
        """
        vhost = self.vhosts.pop(name, None)
        if vhost is None:
            raise NotFound(f"no vhost '{name}'")
        self._unfree_vhosts[name] = "deleted"
        self.record(Drop(StoredVhost, (name,)))
        vhost.leave()
        try:
            sessions = self.session_index.of_vhost(name)
            yield from self._closing(sessions, f"vhost '{name}' is deleted")
            for session in sessions:
                yield from session.releasing()
            yield from self.users.leaving_vhost(name)
            yield from vhost.emptying()
            self.events.changed("vhost.deleted", name=name)
        finally:
            self._unfree_vhosts.pop(name, None)

    # ------------------------------------------------------------------ users

    def _user_changed(self, name: str) -> None:
        """Put in force on all connections of a user what has changed of it."""
        sessions = self.session_index.of_user(name)
        self.engine.jobs.start(step for each in sessions for step in renewing(each))

    def recheck(self, name: str) -> None:
        """A server has taken a right from a user: ask what the user's connections still may."""
        for session in self.session_index.of_user(name):
            if session.user.remote is not None:
                recheck(session)

    def _user_dropped(self, name: str) -> None:
        sessions = [each for each in self.session_index.of_user(name) if not each.user.backend]
        self.engine.jobs.start(self._closing(sessions, f"user '{name}' is deleted"))

    def _closing(self, sessions: Iterable[ConnectionState], why: str) -> Steps:
        for session in sessions:
            session.close_for(ConnectionForced(why))
            yield None

    def saving_reader_offsets(self) -> Steps:
        """Record how far the named readers of streams are; the server does so once a second."""
        for vhost in tuple(self.vhosts.values()):
            yield from vhost.offset_tracking.saving()

    def save_reader_offsets(self) -> None:
        """Record that at once: nothing comes after it."""
        for _ in self.saving_reader_offsets():
            pass

    def look_at_groups(self) -> None:
        """Forget the groups that nobody uses; the server does so once a second."""
        for vhost in self.vhosts.values():
            vhost.groups.look_at_all(self.engine.clock.now_ms, self.group_expires_ms)

    # ------------------------------------------------------------------ alarms

    def set_alarm(self, reason: str, on: bool) -> None:
        """Raise or clear one alarm; publishers stay blocked while any is on."""
        if reason not in ALARMS:
            raise ValueError(f"no such alarm: {reason}")
        if on:
            self.alarms.add(reason)
        else:
            self.alarms.discard(reason)
        self.events.alarm(reason, on=on)
        self.engine.connections.publishers_blocked = bool(self.alarms)
        self.memory.total.full = "memory" in self.alarms
        self.engine.jobs.start(self._tell_alarms(tuple(self.sessions)))

    def _tell_alarms(self, sessions: Iterable[ConnectionState]) -> Steps:
        for session in sessions:
            session.tell_alarms()
            yield None

    def party(self, kind: str, key: Hashable) -> Party:
        """Return with whom a connection shares its part of each turn.

        Args:
            kind: "user", or "address" of who has not logged in.
            key: which one.
        """
        found = self._parties.get((kind, key))
        if found is None:
            group = self._without_login if kind == "address" else None
            found = self._parties[kind, key] = Party(group)
        return found

    def alarm_text(self) -> str:
        """Say what connection.blocked says."""
        return "low on " + " & ".join(alarm for alarm in ALARMS if alarm in self.alarms)

    def statistics(self) -> BrokerStatistics:
        """Count what there is."""
        return BrokerStatistics(
            connection_count=len(self.sessions),
            channel_count=self.session_index.channel_count,
            churn=replace(self.churn),
            alarms=tuple(sorted(self.alarms)),
            vhosts=tuple(vhost.statistics() for vhost in self.vhosts.values()),
        )
