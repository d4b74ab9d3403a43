"""queue.declare, delete and purge."""

from __future__ import annotations

import pytest
from tests.broker.peer import World, user
from tests.broker.recording import puts

from leporid.amqp.methods import (
    BasicCancel,
    BasicConsume,
    ChannelOpen,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from leporid.amqp.tables import Value, encode_table
from leporid.broker.stored import StoredBinding, StoredQueue
from leporid.durable import Drop, Put

LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could "
    "be originally declared on another connection or the exclusive property value does not match "
    "that of the original declaration."
)


@pytest.fixture
def world() -> World:
    return World()


# ---------------------------------------------------------------------- declaring


def test_declare_counts_what_is_there(world: World):
    peer = world.peer()
    assert peer.call(QueueDeclare(queue="q")) == QueueDeclareOk("q", 0, 0)
    world.queue("q").push("m")
    peer.call(ChannelOpen(), 2)
    assert peer.call(QueueDeclare(queue="q"), 2) == QueueDeclareOk("q", 1, 0)
    peer.call(BasicConsume(queue="q"))
    assert peer.call(QueueDeclare(queue="q", passive=True), 2) == QueueDeclareOk("q", 0, 1)


def test_no_wait_gets_no_answer(world: World):
    peer = world.peer()
    methods: list[Method] = [
        QueueDeclare(queue="q", no_wait=True),
        QueueDeclare(queue="q", passive=True, no_wait=True),
        QueuePurge(queue="q", no_wait=True),
        QueueDelete(queue="q", no_wait=True),
        QueueDeclare(queue="amq.rabbitmq.reply-to", no_wait=True),
    ]
    for method in methods:
        assert peer.say(method) == []


def test_a_durable_queue_is_on_disk_before_the_answer(world: World):
    peer = world.peer()
    arguments: dict[str, Value] = {"x-max-length": 5}
    peer.call(QueueDeclare(queue="q", durable=True, auto_delete=True, arguments=arguments))
    assert world.changes == [Put(StoredQueue(1, "/", "q", True, encode_table(arguments)))]
    assert peer.connection.events[-2:] == ["hold 1", "queue.declare-ok"]
    peer.call(QueueDeclare(queue="q", durable=True, auto_delete=True, arguments=arguments))
    assert peer.connection.events[-2:] == ["queue.declare-ok", "queue.declare-ok"]
    peer.call(QueueDelete(queue="q"))
    assert world.changes[1:] == [Drop(StoredQueue, (1,))]
    assert peer.connection.events[-2:] == ["hold 1", "queue.delete-ok"]


def test_numbers_are_never_used_again(world: World):
    peer = world.peer()
    for _ in range(3):
        peer.call(QueueDeclare(queue="q", durable=True))
        peer.call(QueueDelete(queue="q"))
    assert [put.id for put in puts(world.changes, StoredQueue)] == [1, 2, 3]


