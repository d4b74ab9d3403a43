"""Users that change: what is in force, what is recorded, and what a restart brings back."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.broker.at_once import authenticate, drop_vhost
from tests.broker.peer import SECRET, World
from tests.broker.recording import Recording

from leporid.amqp.errors import AccessRefused, NotAllowed
from leporid.broker.access.access import User
from leporid.broker.access.passwords import (
    Argon2Hash,
    NoPassword,
    SaltedHash,
    hash_password,
    salted_sha256,
)
from leporid.broker.access.permissions import EVERYTHING, Permissions
from leporid.broker.access.topics import TopicPermission
from leporid.broker.access.users import ConfiguredUser, Users

NAMES = st.sampled_from(["ann", "ben", "guest"])
TAGS = st.lists(st.sampled_from(["administrator", "management", "x y"]), unique=True)
VHOSTS = st.sampled_from(["/", "other", "third"])
EXCHANGES = st.sampled_from(["amq.topic", "t"])
PATTERNS = st.sampled_from(["", ".*", "^a$", "{username}"])
LIMITS = st.sampled_from(["max-connections", "max-channels"])


def salts(count: int) -> bytes:
    return b"s" * count


class Model:
    """What users there should be, in dictionaries."""

    def __init__(self) -> None:
        self.tags: dict[str, Collection[str]] = {}
        self.permissions: dict[tuple[str, str], tuple[str, str, str]] = {}
        self.topics: dict[tuple[str, str, str], tuple[str, str]] = {}
        self.limits: dict[tuple[str, str], int] = {}


class UsersMachine(RuleBasedStateMachine):
    """Random changes, each compared with the model; now and then a restart."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.recording = Recording(())
        self.begin()
        for vhost in ("/", "other", "third"):
            self.world.broker.add_vhost(vhost)

    def begin(self) -> None:
        self.world = World()
        self.broker = self.world.broker
        self.broker.vhosts.clear()
        self.broker.access.drop_user("guest")
        self.broker._record = self.recording.apply

    @property
    def users(self) -> Users:
        return self.broker.users

    @rule(name=NAMES, tags=TAGS)
    def put(self, name: str, tags: list[str]) -> None:
        new = self.users.put(name, NoPassword(), tags)
        assert new == (name not in self.model.tags)
        self.model.tags[name] = tuple(tags)

    @rule(name=NAMES)
    def drop(self, name: str) -> None:
        if name not in self.model.tags:
            with pytest.raises(LookupError):
                self.users.drop(name)
            return
        self.users.drop(name)
        model = self.model
        del model.tags[name]
        model.permissions = {k: v for k, v in model.permissions.items() if k[0] != name}
        model.topics = {k: v for k, v in model.topics.items() if k[0] != name}
        model.limits = {k: v for k, v in model.limits.items() if k[0] != name}

    @rule(name=NAMES, vhost=VHOSTS, patterns=st.tuples(PATTERNS, PATTERNS, PATTERNS))
    def permit(self, name: str, vhost: str, patterns: tuple[str, str, str]) -> None:
        if name in self.model.tags and vhost in self.broker.vhosts:
            new = self.users.permit(name, vhost, Permissions.of(*patterns))
            assert new == ((name, vhost) not in self.model.permissions)
            self.model.permissions[name, vhost] = patterns

    @rule(name=NAMES, vhost=VHOSTS)
    def forbid(self, name: str, vhost: str) -> None:
        if name in self.model.tags:
            there = self.users.forbid(name, vhost)
            assert there == (self.model.permissions.pop((name, vhost), None) is not None)

    @rule(name=NAMES, vhost=VHOSTS, exchange=EXCHANGES, patterns=st.tuples(PATTERNS, PATTERNS))
    def permit_topics(
        self, name: str, vhost: str, exchange: str, patterns: tuple[str, str]
    ) -> None:
        if name in self.model.tags and vhost in self.broker.vhosts:
            permission = TopicPermission.of(*patterns, username=name, vhost=vhost)
            self.users.permit_topics(name, vhost, exchange, permission)
            self.model.topics[name, vhost, exchange] = patterns

    @rule(name=NAMES, vhost=VHOSTS, exchange=st.none() | EXCHANGES)
    def forget_topics(self, name: str, vhost: str, exchange: str | None) -> None:
        if name not in self.model.tags:
            return
        gone = [k for k in self.model.topics if k[:2] == (name, vhost) and exchange in (None, k[2])]
        assert self.users.forget_topics(name, vhost, exchange) == bool(gone)
        for key in gone:
            del self.model.topics[key]

    @rule(name=NAMES, limit=LIMITS, value=st.none() | st.integers(-1, 2))
    def limit(self, name: str, limit: str, value: int | None) -> None:
        if name not in self.model.tags:
            return
        if value is None:
            self.users.unlimit(name, limit)
            self.model.limits.pop((name, limit), None)
        else:
            self.users.limit(name, limit, value)
            self.model.limits[name, limit] = value

    @rule(vhost=VHOSTS)
    def change_vhost(self, vhost: str) -> None:
        if vhost not in self.broker.vhosts:
            self.broker.add_vhost(vhost)
            return
        drop_vhost(self.broker, vhost)
        model = self.model
        model.permissions = {k: v for k, v in model.permissions.items() if k[1] != vhost}
        model.topics = {k: v for k, v in model.topics.items() if k[1] != vhost}

    @rule()
    def restart(self) -> None:
        self.begin()
        self.broker.restore(self.recording.snapshot())

    @invariant()
    def they_are_the_same(self) -> None:
        found, users = Model(), tuple(self.broker.access)
        for user in users:
            found.tags[user.name] = user.tags
            for vhost, given in user.permissions.items():
                texts = given.configure.text, given.write.text, given.read.text
                found.permissions[user.name, vhost] = texts
            for vhost, there in user.topics.items():
                for exchange, topic in there.items():
                    found.topics[user.name, vhost, exchange] = topic.write, topic.read
            for limit, value in user.limits.items():
                found.limits[user.name, limit] = value
        assert vars(found) == vars(self.model)


UsersMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=25)
TestUsers = UsersMachine.TestCase


# ------------------------------------------------------------------ the configuration's


@pytest.fixture
def world() -> World:
    found = World()
    found.broker.access.drop_user("guest")
    return found


def restarted(world: World) -> World:
    again = World()
    again.broker.access.drop_user("guest")
    again.broker.vhosts.clear()
    again.broker.restore(Recording(("/", "other"), world.changes).snapshot())
    again.changes[:0] = world.changes
    return again


def seeded(world: World, *configured: ConfiguredUser) -> dict[str, User]:
    world.broker.users.seed(configured, salts)
    return {user.name: user for user in world.broker.access}


FILE = (
    ConfiguredUser("ann", "secret", tags=("x",), permissions={"/": EVERYTHING}),
    ConfiguredUser("guest", "guest", loopback_only=True),
)


def test_the_first_start_takes_all_users(world: World):
    found = seeded(world, *FILE)
    assert found["ann"].permissions == {"/": EVERYTHING}
    assert found["ann"].tags == ("x",)
    assert isinstance(found["ann"].password, Argon2Hash)
    assert found["ann"].password.matches(b"secret")
    assert found["guest"].loopback_only


def test_the_password_that_everybody_knows_is_no_slow_hash(world: World):
    found = seeded(world, *FILE)
    assert isinstance(found["guest"].password, SaltedHash)
    assert found["guest"].password.matches(b"guest")


def test_later_starts_take_none_and_say_which(world: World, caplog: pytest.LogCaptureFixture):
    seeded(world, *FILE)
    world.broker.users.drop("guest")
    again = restarted(world)
    with caplog.at_level(logging.INFO):
        found = seeded(again, *FILE, ConfiguredUser("new", "x"))
    assert set(found) == {"ann"}
    assert "'ann', 'guest', 'new'; enforce = true in [users.NAME]" in caplog.text
    assert "secret" not in caplog.text


