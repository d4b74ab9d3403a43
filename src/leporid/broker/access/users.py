"""Users, changed at run time: what an administrator changes is recorded, and then in force.

Responsible for each change of a user, of its permissions and of its limits. Must not know who asks,
nor what a connection is: whoever has something of a user's in use is told its name. Invariant: a
`User` is replaced by each change and recorded in the same turn, so what is in force is what the
recorded changes add up to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

from leporid.broker.access.access import DEFAULT_USER, Access, User
from leporid.broker.access.passwords import (
    RABBITMQ_SALT_BYTES,
    SALT_BYTES,
    Argon2Hash,
    SaltedHash,
    StoredPassword,
    hash_password,
    salted_sha256,
)
from leporid.broker.access.permissions import RIGHTS
from leporid.broker.stored import (
    Stored,
    StoredPermissions,
    StoredSeeding,
    StoredTopicPermissions,
    StoredUser,
    StoredUserLimit,
)
from leporid.durable import Change, Drop, Put

if TYPE_CHECKING:
    from leporid.amqp.tables import Value
    from leporid.broker.access.permissions import Permissions
    from leporid.broker.access.topics import TopicPermission
    from leporid.broker.events.events import Events
    from leporid.broker.registry import Steps

logger = logging.getLogger(__name__)

V = TypeVar("V")

SEEDING: Final = "users"
"""The name of the mark that the users of the configuration were taken once."""


@dataclass(frozen=True, slots=True)
class ConfiguredUser:
    """One user of the configuration file.

    Attributes:
        name: the name.
        password: in clear, or
        password_hash: as a hash.
        tags, permissions, loopback_only: as `User`.
        enforced: whether the file has the last word at each start.
    """

    name: str
    password: str | None = field(default=None, repr=False)
    password_hash: Argon2Hash | SaltedHash | None = field(default=None, repr=False)
    tags: Collection[str] = ()
    permissions: Mapping[str, Permissions] = field(default_factory=dict)
    loopback_only: bool = False
    enforced: bool = False

    def stored_password(self, random_bytes: Callable[[int], bytes]) -> StoredPassword:
        """Return the hash, which is made if the password stands in clear; tens of milliseconds.

        Everybody knows guest's own password: a slow hash would cost time, and protect nothing.
        """
        if self.password is None:
            assert self.password_hash is not None
            return self.password_hash
        if self.name == self.password == DEFAULT_USER:
            return salted_sha256(self.password, random_bytes(RABBITMQ_SALT_BYTES))
        return hash_password(self.password, random_bytes(SALT_BYTES))

    def is_kept_as(self, user: User) -> bool:
        """Say whether a user has what stands here; compares the password, which may be slow."""
        if self.password is None:
            same = user.password == self.password_hash
        else:
            same = user.password.matches(self.password.encode())
        return (
            same
            and set(user.tags) == set(self.tags)
            and user.permissions == self.permissions
            and user.loopback_only == self.loopback_only
        )


class Users:
    """The changes of users.

    Args:
        access: the users.
        record: is told of each durable change.
        changed: (name) a user is another one now.
        dropped: (name) a user is gone.

    Attributes:
        access: the users.
        seeded: whether the configuration's users were taken once.
        events: told of each change; None: nobody is.
    """

    def __init__(
        self,
        access: Access,
        record: Callable[[Change], None],
        changed: Callable[[str], None],
        dropped: Callable[[str], None],
    ) -> None:
        self.access = access
        self.seeded = False
        self.events: Events | None = None
        self._record = record
        self._changed = changed
        self._dropped = dropped

    def __repr__(self) -> str:
        return f"<Users {self.access!r}>"

    # ------------------------------------------------------------------ changes

    def put(
        self,
        name: str,
        password: StoredPassword,
        tags: Collection[str],
        *,
        loopback_only: bool | None = None,
    ) -> bool:
        """Add a user, or give one another password and other tags; returns whether it is new.

        Args:
            name: the user's.
            password: how it is kept.
            tags: all of them.
            loopback_only: as `User`; None: as it was, and of a new user as RabbitMQ has it.
        """
        old, tags = self.access.user(name), tuple(tags)
        if old is None:
            user = User(name, password, tags, loopback_only=name == DEFAULT_USER)
        else:
            user = replace(old, password=password, tags=tags)
        if loopback_only is not None:
            user = replace(user, loopback_only=loopback_only)
        if user != old:
            self._put(user, StoredUser.of(user))
        self._tell("user.created" if old is None else "user.password.changed", name=name)
        self._tell("user.tags.set", name=name, tags=[*tags])
        return old is None

    def drop(self, name: str) -> None:
        """Delete a user, with all its permissions and limits; raises LookupError without one."""
        self.access.require(name)
        self.access.drop_user(name)
        self._record(Drop(StoredUser, (name,)))
        self._tell("user.deleted", name=name)
        self._dropped(name)

    def permit(self, name: str, vhost: str, permissions: Permissions) -> bool:
        """Set a user's permissions in a virtual host; returns whether there were none.

        Raises:
            LookupError: there is no such user.
        """
        user = self.access.require(name)
        old = user.permissions.get(vhost)
        if permissions != old:
            self._put(
                replace(user, permissions={**user.permissions, vhost: permissions}),
                StoredPermissions.of(vhost, name, permissions),
            )
        patterns = {right: getattr(permissions, right).text for right in RIGHTS}
        self._tell("permission.created", user=name, vhost=vhost, **patterns)
        return old is None

    def forbid(self, name: str, vhost: str) -> bool:
        """Take a user's permissions in a virtual host away; returns whether there were some."""
        user = self.access.require(name)
        if vhost not in user.permissions:
            return False
        self._drop(
            replace(user, permissions=_without(user.permissions, vhost)),
            Drop(StoredPermissions, (vhost, name)),
        )
        self._tell("permission.deleted", user=name, vhost=vhost)
        return True

    def permit_topics(
        self, name: str, vhost: str, exchange: str, permission: TopicPermission
    ) -> bool:
        """Set a user's topic permission for an exchange; returns whether there was none.

        Raises:
            LookupError: there is no such user.
        """
        user = self.access.require(name)
        there = user.topics.get(vhost, {})
        old = there.get(exchange)
        if permission != old:
            topics = {**user.topics, vhost: {**there, exchange: permission}}
            stored = StoredTopicPermissions(
                vhost, name, exchange, permission.write, permission.read
            )
            self._put(replace(user, topics=topics), stored)
        patterns = {"write": permission.write, "read": permission.read}
        of = {"user": name, "vhost": vhost, "exchange": exchange}
        self._tell("topic.permission.created", **of, **patterns)
        return old is None

    def forget_topics(self, name: str, vhost: str, exchange: str | None = None) -> bool:
        """Take topic permissions away, of one exchange or of all; returns whether there were some.

        Every routing key may be used afterwards, as far as the other permissions allow.
        """
        user = self.access.require(name)
        there = user.topics.get(vhost, {})
        gone = [each for each in there if exchange is None or each == exchange]
        if not gone:
            return False
        left = {each: permission for each, permission in there.items() if each not in gone}
        topics = {**user.topics, vhost: left} if left else _without(user.topics, vhost)
        drops = (Drop(StoredTopicPermissions, (vhost, name, each)) for each in gone)
        self._drop(replace(user, topics=topics), *drops)
        self._tell("topic.permission.deleted", user=name, vhost=vhost)
        return True

    def limit(self, name: str, limit: str, value: int) -> None:
        """Set one of a user's limits; raises LookupError without the user."""
        user = self.access.require(name)
        if user.limits.get(limit) != value:
            limited = replace(user, limits={**user.limits, limit: value})
            self._put(limited, StoredUserLimit(name, limit, value))
        limits: dict[str, Value] = {limit: value}
        self._tell("user.limits.set", username=name, name="limits", **limits)

    def unlimit(self, name: str, limit: str) -> None:
        """Take one of a user's limits away, if it is set; raises LookupError without the user."""
        user = self.access.require(name)
        if limit in user.limits:
            unlimited = replace(user, limits=_without(user.limits, limit))
            self._drop(unlimited, Drop(StoredUserLimit, (name, limit)))
            self._tell("user.limits.cleared", username=name, name="limits")

    def leaving_vhost(self, vhost: str) -> Steps:
        """Drop all permissions in a virtual host that was deleted with its records, in steps."""
        for user in tuple(self.access):
            now = self.access.user(user.name)
            if now is not None and (vhost in now.permissions or vhost in now.topics):
                self._drop(
                    replace(
                        now,
                        permissions=_without(now.permissions, vhost),
                        topics=_without(now.topics, vhost),
                    )
                )
                self._tell("permission.deleted", user=user.name, vhost=vhost)
            yield None

    def _tell(self, key: str, **fields: Value) -> None:
        if self.events is not None:
            self.events.changed(key, **fields)

    def _put(self, user: User, stored: Stored) -> None:
        self.access.put_user(user)
        self._record(Put(stored))
        self._changed(user.name)

    def _drop(self, user: User, *drops: Drop) -> None:
        self.access.put_user(user)
        for drop in drops:
            self._record(drop)
        self._changed(user.name)

    # ------------------------------------------------------------------ the configuration's

    def seed(
        self,
        configured: Iterable[ConfiguredUser],
        random_bytes: Callable[[int], bytes],
        *,
        named: bool = True,
    ) -> None:
        """Take users from the configuration: all of them the first time, then those enforced.

        Args:
            configured: they; their virtual hosts are there.
            random_bytes: where salts come from.
            named: whether somebody has written them down, and wants to know if they do not count.
        """
        ignored = []
        for one in configured:
            stored = self.access.user(one.name)
            if self.seeded and not one.enforced:
                ignored.append(one.name)
            elif stored is None or not one.is_kept_as(stored):
                self._replace(one, one.stored_password(random_bytes))
        if not self.seeded:
            self.seeded = True
            self._record(Put(StoredSeeding(SEEDING)))
        if ignored and named:
            logger.info(
                "users of the configuration that are ignored, as the data directory has its own: "
                "%s; enforce = true in [users.NAME] has the configuration's count at each start",
                ", ".join(map(ascii, ignored)),
            )
        self.access.check_costs()

    def _replace(self, one: ConfiguredUser, password: StoredPassword) -> None:
        """Make a user what the configuration says; topic permissions and limits stay."""
        old = self.access.user(one.name)
        for vhost in () if old is None else tuple(old.permissions):
            if vhost not in one.permissions:
                self.forbid(one.name, vhost)
        old = self.access.user(one.name) or User(one.name, password)
        user = replace(old, password=password, tags=one.tags, loopback_only=one.loopback_only)
        self._put(user, StoredUser.of(user))
        for vhost, permissions in one.permissions.items():
            self.permit(one.name, vhost, permissions)


def _without(values: Mapping[str, V], key: str) -> dict[str, V]:
    return {each: value for each, value in values.items() if each != key}
