"""What the members of a group agree on about retries, and what is recorded of them."""

from __future__ import annotations

import pytest
from tests.broker.at_once import declare_partitioned_stream
from tests.broker.engine_fake import FakeGroupRetries, fake_of
from tests.broker.group.test_members import Member, group_of, refused, three_partitions, vhost_of
from tests.broker.peer import World
from tests.broker.recording import Recording, puts

from leporid.amqp.methods import BasicCancel
from leporid.amqp.properties import Properties, decode_properties, encode_properties
from leporid.amqp.tables import Value
from leporid.broker.group.group_retries import (
    DELIVERY_LIMIT,
    MAX_MS,
    MIN_MS,
    RetryOptions,
    count_of,
    options_of,
    stamped,
)
from leporid.broker.stored import StoredGroupRetries, StoredReaderOffset
from leporid.durable import Drop


@pytest.fixture
def world() -> World:
    return three_partitions()


def engine_of(world: World) -> FakeGroupRetries:
    retries = group_of(world).retries
    assert retries is not None
    return fake_of(retries.engine, FakeGroupRetries)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ({}, None),
        ({"x-group": "g"}, None),
        ({"x-delivery-limit": 3}, (3, MIN_MS, MAX_MS, None, None)),
        (
            {"x-delivery-limit": -1, "x-dead-letter-exchange": "e"},
            (None, MIN_MS, MAX_MS, "e", None),
        ),
        ({"x-delayed-retry-min": 5}, (None, 5, MAX_MS, None, None)),
        ({"x-delayed-retry-min": MAX_MS + 1}, (None, MAX_MS + 1, MAX_MS + 1, None, None)),
        ({"x-delayed-retry-max": 5}, (None, 5, 5, None, None)),
        (
            {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
            (DELIVERY_LIMIT, MIN_MS, MAX_MS, "", "dead"),
        ),
    ],
)
def test_what_is_not_said_loses_nothing(
    arguments: dict[str, Value], options: tuple[int | None, int, int, str | None, str | None] | None
):
    assert options_of(arguments) == (None if options is None else RetryOptions(*options))


def test_headers_say_where_a_message_is_from_and_how_often_it_came_back():
    raw = encode_properties(Properties(headers={"a": 1, "x-delivery-count": 77}, priority=3))
    first = stamped(raw, "s-1", 5, 1)
    again = stamped(first, None, 0, 2)
    assert (count_of(first), count_of(again)) == (1, 2)
    found = decode_properties(again)
    assert (found.priority, found.headers) == (
        3,
        {"a": 1, "x-stream-name": "s-1", "x-stream-offset": 5, "x-delivery-count": 2},
    )
    given_up = decode_properties(stamped(again, None, 0, 0)).headers
    assert given_up == {"a": 1, "x-stream-name": "s-1", "x-stream-offset": 5}


def test_members_agree_on_retries_as_on_their_filter(world: World):
    Member(world, x_delivery_limit=3)
    assert engine_of(world).limits["returns"] == (3, True)
    has = "PRECONDITION_FAILED - group 'g' of stream 's' in vhost '/' has version 0 with"
    assert refused(world) == (
        f"{has} x-delivery-limit '3'; other arguments need a higher x-group-version"
    )
    engine = engine_of(world)
    Member(world, version=1, x_delivery_limit=5, x_dead_letter_exchange="dlx")
    assert engine_of(world) is engine
    assert engine.limits["returns"] == (5, True)
    assert engine.limits["retries"] == ("all", MIN_MS, MAX_MS)
    assert engine.dead_letters is not None
    # What waits is delivered, also when nothing new is to be retried.
    Member(world, version=2)
    assert engine_of(world) is engine
    again = engine_of(world)
    assert (again.limits["returns"], again.dead_letters) == ((None, True), None)


def test_each_member_takes_from_what_is_retried_until_it_ends(world: World):
    Member(world)
    assert group_of(world).retries is None
    members = [Member(world, version=1, x_delivery_limit=3) for _ in range(2)]
    engine = engine_of(world)
    assert [each.tag for each in engine.consumers] == ["t", "t"]
    members[0].peer.call(BasicCancel("t"))
    assert len(engine.consumers) == 1
    members[1].peer.session.on_lost()
    assert engine.consumers == []


def test_what_is_retried_has_a_number_and_is_there_after_a_restart():
    world = World()
    declare_partitioned_stream(vhost_of(world), "s", 2)
    recording = Recording(["/", "other"])
    Member(world, x_delivery_limit=3)
    (put,) = puts(world.changes, StoredGroupRetries)
    assert (put.vhost, put.stream, put.name) == ("/", "s", "g")
    recording.extend(world.changes)
    again = World()
    again.broker.restore(recording.snapshot())
    engine = engine_of(again)
    assert (engine.id, engine.limits["returns"]) == (put.id, (3, True))
    vhost_of(again).groups.drop("s", "g")
    assert engine.retired
    assert Drop(StoredGroupRetries, (put.id,)) in again.changes


def test_an_offset_is_recorded_when_what_came_back_is_on_disk(world: World):
    member = Member(world, x_delivery_limit=3)
    for reader in member.readers:
        reader.kept_generation = 7
    member.ack()
    world.changes.clear()
    world.broker.save_reader_offsets()
    queue = vhost_of(world).queue("s-0")
    assert (queue.reader_offsets["g"], world.changes) == (1, [])
    world.engine.logs.synced = 6
    world.broker.save_reader_offsets()
    assert world.changes == []
    world.engine.logs.synced = 7
    world.broker.save_reader_offsets()
    assert [put.stream for put in puts(world.changes, StoredReaderOffset)] == ["s-0", "s-1", "s-2"]
    world.changes.clear()
    world.broker.save_reader_offsets()
    assert world.changes == []