def test_nobody_is_told_of_the_guest_that_nobody_wrote_down(
    world: World, caplog: pytest.LogCaptureFixture
):
    seeded(world)
    with caplog.at_level(logging.INFO):
        world.broker.users.seed(FILE, salts, named=False)
    assert caplog.text == ""
    assert list(world.broker.access) == []


def test_enforced_users_are_what_the_file_says_at_each_start(world: World):
    seeded(world, *FILE)
    world.broker.users.permit("ann", "other", EVERYTHING)
    world.broker.users.limit("ann", "max-channels", 3)
    enforced = ConfiguredUser("ann", "other", permissions={"/": Permissions.of()}, enforced=True)
    added = ConfiguredUser("new", password_hash=salted_sha256("p", SECRET), enforced=True)
    again = restarted(world)
    found = seeded(again, enforced, added)
    assert set(found) == {"ann", "guest", "new"}
    assert found["ann"].password.matches(b"other")
    assert (found["ann"].permissions, found["ann"].tags) == ({"/": Permissions.of()}, ())
    assert found["ann"].limits == {"max-channels": 3}
    # What is as it should be is not written again.
    last = restarted(again)
    before = len(last.changes)
    assert seeded(last, enforced, added)["ann"].permissions == found["ann"].permissions
    assert len(last.changes) == before


def test_no_password_stands_in_a_repr():
    assert "secret" not in repr(ConfiguredUser("ann", "secret"))
    stored = World().broker.users
    assert "secret" not in repr(stored)


# ------------------------------------------------------------------ in force


def test_a_new_password_makes_the_old_one_worthless(world: World):
    users, access = world.broker.users, world.broker.access
    users.put("ann", hash_password("old", salts(16)), frozenset())
    assert authenticate(access, "PLAIN", b"\0ann\0old", loopback=True).name == "ann"
    users.put("ann", hash_password("new", salts(16)), frozenset())
    with pytest.raises(AccessRefused):
        authenticate(access, "PLAIN", b"\0ann\0old", loopback=True)
    assert authenticate(access, "PLAIN", b"\0ann\0new", loopback=True).name == "ann"


def test_nobody_logs_in_without_a_password(world: World):
    world.broker.users.put("ann", NoPassword(), frozenset())
    for password in (b"", b"x"):
        with pytest.raises(AccessRefused):
            authenticate(world.broker.access, "PLAIN", b"\0ann\0" + password, loopback=True)


def test_a_user_called_guest_is_of_this_machine_only(world: World):
    world.broker.users.put("guest", salted_sha256("x", SECRET), frozenset())
    with pytest.raises(AccessRefused):
        authenticate(world.broker.access, "PLAIN", b"\0guest\0x", loopback=False)


def test_what_does_not_change_is_not_recorded(world: World):
    users, password = world.broker.users, NoPassword()
    users.put("ann", password, frozenset({"t"}))
    users.permit("ann", "/", EVERYTHING)
    users.limit("ann", "max-channels", 1)
    count, version = len(world.changes), world.broker.access.version
    users.put("ann", password, frozenset({"t"}))
    users.permit("ann", "/", EVERYTHING)
    users.limit("ann", "max-channels", 1)
    users.unlimit("ann", "max-connections")
    assert (len(world.changes), world.broker.access.version) == (count, version)


def test_who_leaves_a_virtual_host_is_refused_there(world: World):
    users: Any = world.broker.users
    users.put("ann", NoPassword(), frozenset())
    users.permit("ann", "other", EVERYTHING)
    drop_vhost(world.broker, "other")
    with pytest.raises(NotAllowed):
        world.broker.access.require("ann").check_vhost("other")
