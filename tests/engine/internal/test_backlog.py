"""What the broker sends to a full queue waits for room, whoever the sender is."""

from __future__ import annotations

import pytest
from tests.engine.delay_world import World, delayed
from tests.engine.frames import PERSISTENT, properties, publish
from tests.engine.slices import ended
from tests.engine.verdict_world import World as VerdictWorld

DAY_MS = 24 * 3600_000
LAST_PAUSE_MS = 5000


@pytest.fixture
def world(engine, disk):
    """Its queue holds one message and refuses more."""
    world = World(engine, disk)
    world.q.set_limits(max_length=1, overflow="reject-publish")
    return world


@pytest.fixture
def given_up(world):
    found: list[str] = []
    world.q.given_up = found.append
    return found


def take(world: World) -> bytes | None:
    got = world.peer.get(world.q)
    return None if got is None else got.body


def test_what_is_due_waits_for_room_in_order(world):
    for number in range(4):
        world.send(b"%d" % number, delayed(5 + number))
    world.sleep(20)
    came = []
    for waiting in (3, 2, 1, 0):
        assert (world.q.ready_count, world.q.backlog_count, world.waiting()) == (1, waiting, 0)
        came.append(take(world))
        world.sleep(LAST_PAUSE_MS)
    assert came == [b"0", b"1", b"2", b"3"]
    assert world.store().unroutable == 0


def test_a_consumer_need_not_wait_for_a_timer(world):
    world.send(b"a", delayed(5))
    world.send(b"b", delayed(5))
    world.sleep(6)
    world.peer.channel.consume(world.q, "c", True, 0, 0)
    world.run()
    assert world.peer.bodies() == [b"a", b"b"]


@pytest.mark.parametrize("change", [{"max_length": 2, "overflow": "reject-publish"}, {}])
def test_nor_does_a_change_of_limits(world, change):
    world.send(b"a", delayed(5))
    world.send(b"b", delayed(5))
    world.sleep(6)
    world.q.set_limits(**change)
    world.run()
    assert world.q.ready_count == 2


def test_nor_does_a_purge(world):
    world.send(b"a", delayed(5))
    world.send(b"b", delayed(5))
    world.sleep(6)
    assert ended(world.q.purging()) == 1
    world.run()
    assert take(world) == b"b"


def test_nothing_is_done_while_there_is_no_room(world):
    """A try costs one look at the first, less often each time."""
    for _ in range(100):
        world.engine.publish([world.q], "", "q", PERSISTENT, b"x")
    world.engine.run()
    tries: list[int] = []
    while len(tries) < 9:
        assert not world.engine.busy
        tries.append(world.engine.next_due_ms - world.engine.clock.now_ms)
        world.engine.clock.now_ms += tries[-1]
        world.engine.run()
    assert tries == [100, 100, 200, 400, 800, 1600, 3200, 5000, 5000]


def test_an_earlier_one_enters_first(world):
    """A message that comes by itself does not overtake those that wait."""
    for body in (b"a", b"b"):
        world.engine.publish([world.q], "", "q", PERSISTENT, body)
    take(world)
    world.engine.publish([world.q], "", "q", PERSISTENT, b"c")
    assert world.q.backlog_count == 2
    world.sleep(LAST_PAUSE_MS)
    assert take(world) == b"b"
    world.sleep(LAST_PAUSE_MS)
    assert take(world) == b"c"


def test_only_the_full_one_of_several_queues_waits(world):
    other = world.engine.queue(5, "other", True)
    world.engine.publish([world.q], "", "q", PERSISTENT, b"first")
    world.engine.publish([world.q, other], "", "q", PERSISTENT, b"x")
    assert (other.ready_count, world.q.backlog_count) == (1, 1)
    take(world)
    world.sleep(LAST_PAUSE_MS)
    assert take(world) == b"x"
    assert other.ready_count == 1


def test_a_dead_letter_waits_too(engine, queue, peer):
    dlq = engine.queue(0, "dlq", False)
    dlq.set_limits(max_length=1, overflow="reject-publish")
    queue.dead_letters = lambda reason, exchange, key, raw, body: engine.publish(
        [dlq], exchange, key, raw, body
    )
    for number in range(3):
        peer.feed(publish(1, "q", b"%d" % number, raw=properties(expiration="5")))
    engine.clock.now_ms += 5
    engine.run()
    assert (dlq.ready_count, dlq.backlog_count, queue.ready_count) == (1, 2, 0)
    peer.channel.consume(dlq, "c", True, 0, 0)
    for _ in range(3):
        engine.run()
    assert peer.bodies() == [b"0", b"1", b"2"]


def test_what_a_filter_class_let_pass_waits_too():
    world = VerdictWorld()
    world.q.set_limits(max_length=1, overflow="reject-publish")
    world.send(b"a", b"b")
    world.judge()
    assert (world.waiting(), world.q.ready_count, world.q.backlog_count) == (0, 1, 1)
    world.sync()
    world.restart()
    assert (world.waiting(), world.q.ready_count, world.q.backlog_count) == (0, 1, 1)