def test_what_is_transient_is_not_recorded(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    peer.call(QueueDeclare(queue="e", exclusive=True, durable=True))
    assert world.changes == []
    assert "hold 1" not in peer.connection.events


def test_the_broker_gives_names(world: World):
    peer = world.peer()
    first, second = peer.call(QueueDeclare()), peer.call(QueueDeclare(queue="\r\n"))
    assert isinstance(first, QueueDeclareOk)
    assert isinstance(second, QueueDeclareOk)
    assert first.queue.startswith("amq.gen-")
    assert len(first.queue) == len("amq.gen-") + 22
    assert first.queue != second.queue
    assert peer.call(QueuePurge()) == QueuePurgeOk(0)
    assert peer.refused(QueueDeclare(queue=first.queue)) == (
        f"ACCESS_REFUSED - queue name '{first.queue}' contains reserved prefix 'amq.*'"
    )


def test_line_breaks_do_not_count(world: World):
    peer = world.peer()
    assert peer.call(QueueDeclare(queue="a\r\nb")) == QueueDeclareOk("ab", 0, 0)
    assert peer.call(QueueDelete(queue="a\nb")) == QueueDeleteOk(0)
    assert world.broker.vhosts["/"].find_queue("ab") is None


@pytest.mark.parametrize("name", ["none", "", "amq.x", "amq.rabbitmq.reply-to.x"])
def test_a_passive_declare_makes_nothing(world: World, name: str):
    text = world.peer().refused(QueueDeclare(queue=name, passive=True))
    assert text == f"NOT_FOUND - no queue '{name}' in vhost '/'"


@pytest.mark.parametrize(
    ("again", "text"),
    [
        (QueueDeclare(queue="q"), "'durable' for queue 'q' in vhost '/': received 'false' but"),
        (
            QueueDeclare(queue="q", durable=True, auto_delete=True),
            "'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            QueueDeclare(queue="q", durable=True, arguments={"x-max-length": 1}),
            "'x-max-length' for queue 'q' in vhost '/': received the value '1' of type 'long' but",
        ),
    ],
)
def test_redeclared_otherwise(world: World, again: QueueDeclare, text: str):
    peer = world.peer()
    peer.call(QueueDeclare(queue="q", durable=True))
    assert f"PRECONDITION_FAILED - inequivalent arg {text}" in peer.refused(again)


def test_wrong_arguments_make_nothing(world: World):
    peer = world.peer()
    text = peer.refused(QueueDeclare(queue="q", arguments={"x-expires": 0}))
    assert text.endswith("invalid arg 'x-expires' for queue 'q' in vhost '/': {value_zero,0}")
    peer = world.peer()
    text = peer.refused(QueueDeclare(queue="q", arguments={"x-dead-letter-exchange": 1}))
    assert text.endswith(
        "invalid type 'long' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'"
    )
    assert world.engine.queues == []


def test_quorum_queues_are_durable_queues(world: World):
    quorum: dict[str, Value] = {"x-queue-type": "quorum"}
    peer = world.peer()
    peer.call(QueueDeclare(queue="q", durable=True, arguments=quorum))
    for wrong, text in [
        (QueueDeclare(queue="w", arguments=quorum), "invalid property 'non-durable'"),
        (
            QueueDeclare(queue="w", durable=True, exclusive=True, arguments=quorum),
            "exclusive-owner",
        ),
        (QueueDeclare(queue="w", durable=True, auto_delete=True, arguments=quorum), "auto-delete"),
        (QueueDeclare(durable=True, arguments=quorum), "server-named queue for type rabbit_quor"),
    ]:
        assert text in world.peer().refused(wrong)


# ---------------------------------------------------------------------- exclusive


def test_an_exclusive_queue_is_for_one_connection(world: World):
    owner = world.peer()
    owner.call(QueueDeclare(queue="q", exclusive=True))
    owner.call(QueueDeclare(queue="q", exclusive=True, durable=True))
    for method in (
        QueueDeclare(queue="q"),
        QueueDeclare(queue="q", passive=True),
        QueueDeclare(queue="q", exclusive=True),
        QueueDelete(queue="q"),
        QueuePurge(queue="q"),
        BasicConsume(queue="q"),
        QueueBind(queue="q", exchange="amq.fanout"),
    ):
        assert world.peer().refused(method) == LOCKED
    assert owner.refused(QueueDeclare(queue="q")) == LOCKED


def test_a_queue_of_nobody_cannot_become_exclusive(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    assert peer.refused(QueueDeclare(queue="q", exclusive=True)) == LOCKED


def test_an_exclusive_queue_that_was_deleted_is_forgotten(world: World):
    owner = world.peer()
    owner.call(QueueDeclare(queue="q", exclusive=True))
    owner.call(QueueDelete(queue="q"))
    other = world.peer()
    other.call(QueueDeclare(queue="q"))
    owner.session.on_lost()
    assert world.broker.vhosts["/"].find_queue("q") is not None


# ---------------------------------------------------------------------- deleting and purging


def test_delete_counts_and_asks_first_if_told_to(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    world.queue("q").ready.extend(["a", "b"])
    text = world.peer().refused(QueueDelete(queue="q", if_empty=True, if_unused=True))
    assert text == "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"
    assert world.peer().call(QueueDelete(queue="q")) == QueueDeleteOk(2)
    assert world.peer().call(QueueDelete(queue="q", if_empty=True)) == QueueDeleteOk(0)


def test_a_queue_with_messages_that_are_not_ready_again_is_not_empty(world: World):
    world.peer().call(QueueDeclare(queue="q"))
    world.queue("q").held_count = 1
    text = world.peer().refused(QueueDelete(queue="q", if_empty=True))
    assert text == "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"


def test_delete_if_unused(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    peer.call(BasicConsume(queue="q", consumer_tag="t"))
    text = world.peer().refused(QueueDelete(queue="q", if_unused=True))
    assert text == "PRECONDITION_FAILED - queue 'q' in vhost '/' in use"
    peer.call(BasicCancel("t"))
    assert world.peer().call(QueueDelete(queue="q", if_unused=True)) == QueueDeleteOk(0)


def test_deleting_cancels_the_consumers_that_want_to_know(world: World):
    told, silent, deleter = world.peer(), world.peer(), world.peer()
    silent.session.client_properties = {}
    deleter.call(QueueDeclare(queue="q"))
    for peer in (told, silent):
        peer.call(BasicConsume(queue="q", consumer_tag="t"))
    assert deleter.call(QueueDelete(queue="q")) == QueueDeleteOk(0)
    assert told.sent(BasicCancel) == [BasicCancel("t", no_wait=True)]
    assert silent.sent(BasicCancel) == []
    for peer in (told, silent):
        assert not peer.session.channels[1].subscriptions


def test_deleting_a_durable_queue_takes_its_bindings_along(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="q", durable=True))
    peer.call(QueueBind(queue="q", exchange="amq.topic", routing_key="k"))
    world.changes.clear()
    peer.call(QueueDelete(queue="q"))
    empty = encode_table({})
    assert world.changes == [
        Drop(StoredBinding, ("/", "amq.topic", "q", "queue", "k", empty)),
        Drop(StoredQueue, (1,)),
    ]


def test_purge(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    world.queue("q").ready.extend(["a", "b"])
    assert peer.call(QueuePurge(queue="q")) == QueuePurgeOk(2)
    assert peer.refused(QueuePurge(queue="none")) == "NOT_FOUND - no queue 'none' in vhost '/'"


@pytest.mark.parametrize(
    "method", [QueuePurge(), QueueDelete(), QueueBind(exchange="amq.topic"), BasicConsume()]
)
def test_no_name_means_the_last_declared_queue(world: World, method: Method):
    assert world.peer().refused(method) == "NOT_FOUND - no previously declared queue"
    peer = world.peer()
    peer.call(QueueDeclare(queue="q", durable=True))
    peer.call(method)
    if isinstance(method, QueueBind):
        assert puts(world.changes[-1:], StoredBinding)[0].key == "q"


# ---------------------------------------------------------------------- permissions


@pytest.mark.parametrize(
    ("rights", "method"),
    [
        (("", ".*", ".*"), QueueDeclare(queue="q")),
        (("", ".*", ".*"), QueueDeclare()),
        (("", ".*", ".*"), QueueDelete(queue="q")),
        ((".*", ".*", ""), QueuePurge(queue="q")),
        (("q", "q", "q"), QueueDeclare(queue="q2", arguments={"x-dead-letter-exchange": "d"})),
        (("q", "d", ""), QueueDeclare(queue="q2", arguments={"x-dead-letter-exchange": "d"})),
    ],
)
def test_rights(rights: tuple[str, str, str], method: Method):
    world = World(user("u", *rights))
    world.peer().call(QueueDeclare(queue="q"))
    text = world.peer(user="u", password="u").refused(method)
    assert text.startswith("ACCESS_REFUSED - ")
    assert text.endswith("in vhost '/' refused for user 'u'")


@pytest.mark.parametrize("rights", [("q", "", ""), ("", "q", ""), ("", "", "q")])
def test_asking_needs_any_right(rights: tuple[str, str, str]):
    world = World(user("u", *rights))
    world.peer().call(QueueDeclare(queue="q"))
    world.peer().call(QueueDeclare(queue="other"))
    peer = world.peer(user="u", password="u")
    assert peer.call(QueueDeclare(queue="q", passive=True)) == QueueDeclareOk("q", 0, 0)
    for name in ("other", "none"):
        text = world.peer(user="u", password="u").refused(QueueDeclare(queue=name, passive=True))
        assert text.startswith("ACCESS_REFUSED")
