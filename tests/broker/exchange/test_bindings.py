"""What may be bound and unbound, and what goes with it; routing is in test_topology."""

from __future__ import annotations

import pytest
from tests.broker.peer import World
from tests.broker.recording import summary

from leporid.amqp.errors import NotFound, PreconditionFailed, ResourceLocked
from leporid.broker.exchange.types import Binding
from leporid.broker.stored import StoredBinding
from leporid.broker.vhost import VirtualHost
from leporid.durable import Drop, Put


class Somebody:
    """A connection that owns queues."""

    def disown(self, queue: object) -> None:
        """Nothing is kept."""


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def vhost(world: World) -> VirtualHost:
    return world.broker.vhosts["/"]


def exchange(vhost: VirtualHost, name: str, *, auto_delete: bool = False) -> None:
    vhost.create_exchange(
        name, "direct", durable=True, auto_delete=auto_delete, internal=False, arguments={}
    )


def queue(vhost: VirtualHost, name: str, owner: Somebody | None = None) -> None:
    vhost.create_queue(name, durable=True, auto_delete=False, arguments={}, owner=owner)


@pytest.mark.parametrize(
    ("binding", "text"),
    [
        (Binding("no", "q", "queue", "", {}), "no exchange 'no' in vhost '/'"),
        (Binding("x", "no", "queue", "", {}), "no queue 'no' in vhost '/'"),
        (Binding("x", "no", "exchange", "", {}), "no exchange 'no' in vhost '/'"),
        (Binding("x", "q", "queue", "", {"x-filter-class": "no"}), "no filter class 'no'"),
    ],
)
def test_both_ends_and_the_filter_must_be_there(vhost: VirtualHost, binding: Binding, text: str):
    exchange(vhost, "x")
    queue(vhost, "q")
    with pytest.raises(NotFound, match=text):
        vhost.bindings.bind(binding, None)
    assert vhost.statistics().binding_count == 0


def test_a_bad_filter_binds_nothing(vhost: VirtualHost):
    exchange(vhost, "x")
    queue(vhost, "q")
    with pytest.raises(PreconditionFailed, match="x-filter-sql"):
        vhost.bindings.bind(Binding("x", "q", "queue", "", {"x-filter-sql": "a ="}), None)
    assert vhost.statistics().binding_count == 0


def test_what_is_bound_or_unbound_twice_is_recorded_once(world: World, vhost: VirtualHost):
    exchange(vhost, "x")
    queue(vhost, "q")
    owner = Somebody()
    for _ in range(2):
        vhost.bindings.bind(Binding("x", "q", "queue", "k", {}), owner)
    for _ in range(2):
        vhost.bindings.unbind(Binding("x", "q", "queue", "k", {}), owner)
    vhost.bindings.unbind(Binding("x", "no", "queue", "k", {}), owner)
    assert summary(world.changes)[-2:] == [(Put, StoredBinding), (Drop, StoredBinding)]


def test_nobody_else_binds_or_unbinds_an_exclusive_queue(vhost: VirtualHost):
    exchange(vhost, "x")
    mine, other = Somebody(), Somebody()
    queue(vhost, "q", mine)
    binding = Binding("x", "q", "queue", "k", {})
    with pytest.raises(ResourceLocked):
        vhost.bindings.bind(binding, other)
    vhost.bindings.bind(binding, mine)
    with pytest.raises(ResourceLocked):
        vhost.bindings.unbind(binding, other)
    assert vhost.statistics().binding_count == 1


def test_an_exchange_goes_with_its_last_binding_and_so_do_those_above(vhost: VirtualHost):
    for name in ("above", "x"):
        exchange(vhost, name, auto_delete=True)
    queue(vhost, "q")
    owner = Somebody()
    vhost.bindings.bind(Binding("above", "x", "exchange", "", {}), owner)
    for key in ("1", "2"):
        vhost.bindings.bind(Binding("x", "q", "queue", key, {}), owner)
    vhost.bindings.unbind(Binding("x", "q", "queue", "1", {}), owner)
    assert vhost.find_exchange("x") is not None
    vhost.bindings.unbind(Binding("x", "q", "queue", "2", {}), owner)
    assert vhost.find_exchange("x") is None
    assert vhost.find_exchange("above") is None


def test_a_binding_without_one_of_its_ends_is_not_restored(vhost: VirtualHost):
    exchange(vhost, "x")
    assert not vhost.bindings.restore(Binding("x", "no", "queue", "", {}))
    assert not vhost.bindings.restore_verdict_queue(7, Binding("x", "no", "queue", "", {}))
    assert vhost.statistics().binding_count == 0