@pytest.mark.parametrize("other_full", [False, True])
def test_an_alternate_exchange_gets_what_no_queue_takes(world, other_full):
    other = world.engine.queue(5, "other", True)
    if other_full:
        other.set_limits(max_length=0, overflow="reject-publish")
    asked = []

    def elsewhere(exchange, keys, raw):
        asked.append((exchange, list(keys)))
        return [other]

    world.engine.publish([world.q], "", "q", PERSISTENT, b"first")
    store = world.engine.delays(9, world.caches["d"], world.route, elsewhere)
    world.engine.publish([store], "d", "q", delayed(5), b"x")
    world.sleep(6)
    assert asked == [("d", ["q"])]
    assert (other.ready_count, world.q.backlog_count) == ((0, 1) if other_full else (1, 0))


def test_a_queue_that_makes_dead_letters_now_makes_them_of_what_waits(world):
    letters = []
    for body in (b"a", b"b"):
        world.engine.publish([world.q], "", "q", PERSISTENT, body)
    world.q.dead_letters = lambda reason, exchange, key, raw, body: letters.append((reason, body))
    world.q.set_limits(max_length=1, overflow="reject-publish-dlx")
    world.sleep(LAST_PAUSE_MS)
    assert letters == [("maxlen", b"b")]
    assert world.q.backlog_count == 0


def test_after_a_day_it_is_given_up(world, given_up):
    for body in (b"a", b"b", b"c"):
        world.engine.publish([world.q], "", "q", PERSISTENT, body)
    world.sleep(DAY_MS - LAST_PAUSE_MS)
    assert (world.q.backlog_count, given_up) == (2, [])
    world.sleep(2 * LAST_PAUSE_MS)
    assert (world.q.backlog_count, given_up) == (0, ["expired", "expired"])
    assert (take(world), take(world)) == (b"a", None)


def test_what_never_fits_does_not_wait(world, given_up):
    world.q.set_limits(max_bytes=3, overflow="reject-publish")
    assert not world.engine.publish([world.q], "", "q", PERSISTENT, b"four")
    world.engine.publish([world.q], "", "q", PERSISTENT, b"two")
    world.engine.publish([world.q], "", "q", PERSISTENT, b"two")
    world.q.set_limits(max_length=0, overflow="reject-publish")
    world.sleep(LAST_PAUSE_MS)
    assert given_up == ["too_large", "too_large"]
    assert world.q.backlog_count == 0


def test_it_may_not_wait_in_any_number(world, given_up):
    mib = bytes(2**20)
    for _ in range(514):
        world.engine.publish([world.q], "", "q", properties(), mib)
    assert world.q.backlog_count == 512
    assert given_up == ["backlog_full"]


def test_its_time_to_live_begins_in_the_queue(world):
    mortal = properties(delivery_mode=2, expiration="10")
    for body, raw in ((b"a", PERSISTENT), (b"b", mortal)):
        world.engine.publish([world.q], "", "q", raw, body)
    world.sleep(50)
    take(world)
    world.sleep(LAST_PAUSE_MS)
    assert (world.q.ready_count, world.engine.queues.expired) == (1, 0)
    world.sleep(10)
    assert (world.q.ready_count, world.engine.queues.expired) == (0, 1)


def test_the_queue_deleted_what_waits_goes_too(world, given_up):
    for body in (b"a", b"b"):
        world.engine.publish([world.q], "", "q", PERSISTENT, body)
    assert world.q.retire() == 1
    world.sleep(LAST_PAUSE_MS)
    world.disk.sync(world.engine)
    world.restart()
    assert (world.q.ready_count, world.q.backlog_count) == (1, 1), "its number is another's now"
    assert given_up == []


def test_a_crash_at_any_byte_neither_loses_nor_doubles_it(world):
    """From the store of delays to the backlog, and from there to the queue."""
    world.send(b"a", delayed(5))
    world.send(b"b", delayed(5))
    world.disk.sync(world.engine)
    world.sleep(6)
    take(world)
    world.sleep(LAST_PAUSE_MS)
    assert (world.q.ready_count, world.q.backlog_count) == (1, 0)
    assert world.disk.begin(world.engine)
    total = sum(len(data) for *_, data in world.disk.job[1])
    disk = world.disk
    seen = set()
    for written in range(0, total + 1, 8):
        world.restart(disk.crashed(written))
        counts = world.waiting(), world.q.backlog_count, world.q.ready_count
        seen.add(counts)
        assert sum(counts) in ((1, 2) if written > total - 200 else (2,)), (written, counts)
    assert {(0, 1, 1), (2, 0, 0)} <= seen


def test_a_restart_keeps_the_time_that_it_waited(world, given_up):
    for body in (b"a", b"b"):
        world.engine.publish([world.q], "", "q", PERSISTENT, body)
    world.sleep(1000)
    world.disk.sync(world.engine)
    world.restart(off_ms=DAY_MS - 5000)
    world.q.set_limits(max_length=1, overflow="reject-publish")
    world.q.given_up = given_up.append
    world.run()
    assert (world.q.backlog_count, given_up) == (1, [])
    world.sleep(4000)
    world.sleep(LAST_PAUSE_MS)
    assert (world.q.backlog_count, given_up) == (0, ["expired"])
