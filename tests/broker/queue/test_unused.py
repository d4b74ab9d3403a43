"""Queues that nobody uses go, on time; those that somebody uses stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.broker.at_once import drop_policy, drop_vhost, set_policy
from tests.broker.peer import Peer, World
from tests.broker.recording import Recording, drops

from leporid.amqp.methods import (
    BasicCancel,
    BasicConsume,
    BasicGet,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDelete,
)
from leporid.amqp.tables import Value
from leporid.broker.policy.policies import make_policy
from leporid.broker.queue.queue import ConsumerState
from leporid.broker.queue.unused import EXPIRED_MAX, LOOKS_MAX, STALE_SLACK, UnusedQueues
from leporid.broker.settings.effects import EXPIRY
from leporid.broker.settings.effects import expires_ms as expiry_of
from leporid.broker.stored import StoredQueue

NOBODY: Any = None


@dataclass
class Scene:
    """A broker, a client, and the time."""

    world: World
    peer: Peer
    now_ms: int = 1000

    def wait(self, milliseconds: int) -> None:
        """Let time pass as the server does: a round whenever something is due."""
        unused, end = self.world.broker.unused, self.now_ms + milliseconds
        unused.run(self.now_ms)
        while unused.next_due_ms and unused.next_due_ms <= end:
            self.now_ms = max(self.now_ms, unused.next_due_ms)
            unused.run(self.now_ms)
        self.now_ms = end
        unused.run(self.now_ms)

    def declare(self, name: str = "q", expires_ms: int | None = 100, **how: Any) -> None:
        arguments: dict[str, Value] = {} if expires_ms is None else {"x-expires": expires_ms}
        self.peer.call(QueueDeclare(queue=name, arguments=arguments, **how))

    def is_there(self, name: str = "q") -> bool:
        return self.world.broker.vhosts["/"].find_queue(name) is not None


@pytest.fixture
def scene() -> Scene:
    world = World()
    return Scene(world, world.peer())


def test_an_unused_queue_goes_when_its_time_is_over_and_no_sooner(scene: Scene):
    scene.declare()
    scene.declare("other", None)
    scene.wait(99)
    assert scene.is_there()
    scene.wait(1)
    assert not scene.is_there()
    assert scene.is_there("other")
    assert scene.world.broker.unused.next_due_ms == 0


@pytest.mark.parametrize(
    "use",
    [
        QueueDeclare(queue="q", arguments={"x-expires": 100}),
        QueueDeclare(queue="q", passive=True),
        BasicGet(queue="q"),
    ],
)
def test_a_use_begins_its_time_anew(scene: Scene, use: Any):
    scene.declare()
    for _ in range(3):
        scene.wait(99)
        scene.peer.call(use)
    scene.wait(99)
    assert scene.is_there()
    scene.wait(1)
    assert not scene.is_there()


def test_a_publish_is_no_use(scene: Scene):
    scene.declare()
    scene.wait(60)
    scene.peer.connection.publish(1, "", "q")
    scene.wait(40)
    assert not scene.is_there()


def test_a_queue_with_a_consumer_stays_until_so_long_after_the_last_one(scene: Scene):
    scene.declare()
    scene.wait(50)
    for tag in ("one", "two"):
        scene.peer.call(BasicConsume(queue="q", consumer_tag=tag))
    scene.wait(1000)
    scene.peer.call(BasicCancel(consumer_tag="one"))
    scene.wait(1000)
    scene.peer.call(BasicCancel(consumer_tag="two"))
    scene.wait(99)
    assert scene.is_there()
    scene.wait(1)
    assert not scene.is_there()


def test_what_goes_is_gone_with_all_that_belongs_to_it(scene: Scene):
    arguments: dict[str, Value] = {
        "x-expires": 100,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "m",
    }
    scene.declare("m", None)
    scene.peer.call(ExchangeDeclare(exchange="e", type="fanout", auto_delete=True))
    scene.peer.call(QueueDeclare(queue="q", durable=True, arguments=arguments))
    scene.peer.call(QueueBind(queue="q", exchange="e"))
    scene.peer.connection.publish(1, "", "q")
    scene.wait(100)
    assert not scene.is_there()
    assert scene.world.broker.vhosts["/"].find_exchange("e") is None
    assert scene.world.queue("m").ready_count == 0
    assert drops([scene.world.changes[-1]], StoredQueue)


def test_a_policy_gives_changes_and_takes_away(scene: Scene):
    vhost = scene.world.broker.vhosts["/"]
    scene.declare(expires_ms=None)
    scene.declare("own", 5000)
    scene.wait(1000)
    set_policy(vhost, make_policy("p", "", {"expires": 300}))
    scene.wait(299)
    assert scene.is_there("q")
    set_policy(vhost, make_policy("p", "", {"expires": 50}))  # begins anew, and is shorter
    scene.wait(49)
    assert scene.is_there("q")
    drop_policy(vhost, "p")
    scene.wait(4999)
    assert scene.is_there("own")
    scene.wait(1)
    assert (scene.is_there("q"), scene.is_there("own")) == (True, False)


def test_after_a_restart_the_time_begins_anew():
    first = World()
    first.peer().call(QueueDeclare(queue="q", durable=True, arguments={"x-expires": 100}))
    recording = Recording(["/"])
    for change in first.changes:
        recording.apply(change)
    world = World()
    world.broker.restore(recording.snapshot())
    scene = Scene(world, world.peer(), now_ms=10**9)
    scene.wait(99)
    assert scene.is_there()
    scene.wait(1)
    assert not scene.is_there()


def test_many_at_once_go_in_several_rounds(scene: Scene):
    for number in range(EXPIRED_MAX + 1):
        scene.declare(f"q{number}")
    unused = scene.world.broker.unused
    unused.run(scene.now_ms)
    late_ms = scene.now_ms + 1000
    unused.run(late_ms)
    assert len(scene.world.broker.vhosts["/"]._queues) == 1
    assert 0 < unused.next_due_ms < late_ms
    unused.run(late_ms)
    assert len(scene.world.broker.vhosts["/"]._queues) == 0


def test_a_queue_that_is_deleted_leaves_nothing_behind(scene: Scene):
    for number in range(3 * STALE_SLACK):
        scene.declare(f"q{number}", 1_000_000)
        scene.wait(1)
        scene.peer.call(QueueDelete(queue=f"q{number}"))
    assert scene.world.broker.unused.timer_count <= 2 * STALE_SLACK + 2
    scene.declare("q", 10)
    scene.wait(10)
    assert not scene.is_there("q")
    scene.wait(10**9)
    assert scene.world.broker.unused.next_due_ms == 0


def test_timers_of_one_moment_are_looked_at_in_several_rounds(scene: Scene):
    count = 2 * LOOKS_MAX + 1
    for number in range(count):
        scene.declare(f"q{number}", 1000)
    unused = scene.world.broker.unused
    unused.run(scene.now_ms)
    scene.wait(500)
    for number in range(count):
        scene.declare(f"q{number}", 1000)  # used again: none goes when its timer rings
    unused.run(scene.now_ms)
    rings_ms, later_ms = scene.now_ms + 500, scene.now_ms + 1000
    vhost = scene.world.broker.vhosts["/"]
    queues = [vhost.queue(f"q{number}") for number in range(count)]
    for rung in (LOOKS_MAX, 2 * LOOKS_MAX, count):
        assert unused.next_due_ms <= rings_ms
        unused.run(rings_ms)
        assert sum(queue.timer_ms == later_ms for queue in queues) == rung
    assert unused.next_due_ms == later_ms


def test_timers_of_queues_that_are_gone_are_forgotten_in_several_rounds(scene: Scene):
    count = 4 * STALE_SLACK
    for number in range(count):
        scene.declare(f"q{number}", 1_000_000)
    scene.declare("stays", 1_000_000)
    unused = scene.world.broker.unused
    unused.run(scene.now_ms)
    for number in range(count):
        scene.peer.call(QueueDelete(queue=f"q{number}"))
    rounds = 0
    while unused.next_due_ms == 1:
        before = unused.timer_count
        unused.run(scene.now_ms)
        assert before - unused.timer_count <= LOOKS_MAX
        rounds += 1
    assert rounds >= count // LOOKS_MAX
    assert unused.timer_count <= STALE_SLACK
    scene.wait(999_999)
    assert scene.is_there("stays")
    scene.wait(1)
    assert not scene.is_there("stays")


def test_a_virtual_host_may_go_first(scene: Scene):
    scene.declare()
    scene.wait(1)
    drop_vhost(scene.world.broker, "/")
    scene.wait(1000)


class UseMachine(RuleBasedStateMachine):
    """Two queues against what is said of them: last use, time, consumers."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1
        self.gone: list[str] = []
        self.seen = 0
        self.unused = UnusedQueues(self.expire)
        self.vhost = World().broker.vhosts["/"]
        self.queues = {name: self.vhost.make_queue(name) for name in "ab"}
        self.used_ms = dict.fromkeys("ab", 0)

    def expire(self, queue: Any) -> None:
        queue.deleted = True
        self.unused.forget(queue)
        self.gone.append(queue.name)

    def there(self, name: str) -> bool:
        return name not in self.gone

    @rule(name=st.sampled_from("ab"), expires_ms=st.none() | st.integers(1, 20))
    def set_time(self, name: str, expires_ms: int | None) -> None:
        if self.there(name):
            self.queues[name].in_force = {EXPIRY: expires_ms}
            self.use(name)

    @rule(name=st.sampled_from("ab"))
    def use(self, name: str) -> None:
        if self.there(name):
            self.used_ms[name] = self.now_ms
            self.unused.used(self.queues[name])
            self.unused.run(self.now_ms)

    @rule(name=st.sampled_from("ab"))
    def consume(self, name: str) -> None:
        queue: Any = self.queues[name]
        queue.subscriptions.add(ConsumerState("c", queue, NOBODY, exclusive=False))

    @rule(name=st.sampled_from("ab"))
    @precondition(lambda self: any(each.subscriptions for each in self.queues.values()))
    def cancel(self, name: str) -> None:
        if self.queues[name].subscriptions:
            for consumer in self.queues[name].subscriptions:
                self.queues[name].subscriptions.remove(consumer)
            self.use(name)

    @rule(milliseconds=st.integers(1, 15))
    def wait(self, milliseconds: int) -> None:
        for _ in range(milliseconds):
            self.now_ms += 1
            if self.unused.next_due_ms and self.unused.next_due_ms <= self.now_ms:
                self.unused.run(self.now_ms)
            newly = self.newly_gone()
            for name, queue in self.queues.items():
                expires_ms = expiry_of(queue)
                over = (
                    expires_ms is not None
                    and not queue.subscriptions
                    and self.now_ms >= self.used_ms[name] + expires_ms
                )
                # Once gone, it stays so, whatever the model goes on to say of it.
                assert over or name not in newly
                assert name in self.gone or not over

    def newly_gone(self) -> list[str]:
        """Those that have gone in this millisecond."""
        newly = self.gone[self.seen :]
        self.seen = len(self.gone)
        return newly

    @invariant()
    def nobody_goes_twice(self) -> None:
        assert len(set(self.gone)) == len(self.gone)


TestUses = UseMachine.TestCase
TestUses.settings = settings(max_examples=60, stateful_step_count=30)


def test_a_queue_that_cannot_be_deleted_keeps_nobody_else(
    scene: Scene, caplog: pytest.LogCaptureFixture
):
    scene.declare("a")
    scene.declare("b")

    def fail() -> int:
        raise RuntimeError("made by this test")

    scene.world.queue("a").retire = fail  # type: ignore[method-assign]
    scene.wait(100)
    assert not scene.is_there("b")
    assert "defect: queue 'a' in vhost '/' could not be deleted" in caplog.text
