"""exchange.declare, delete, bind and unbind, and the bindings of queues."""

from __future__ import annotations

import pytest
from tests.broker.peer import World, user
from tests.broker.recording import drops, puts

from leporid.amqp.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
    QueueUnbindOk,
)
from leporid.amqp.tables import Int64L, Value, encode_table
from leporid.broker.stored import StoredBinding, StoredExchange
from leporid.durable import Drop, Put

DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"
EMPTY = encode_table({})


@pytest.fixture
def world() -> World:
    return World()


# ---------------------------------------------------------------------- declaring


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_every_type(world: World, kind: str):
    peer = world.peer()
    assert peer.call(ExchangeDeclare(exchange="e", type=kind)) == ExchangeDeclareOk()
    assert peer.call(ExchangeDeclare(exchange="e", type=kind)) == ExchangeDeclareOk()
    assert peer.call(ExchangeDeclare(exchange="e", passive=True)) == ExchangeDeclareOk()
    assert world.changes == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [("x-none", "unknown exchange type 'x-none'"), ("", "invalid exchange type ''")],
)
def test_types_that_are_none(world: World, kind: str, text: str):
    peer = world.peer()
    assert peer.refused(ExchangeDeclare(exchange="", type=kind)) == f"COMMAND_INVALID - {text}"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ],
)
def test_the_predeclared_ones(world: World, name: str, kind: str):
    peer = world.peer()
    again = ExchangeDeclare(exchange=name, type=kind, durable=True)
    assert peer.call(again) == ExchangeDeclareOk()
    assert world.changes == []


@pytest.mark.parametrize(
    ("again", "text"),
    [
        (ExchangeDeclare(exchange="e", type="topic"), "'type' {}: received 'topic' but"),
        (ExchangeDeclare(exchange="e", durable=True), "'durable' {}: received 'true' but"),
        (ExchangeDeclare(exchange="e", auto_delete=True), "'auto_delete' {}: received 'true' bu"),
        (ExchangeDeclare(exchange="e", internal=True), "'internal' {}: received 'true' but curr"),
        (
            ExchangeDeclare(exchange="e", arguments={"alternate-exchange": "a"}),
            "'alternate-exchange' {}: received the value 'a' of type 'longstr' but current is n",
        ),
    ],
)
def test_redeclared_otherwise(world: World, again: ExchangeDeclare, text: str):
    peer = world.peer()
    peer.call(ExchangeDeclare(exchange="e"))
    wanted = text.format("for exchange 'e' in vhost '/'")
    assert peer.refused(again).startswith(f"PRECONDITION_FAILED - inequivalent arg {wanted}")


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (ExchangeDeclare(exchange=""), DEFAULT),
        (ExchangeDeclare(exchange="", passive=True), DEFAULT),
        (
            ExchangeDeclare(exchange="none", type="none", passive=True),
            "NOT_FOUND - no exchange 'none' in vhost '/'",
        ),
        (
            ExchangeDeclare(exchange="amq.mine"),
            "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
        ),
        (
            ExchangeDeclare(exchange="e", arguments={"alternate-exchange": True}),
            (
                "PRECONDITION_FAILED - invalid type 'bool' for arg 'alternate-exchange' in "
                "exchange 'e' in vhost '/'"
            ),
        ),
        (ExchangeDelete(exchange=""), DEFAULT),
        (
            ExchangeDelete(exchange="amq.topic"),
            "ACCESS_REFUSED - deletion of system exchange 'amq.topic' in vhost '/' not allowed",
        ),
        (QueueBind(queue="q", exchange=""), DEFAULT),
        (QueueUnbind(queue="q", exchange=""), DEFAULT),
        (ExchangeBind(destination="", source="amq.topic"), DEFAULT),
        (ExchangeBind(destination="amq.topic", source=""), DEFAULT),
        (
            QueueBind(queue="none", exchange="none"),
            "NOT_FOUND - no exchange 'none' in vhost '/'",
        ),
        (
            QueueBind(queue="none", exchange="amq.topic"),
            "NOT_FOUND - no queue 'none' in vhost '/'",
        ),
        (
            ExchangeBind(destination="none", source="amq.topic"),
            "NOT_FOUND - no exchange 'none' in vhost '/'",
        ),
    ],
)
def test_refused(world: World, method: Method, text: str):
    assert world.peer().refused(method) == text


