"""Virtual hosts, users and permissions of a document.

Responsible for reading them, for comparing them with what is there, and for putting them in force.
Must not know the form of a document, nor who imports it. Invariant: a password in clear never comes
here: whoever imports has hashed it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from leporid.broker.access.access import DEFAULT_USER, User
from leporid.broker.access.limits import MAX_QUEUES, USER_LIMITS, VALUE_MAX, VHOST_LIMITS
from leporid.broker.access.passwords import (
    ALGORITHMS,
    MD5,
    PasswordHashError,
    algorithm_of,
    parse_stored,
)
from leporid.broker.access.permissions import Pattern, PatternError, Permissions
from leporid.broker.access.topics import TopicPermission
from leporid.broker.definitions.members import (
    Item,
    WrongDefinition,
    flag_in,
    name_in,
    object_in,
    tags_in,
    text_in,
)
from leporid.broker.definitions.plan import gone
from leporid.broker.queue.queue_types import QUEUE_TYPES
from leporid.broker.stored import (
    StoredPermissions,
    StoredTopicPermissions,
    StoredUser,
    StoredUserLimit,
    StoredVhost,
    StoredVhostLimit,
    StoredVhostMetadata,
    StoredVhostProtection,
)

if TYPE_CHECKING:
    from leporid.broker.access.passwords import StoredPassword
    from leporid.broker.definitions.plan import Plan
    from leporid.broker.vhost import VirtualHost

RIGHTS: Final = ("configure", "write", "read")
DESCRIPTION_BYTES_MAX: Final = 4096
UNDEFINED: Final = "undefined"
"""RabbitMQ's word for no default type of queues."""


# ------------------------------------------------------------- virtual hosts


def plan_vhost(plan: Plan, item: Item) -> None:
    """Plan a virtual host; what a document does not say of one stays as it is."""
    name = name_in(item)
    metadata = object_in(item, "metadata")
    given = {**metadata, **{key: item[key] for key in _DESCRIBING if item.get(key) is not None}}
    vhost = plan.find_vhost(name)
    new = vhost is None
    if vhost is None:
        vhost = plan.vhosts[name] = plan.broker.reserve_vhost(name)
        plan.put(StoredVhost(name))
        plan.make(_adopting(plan, vhost))
    tags = tuple(sorted(vhost.tags))
    before = vhost.description, tags, vhost.default_queue_type, vhost.protected
    after = _described(plan, name, given, before)
    if plan.note("vhosts", (name,), None if new else before, after):
        _plan_description(plan, vhost, after)
    plan_limits(plan, vhost, object_in(item, "limits"), "vhosts")


_DESCRIBING: Final = ("description", "tags", "default_queue_type")

Description = tuple[str, tuple[str, ...], str, bool]


def _described(plan: Plan, name: str, given: Item, before: Description) -> Description:
    description, tags, queue_type, protected = before
    if "description" in given:
        description = text_in(given, "description", bytes_max=DESCRIPTION_BYTES_MAX)
    if "tags" in given:
        tags = tuple(sorted(tags_in(given)))
    wanted = given.get("default_queue_type")
    if wanted in ("", UNDEFINED):
        queue_type = ""
    elif wanted is not None and wanted not in QUEUE_TYPES:
        what = f"default_queue_type {str(wanted)[:80]!r} of vhost '{name}'"
        plan.difference.ignore(what, f"there are {', '.join(QUEUE_TYPES)}")
    elif wanted is not None:
        queue_type = wanted
    if "protected_from_deletion" in given:
        protected = flag_in(given, "protected_from_deletion")
    for key in given.keys() - {*_DESCRIBING, "protected_from_deletion"}:
        plan.difference.ignore(f"metadata {key[:80]!r} of vhost '{name}'", "nothing reads it")
    return description, tags, queue_type, protected


def _plan_description(plan: Plan, vhost: VirtualHost, after: Description) -> None:
    description, tags, queue_type, protected = after
    if (description, tags, queue_type) != ("", (), "") or vhost.name not in plan.vhosts:
        plan.put(StoredVhostMetadata.of(vhost.name, description, tags, queue_type))
    if protected:
        plan.put(StoredVhostProtection(vhost.name))

    def make() -> None:
        if not gone(vhost):
            vhost.describe(description, tags, queue_type)
            vhost.protect(protected)

    plan.make(make)


def _adopting(plan: Plan, vhost: VirtualHost) -> Callable[[], None]:
    return lambda: plan.broker.adopt_vhost(vhost)


def plan_limits(plan: Plan, vhost: VirtualHost, given: Item, noun: str) -> None:
    """Plan limits of a virtual host.

    Raises:
        WrongDefinition: a value is not a number.
    """
    for limit, value in given.items():
        what = f"limit {limit[:80]!r} of vhost '{vhost.name}'"
        if limit not in VHOST_LIMITS:
            plan.difference.ignore(what, f"there are {', '.join(VHOST_LIMITS)}")
            continue
        number = _number(what, value)
        if noun == "parameters":
            before = vhost.limits.get(limit)
            if not plan.note(noun, (vhost.name, "vhost-limits", limit), before, number):
                continue
        elif vhost.limits.get(limit) == number:
            continue
        plan.put(StoredVhostLimit(vhost.name, limit, number))
        plan.make(_limiting(vhost, limit, number))
        if limit == MAX_QUEUES:
            plan.queues_max[vhost.name] = number


