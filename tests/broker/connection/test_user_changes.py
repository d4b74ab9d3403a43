"""What a live connection does when its user has ended, or a server says otherwise of its rights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import pytest
from tests.broker.peer import SECRET, Peer, World

from leporid.amqp.methods import (
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    ConnectionClose,
    ConnectionOpenOk,
    QueueDeclare,
    QueueDeclareOk,
)
from leporid.broker.access.access import User
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import EVERYTHING
from leporid.broker.access.remote_rights import (
    RemotePermissions,
    RemoteRights,
    RemoteTopics,
    RightQuery,
)
from leporid.broker.connection.user_changes import look_at_user, recheck
from leporid.engine.bounds.jobs import Jobs

AGE_S = 8.0


class Deciding:
    """A broker with a user whose rights a server decides, which answers when the test says so.

    Attributes:
        denied: names of queues that may not be read, or the virtual host.
    """

    def __init__(self) -> None:
        self.denied: set[str] = set()
        self.held: list[Callable[[], None]] = []
        self.holding = False
        self.asked: list[RightQuery] = []
        self.rights = RemoteRights(
            self._send,
            lambda: AGE_S,
            self._now_s,
            lambda: self.world.broker.recheck("jo"),
            cast("Jobs", self),
        )
        jo = User(
            "jo",
            salted_sha256("jo", SECRET),
            permissions=RemotePermissions(self.rights),
            topics=RemoteTopics(self.rights),
            backend="http",
            remote=self.rights,
        )
        self.world = World(jo)

    def _now_s(self) -> float:
        return self.world.engine.clock.now_ms / 1000

    def start(self, steps: Iterator[object]) -> None:
        """Do work as the engine, which is made later."""
        self.world.engine.jobs.start(steps)

    def _send(self, query: RightQuery, answered: Callable[[bool | None], None]) -> None:
        self.asked.append(query)

        def say() -> None:
            answered(query.name not in self.denied and query.vhost not in self.denied)

        if self.holding:
            self.held.append(say)
        else:
            say()

    def release(self) -> None:
        self.holding = False
        held, self.held = self.held, []
        for say in held:
            say()

    def peer(self) -> Peer:
        peer = self.world.peer(user="jo", password="jo")
        assert peer.session.opened
        return peer

    def pass_s(self, seconds: float) -> None:
        self.world.engine.clock.now_ms += int(seconds * 1000)


@pytest.fixture
def deciding() -> Deciding:
    return Deciding()


def test_the_handshake_waits_for_the_right_to_enter(deciding: Deciding):
    deciding.holding = True
    peer = Peer(deciding.world.broker)
    assert peer.handshake("jo", "jo") == []
    assert deciding.asked == [RightQuery("vhost", "/")]
    deciding.release()
    assert peer.sent(ConnectionOpenOk)


def test_a_method_is_handled_once_its_rights_are_known(deciding: Deciding):
    peer = deciding.peer()
    deciding.holding = True
    assert peer.say(QueueDeclare(queue="q")) == []
    assert deciding.world.broker.churn.queues_declared == 0
    deciding.release()
    assert peer.sent(QueueDeclareOk)
    assert deciding.world.broker.churn.queues_declared == 1


def test_a_queue_without_a_name_has_one_name_however_long_that_takes(deciding: Deciding):
    peer = deciding.peer()
    names = set()
    for _ in range(2):
        deciding.holding = True
        peer.say(QueueDeclare(queue=""))
        deciding.release()
        names.add(peer.sent(QueueDeclareOk)[-1].queue)
    configured = [each.name for each in deciding.asked if each.right == "configure"]
    assert set(configured) == names
    assert len(configured) == len(names) == 2


def test_consumers_whose_right_is_taken_away_are_cancelled(deciding: Deciding):
    peer = deciding.peer()
    for name in ("kept", "lost"):
        peer.say(QueueDeclare(queue=name))
        assert isinstance(peer.call(BasicConsume(queue=name, consumer_tag=name)), BasicConsumeOk)
    deciding.denied.add("lost")
    deciding.pass_s(AGE_S / 2)
    recheck(peer.session)  # it is renewed, and found to be gone
    look_at_user(peer.session)
    deciding.world.broker.cancels.run(0)
    assert [each.consumer_tag for each in peer.sent(BasicCancel)] == ["lost"]
    assert [*peer.session.channels[1].subscriptions] == ["kept"]


def test_an_answer_that_is_too_old_is_waited_for(deciding: Deciding):
    peer = deciding.peer()
    peer.say(QueueDeclare(queue="q"))
    peer.call(BasicConsume(queue="q", consumer_tag="q"))
    deciding.pass_s(AGE_S + 1)
    deciding.holding = True
    deciding.denied.add("q")
    look_at_user(peer.session)
    look_at_user(peer.session)
    assert peer.session.rechecking
    assert "q" in peer.session.channels[1].subscriptions
    deciding.release()
    assert "q" not in peer.session.channels[1].subscriptions
    assert not peer.session.rechecking


def test_who_may_not_enter_any_more_is_closed(deciding: Deciding):
    peer = deciding.peer()
    deciding.denied.add("/")
    deciding.pass_s(AGE_S + 1)
    look_at_user(peer.session)
    (closed,) = peer.sent(ConnectionClose)
    assert (closed.reply_code, "revoked" in closed.reply_text) == (320, True)


def test_rights_in_use_are_asked_about_as_often_as_they_must(deciding: Deciding):
    peer = deciding.peer()
    asked = len(deciding.asked)
    for _ in range(16):
        deciding.pass_s(1)
        look_at_user(peer.session)
    # The virtual host, each half of the age at the most often.
    assert 3 <= len(deciding.asked) - asked <= 4


def test_who_leaves_while_a_right_is_asked_leaves_nothing(deciding: Deciding):
    peer = deciding.peer()
    deciding.holding = True
    peer.say(QueueDeclare(queue="q"))
    deciding.pass_s(AGE_S + 1)
    recheck(peer.session)
    assert len(peer.session.waiting) == 2
    peer.session.on_lost()
    assert (peer.session.waiting, deciding.world.engine.jobs.waiting) == ({}, 0)
    deciding.release()
    assert deciding.world.broker.vhosts["/"].find_queue("q") is None


def test_the_user_of_a_token_ends_with_it():
    world = World(User("jo", salted_sha256("jo", SECRET), permissions={"/": EVERYTHING}))
    peer = world.peer(user="jo", password="jo")
    peer.session.user = replace(peer.session.user, backend="oauth2", expires_ms=5000)
    world.engine.clock.wall_ms = 4999
    look_at_user(peer.session)
    assert not peer.sent(ConnectionClose)
    world.engine.clock.wall_ms = 5000
    look_at_user(peer.session)
    assert [each.reply_code for each in peer.sent(ConnectionClose)] == [320]