def test_line_breaks_do_not_count(world: World):
    peer = world.peer()
    peer.call(ExchangeDeclare(exchange="a\r\nb"))
    peer.call(ExchangeBind(destination="ab\n", source="amq\n.topic"))
    peer.call(ExchangeDelete(exchange="a\nb"))
    assert world.broker.vhosts["/"].find_exchange("ab") is None


def test_no_wait_gets_no_answer(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    methods: list[Method] = [
        ExchangeDeclare(exchange="e", no_wait=True),
        ExchangeDeclare(exchange="e", passive=True, no_wait=True),
        ExchangeBind(destination="e", source="amq.topic", no_wait=True),
        ExchangeUnbind(destination="e", source="amq.topic", no_wait=True),
        QueueBind(queue="q", exchange="e", no_wait=True),
        ExchangeDelete(exchange="e", no_wait=True),
    ]
    for method in methods:
        assert peer.say(method) == []


def test_durable_exchanges_are_recorded(world: World):
    peer = world.peer()
    arguments: dict[str, Value] = {"alternate-exchange": "a"}
    peer.call(ExchangeDeclare(exchange="e", type="topic", durable=True, arguments=arguments))
    assert world.changes == [
        Put(StoredExchange("/", "e", "topic", False, False, encode_table(arguments)))
    ]
    assert peer.connection.events[-2:] == ["hold 1", "exchange.declare-ok"]
    assert peer.call(ExchangeDelete(exchange="e")) == ExchangeDeleteOk()
    assert world.changes[1:] == [Drop(StoredExchange, ("/", "e"))]
    assert peer.call(ExchangeDelete(exchange="e")) == ExchangeDeleteOk()


def test_an_exchange_that_its_type_refuses_is_not_made(world: World):
    peer = world.peer()
    peer.refused(ExchangeDeclare(exchange="e", durable=True, arguments={"x-strict-keys": 1}))
    assert world.broker.vhosts["/"].find_exchange("e") is None
    assert world.changes == []


def test_delete_if_unused(world: World):
    peer = world.peer()
    peer.call(ExchangeDeclare(exchange="e"))
    peer.call(ExchangeBind(destination="e", source="amq.topic"))
    peer.call(ExchangeBind(destination="amq.topic", source="e"))
    text = world.peer().refused(ExchangeDelete(exchange="e", if_unused=True))
    assert text == "PRECONDITION_FAILED - exchange 'e' in vhost '/' in use"
    peer.call(ExchangeUnbind(destination="amq.topic", source="e"))
    assert peer.call(ExchangeDelete(exchange="e", if_unused=True)) == ExchangeDeleteOk()


# ---------------------------------------------------------------------- bindings


def test_a_queue_bound_and_unbound(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    bind = QueueBind(queue="q", exchange="amq.topic", routing_key="a.*")
    assert peer.call(bind) == QueueBindOk()
    assert peer.call(bind) == QueueBindOk()
    assert peer.connection.publish(1, "amq.topic", "a.b") == 1
    assert world.queue("q").ready == ["m"]
    unbind = QueueUnbind(queue="q", exchange="amq.topic", routing_key="a.*")
    assert peer.call(unbind) == QueueUnbindOk()
    assert peer.call(unbind) == QueueUnbindOk()
    assert peer.connection.publish(1, "amq.topic", "a.b") == 0


def test_unbinding_what_is_not_there(world: World):
    peer = world.peer()
    for queue, exchange in [("none", "amq.topic"), ("none", "none")]:
        assert peer.call(QueueUnbind(queue=queue, exchange=exchange)) == QueueUnbindOk()
    unbind = ExchangeUnbind(destination="none", source="none")
    assert peer.call(unbind) == ExchangeUnbindOk()


def test_exchanges_in_a_row(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    peer.call(ExchangeDeclare(exchange="e", type="fanout"))
    peer.call(QueueBind(queue="q", exchange="e"))
    bind = ExchangeBind(destination="e", source="amq.direct", routing_key="k")
    assert peer.call(bind) == ExchangeBindOk()
    assert peer.connection.publish(1, "amq.direct", "k") == 1
    peer.call(ExchangeUnbind(destination="e", source="amq.direct", routing_key="k"))
    assert peer.connection.publish(1, "amq.direct", "k") == 0


def test_a_binding_that_the_exchange_refuses(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    wrong = QueueBind(queue="q", exchange="amq.headers", arguments={"x-match": "some"})
    assert peer.refused(wrong).startswith("PRECONDITION_FAILED - Invalid x-match field value")
    # What is missing counts first, and unbinding asks for nothing.
    peer = world.peer()
    wrong = QueueBind(queue="none", exchange="amq.headers", arguments={"x-match": "some"})
    assert peer.refused(wrong).startswith("NOT_FOUND")
    unbind = QueueUnbind(queue="q", exchange="amq.headers", arguments={"x-match": "some"})
    assert world.peer().call(unbind) == QueueUnbindOk()


def test_only_bindings_that_are_durable_at_both_ends_are_recorded(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="d", durable=True))
    peer.call(QueueDeclare(queue="t"))
    peer.call(ExchangeDeclare(exchange="t"))
    world.changes.clear()
    peer.call(QueueBind(queue="t", exchange="amq.topic"))
    peer.call(QueueBind(queue="d", exchange="t"))
    peer.call(QueueUnbind(queue="t", exchange="amq.topic"))
    peer.call(QueueUnbind(queue="d", exchange="t"))
    assert world.changes == []
    peer.call(QueueBind(queue="d", exchange="amq.topic", routing_key="k"))
    assert peer.connection.events[-2:] == ["hold 1", "queue.bind-ok"]
    peer.call(QueueUnbind(queue="d", exchange="amq.topic", routing_key="k"))
    assert world.changes == [
        Put(StoredBinding("/", "amq.topic", "d", "queue", "k", EMPTY)),
        Drop(StoredBinding, ("/", "amq.topic", "d", "queue", "k", EMPTY)),
    ]


def test_equal_bindings_are_recorded_alike(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="d", durable=True))
    world.changes.clear()
    one: dict[str, Value] = {"a": 1, "b": [Int64L(2), {"c": 3}], "x-match": "any"}
    other: dict[str, Value] = {"x-match": "any", "b": [2, {"c": Int64L(3)}], "a": Int64L(1)}
    peer.call(QueueBind(queue="d", exchange="amq.headers", arguments=one))
    peer.call(QueueUnbind(queue="d", exchange="amq.headers", arguments=other))
    (put,) = puts(world.changes, StoredBinding)
    assert drops(world.changes, StoredBinding) == [put.identity]


def test_exclusiveness_counts_for_unbinding_only_if_there_is_a_binding(world: World):
    owner = world.peer()
    owner.call(QueueDeclare(queue="q", exclusive=True))
    unbind = QueueUnbind(queue="q", exchange="amq.topic")
    assert world.peer().call(unbind) == QueueUnbindOk()
    owner.call(QueueBind(queue="q", exchange="amq.topic"))
    assert world.peer().refused(unbind).startswith("RESOURCE_LOCKED")


# ---------------------------------------------------------------------- auto-delete


def test_an_auto_delete_exchange_goes_with_its_last_binding(world: World):
    peer = world.peer()
    vhost = world.broker.vhosts["/"]
    for end in (
        QueueUnbind(queue="q", exchange="e"),
        QueueDelete(queue="q"),
    ):
        peer.call(ExchangeDeclare(exchange="e", auto_delete=True, durable=True))
        peer.call(QueueDeclare(queue="q"))
        peer.call(QueueBind(queue="q", exchange="e"))
        world.changes.clear()
        peer.call(end)
        assert vhost.find_exchange("e") is None
        assert world.changes == [Drop(StoredExchange, ("/", "e"))]


def test_auto_delete_climbs(world: World):
    peer = world.peer()
    vhost = world.broker.vhosts["/"]
    for name in ("top", "middle"):
        peer.call(ExchangeDeclare(exchange=name, type="fanout", auto_delete=True))
    peer.call(QueueDeclare(queue="q"))
    peer.call(ExchangeBind(destination="middle", source="top"))
    peer.call(QueueBind(queue="q", exchange="middle"))
    peer.call(QueueDelete(queue="q"))
    assert vhost.find_exchange("middle") is None
    assert vhost.find_exchange("top") is None


def test_auto_delete_climbs_as_high_as_clients_have_built(world: World):
    peer = world.peer()
    height = 2000
    for floor in range(height):
        peer.call(ExchangeDeclare(exchange=f"e{floor}", auto_delete=True))
        if floor:
            peer.call(ExchangeBind(destination=f"e{floor - 1}", source=f"e{floor}"))
    peer.call(ExchangeDelete(exchange="e0"))
    assert world.broker.vhosts["/"].find_exchange(f"e{height - 1}") is None


def test_auto_delete_waits_for_the_last_binding(world: World):
    peer = world.peer()
    vhost = world.broker.vhosts["/"]
    peer.call(ExchangeDeclare(exchange="e", auto_delete=True))
    for name in ("p", "q"):
        peer.call(QueueDeclare(queue=name))
        peer.call(QueueBind(queue=name, exchange="e"))
    peer.call(QueueDelete(queue="p"))
    assert vhost.find_exchange("e") is not None
    peer.call(QueueDelete(queue="q"))
    assert vhost.find_exchange("e") is None


def test_deleting_an_exchange_takes_all_its_bindings_along(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="d", durable=True))
    peer.call(ExchangeDeclare(exchange="e", durable=True))
    peer.call(ExchangeDeclare(exchange="auto", durable=True, auto_delete=True))
    peer.call(QueueBind(queue="d", exchange="e"))
    peer.call(ExchangeBind(destination="e", source="auto"))
    world.changes.clear()
    peer.call(ExchangeDelete(exchange="e"))
    assert sorted(map(repr, world.changes[:2])) == sorted(
        map(
            repr,
            [
                Drop(StoredBinding, ("/", "e", "d", "queue", "", EMPTY)),
                Drop(StoredBinding, ("/", "auto", "e", "exchange", "", EMPTY)),
            ],
        )
    )
    assert world.changes[2:] == [
        Drop(StoredExchange, ("/", "e")),
        Drop(StoredExchange, ("/", "auto")),
    ]


# ---------------------------------------------------------------------- permissions


@pytest.mark.parametrize(
    ("rights", "method"),
    [
        (("", ".*", ".*"), ExchangeDeclare(exchange="e")),
        (("", ".*", ".*"), ExchangeDelete(exchange="e")),
        (("", "", ""), ExchangeDeclare(exchange="e", passive=True)),
        (("e", "", "e"), ExchangeDeclare(exchange="e", arguments={"alternate-exchange": "a"})),
        (("e", "a", ""), ExchangeDeclare(exchange="e", arguments={"alternate-exchange": "a"})),
        ((".*", "", ".*"), QueueBind(queue="q", exchange="amq.topic")),
        ((".*", ".*", ""), QueueBind(queue="q", exchange="amq.topic")),
        ((".*", "", ".*"), QueueUnbind(queue="q", exchange="amq.topic")),
        ((".*", ".*", ""), ExchangeBind(destination="amq.fanout", source="amq.topic")),
        ((".*", "x", ".*"), ExchangeUnbind(destination="amq.fanout", source="amq.topic")),
    ],
)
def test_rights(rights: tuple[str, str, str], method: Method):
    world = World(user("u", *rights))
    text = world.peer(user="u", password="u").refused(method)
    assert text.startswith("ACCESS_REFUSED - ")
    assert text.endswith("in vhost '/' refused for user 'u'")