def _limiting(vhost: VirtualHost, limit: str, number: int) -> Callable[[], None]:
    return lambda: None if gone(vhost) else vhost.limit(limit, number)


def _number(what: str, value: Any) -> int:
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or not -VALUE_MAX <= value <= VALUE_MAX
    ):
        raise WrongDefinition(f"{what} should be a number")
    return value


# ------------------------------------------------------------- users


def plan_user(plan: Plan, item: Item) -> None:
    """Plan a user: password, tags and limits; permissions stand elsewhere in a document."""
    name = name_in(item)
    if name in plan.new_users:
        raise WrongDefinition("stands there twice")
    password, tags = _password(item), tuple(tags_in(item))
    before = plan.broker.access.user(name)
    loopback = before.loopback_only if before is not None else name == DEFAULT_USER
    loopback = flag_in(item, "loopback_only", loopback)
    limits = _user_limits(plan, name, item)
    old = before or User(name, password)
    after = replace(
        old,
        password=password,
        tags=tags,
        loopback_only=loopback,
        limits={**old.limits, **limits},
    )
    if before is None:
        plan.new_users.add(name)
    if not plan.note("users", (name,), before, after):
        return
    plan.put(StoredUser.of(after))
    for limit, value in limits.items():
        plan.put(StoredUserLimit(name, limit, value))

    def make() -> None:
        users = plan.broker.users
        users.put(name, password, tags, loopback_only=loopback)
        for limit, value in limits.items():
            users.limit(name, limit, value)

    plan.make(make)


def _password(item: Item) -> StoredPassword:
    text, algorithm = text_in(item, "password_hash", ""), item.get("hashing_algorithm")
    if algorithm is not None and algorithm not in (*ALGORITHMS, MD5):
        raise WrongDefinition(f"unknown hashing_algorithm: there are {', '.join(ALGORITHMS)}")
    try:
        found = parse_stored(text)
    except PasswordHashError as error:
        raise WrongDefinition(f"password_hash {error}") from None
    if text and algorithm is not None and algorithm != algorithm_of(found):
        raise WrongDefinition(f"password_hash is of {algorithm_of(found)}, not of {algorithm}")
    return found


def _user_limits(plan: Plan, name: str, item: Item) -> dict[str, int]:
    found: dict[str, int] = {}
    for limit, value in object_in(item, "limits").items():
        what = f"limit {limit[:80]!r} of user '{name}'"
        if limit in USER_LIMITS:
            found[limit] = _number(what, value)
        else:
            plan.difference.ignore(what, f"there are {', '.join(USER_LIMITS)}")
    return found


# ------------------------------------------------------------- permissions


def plan_permissions(plan: Plan, item: Item) -> None:
    """Plan what a user may do in a virtual host."""
    vhost, name = plan.vhost_of(item), plan.user_of(item)
    patterns = {right: _pattern(item, right) for right in RIGHTS}
    after = Permissions(**patterns)
    user = plan.broker.access.user(name)
    before = None if user is None else user.permissions.get(vhost.name)
    if plan.note("permissions", (vhost.name, name), before, after):
        plan.put(StoredPermissions.of(vhost.name, name, after))
        users = plan.broker.users

        def make() -> None:
            if not gone(vhost) and users.access.user(name) is not None:
                users.permit(name, vhost.name, after)

        plan.make(make)


def plan_topic_permissions(plan: Plan, item: Item) -> None:
    """Plan with which routing keys a user may use an exchange."""
    vhost, name = plan.vhost_of(item), plan.user_of(item)
    exchange = name_in(item, "exchange", may_be_empty=True)
    write, read = (_pattern(item, right).text for right in RIGHTS[1:])
    try:
        after = TopicPermission.of(write, read, username=name, vhost=vhost.name)
    except PatternError as error:
        raise WrongDefinition(f"with the names of user and vhost: {error}") from None
    user = plan.broker.access.user(name)
    before = None if user is None else user.topics.get(vhost.name, {}).get(exchange)
    if plan.note("topic_permissions", (vhost.name, name, exchange), before, after):
        plan.put(StoredTopicPermissions(vhost.name, name, exchange, write, read))
        users = plan.broker.users

        def make() -> None:
            if not gone(vhost) and users.access.user(name) is not None:
                users.permit_topics(name, vhost.name, exchange, after)

        plan.make(make)


def _pattern(item: Item, right: str) -> Pattern:
    try:
        return Pattern(text_in(item, right))
    except PatternError as error:
        raise WrongDefinition(f"{right} {error}") from None
