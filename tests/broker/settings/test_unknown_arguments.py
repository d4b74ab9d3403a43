"""What becomes of unknown arguments in one virtual host."""

from __future__ import annotations

import pytest
from tests.broker.peer import World

from leporid.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
)
from leporid.amqp.tables import Value
from leporid.broker.settings.table import Place
from leporid.broker.settings.unknown_arguments import (
    FOUND_MAX,
    LISTED_MAX,
    LOGGED_A_MINUTE_MAX,
    LOOKED_AT_MAX,
    UnknownArguments,
    unknown_in,
)

WRONG: dict[str, Value] = {"x-max-lenght": 5}
SAID = "test: unknown argument 'x-max-lenght' of queue 'q' in vhost '/': did you mean x-max-length?"


def unknown(world: World) -> UnknownArguments:
    return world.broker.vhosts["/"].unknown_arguments


def declare(world: World, name: str, arguments: dict[str, Value]) -> None:
    assert world.peer().call(QueueDeclare(queue=name, arguments=arguments)) == QueueDeclareOk(
        name, 0, 0
    )


def test_logged_once_for_each_object_and_counted_each_time(caplog: pytest.LogCaptureFixture):
    world = World()
    for world.engine.clock.wall_ms in (5, 6):
        declare(world, "q", WRONG)
        declare(world, "other", WRONG)
    assert [record.message for record in caplog.records] == [SAID, SAID.replace("'q'", "'other'")]
    assert unknown(world).counts == {"queue": 4}
    newest, first = unknown(world).newest()
    assert (newest.name, newest.count, newest.last_ms, newest.by) == ("other", 2, 6, "test")
    assert (first.name, first.argument, first.suggestion) == ("q", *WRONG, "x-max-length")
    # What is only asked for has no arguments.
    world.peer().call(QueueDeclare(queue="q", passive=True, arguments=WRONG))
    assert unknown(world).counts == {"queue": 4}


def test_of_two_virtual_hosts_one_refuses(caplog: pytest.LogCaptureFixture):
    world = World(unknown_arguments="refuse")
    assert world.peer().refused(QueueDeclare(queue="q", arguments=WRONG)) == (
        "PRECONDITION_FAILED - unknown arg 'x-max-lenght' (did you mean x-max-length?) "
        "for queue 'q' in vhost '/'"
    )
    assert world.broker.vhosts["/"].find_queue("q") is None
    assert caplog.records == []
    assert [one.count for one in unknown(world).newest()] == [1]
    peer = world.peer(vhost="other")
    assert peer.call(QueueDeclare(queue="q", arguments=WRONG)) == QueueDeclareOk("q", 0, 0)


def test_retries_of_a_consumer_that_is_in_no_group():
    world = World()
    declare(world, "q", {"x-queue-type": "classic"})
    peer = world.peer()
    wrong: dict[str, Value] = {"x-delivery-limit": 3, "x-dead-letter-exchange": ""}
    assert peer.call(BasicConsume(queue="q", consumer_tag="a", arguments=wrong)) == BasicConsumeOk(
        "a"
    )
    grouped = wrong | {"x-group": "g"}
    peer.call(BasicConsume(queue="q", consumer_tag="b", arguments=grouped))
    assert [(one.argument, one.reason) for one in unknown(world).newest()] == [
        ("x-dead-letter-exchange", "there is no x-group beside it, so it has no effect"),
        ("x-delivery-limit", "there is no x-group beside it, so it has no effect"),
    ]
    assert unknown(world).counts == {"consumer": 2}


def test_the_binding_of_a_headers_exchange_behind_another_type_has_values():
    world = World()
    peer = world.peer()
    delayed: dict[str, Value] = {"x-delayed-type": "headers"}
    peer.call(ExchangeDeclare(exchange="e", type="x-delayed-message", arguments=delayed))
    peer.call(QueueDeclare(queue="q"))
    peer.call(QueueBind(queue="q", exchange="e", arguments={"max-length": 1, "x-own": 1}))
    assert unknown(world).newest() == []


def test_what_a_peer_makes_up_has_bounds(caplog: pytest.LogCaptureFixture):
    world = World()
    for number in range(LISTED_MAX // FOUND_MAX + 2):
        names = (f"x-{number}-{at}-".ljust(250, "n") for at in range(FOUND_MAX * 2))
        declare(world, f"q{number}", dict.fromkeys(names, 1))
    assert len(unknown(world).newest()) == LISTED_MAX
    assert max(len(one.argument) for one in unknown(world).newest()) == 65
    assert len(caplog.records) == LOGGED_A_MINUTE_MAX + 1
    assert caplog.records[-1].message.startswith("more unknown arguments in vhost '/' are not")
    world.engine.clock.now_ms += 60_000
    declare(world, "q", WRONG)
    assert caplog.records[-1].message == SAID


# ------------------------------------------------------------------ names


def found(place: Place, *given: str, with_values: bool = False) -> dict[str, str | None]:
    return dict(unknown_in(place, given, with_values=with_values))


@pytest.mark.parametrize(
    ("place", "name", "meant"),
    [
        ("queue", "X_Max_Length", "x-max-length"),
        ("queue", "message-ttl", "x-message-ttl"),
        ("exchange", "x-alternate-exchange", "alternate-exchange"),
        ("exchange", "hash_header", "hash-header"),
        ("consumer", "x-stream-offsets", "x-stream-offset"),
        ("policy", "apply_to", "apply-to"),
        ("policy", "aply-to", "apply-to"),
        ("queue", "x-" + "n" * 253, None),
        ("queue", "x-dead-letter", None),
        ("queue", "", None),
    ],
)
def test_what_is_meant(place: Place, name: str, meant: str | None):
    assert found(place, name) == ({name: meant} if name else {})


def test_names_that_are_somebodys_own_pass():
    assert not found("queue", "owner", "type", "length", "x", "priority", "ttl", "max")
    assert not found("policy", "component", "comment")
    assert not found("binding", "match", "x-own", "max-length", with_values=True)


def test_few_of_a_table_are_compared():
    names = [f"x-{number}" for number in range(LOOKED_AT_MAX)]
    assert found("queue", *names, "x-max-lenght", "max-length") == dict.fromkeys(
        [*names, "x-max-lenght"], None
    )
