import pytest
from tests.broker.exchange.types.bindings import message
from tests.broker.topology_world import World

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.exchange.exchange import DEFAULT_EXCHANGE
from leporid.broker.exchange.types import Binding
from leporid.broker.registry import finished


@pytest.fixture
def world() -> World:
    return World()


# ------------------------------------------------------------------ bindings


def test_binding_says_whether_the_binding_is_new(world: World):
    world.exchange("x", "direct")
    world.queues("q")
    assert world.topology.bind(Binding("x", "q", "queue", "k", {}))
    assert not world.topology.bind(Binding("x", "q", "queue", "k", {}))
    assert world.topology.bind(Binding("x", "q", "queue", "k", {"n": 1}))
    assert world.route("x", "k") == ["q"]
    assert world.topology.unbind(Binding("x", "q", "queue", "k", {}))
    assert not world.topology.unbind(Binding("x", "q", "queue", "k", {}))
    assert world.route("x", "k") == ["q"]
    assert world.topology.unbind(Binding("x", "q", "queue", "k", {"n": 1}))
    assert world.route("x", "k") == []


def test_a_refused_binding_changes_nothing(world: World):
    x = world.exchange("x", "headers")
    world.queues("q")
    world.told()
    with pytest.raises(PreconditionFailed, match="Invalid x-match"):
        world.topology.bind(Binding("x", "q", "queue", "", {"x-match": "foo"}))
    assert not x.in_use
    assert world.told() == {}


def test_unbinding_does_not_look_at_x_match(world: World):
    world.exchange("x", "headers")
    world.queues("q")
    assert not world.topology.unbind(Binding("x", "q", "queue", "", {"x-match": "foo"}))


def test_a_removed_queue_takes_its_bindings_with_it(world: World):
    x, y = world.exchange("x"), world.exchange("y", "direct")
    world.queues("q", "r")
    gone = [world.bind("x", "q"), world.bind("y", "q", "k"), world.bind("y", "q", "l")]
    stays = world.bind("x", "r")
    assert list(world.topology.remove_queue("q")) == gone
    assert list(x.outgoing) == [stays]
    assert not y.in_use
    assert world.route("x") == ["r"]
    world.queues("q")
    assert world.route("y", "k") == []


def test_a_removed_exchange_takes_its_bindings_with_it(world: World):
    world.exchange("x")
    above = world.exchange("above")
    below = world.exchange("below")
    world.queues("q")
    gone = [
        world.bind("x", "q"),
        world.bind("x", "below"),
        world.bind("above", "x"),
        world.bind("x", "x"),
    ]
    world.bind("above", "q")
    removed = list(world.topology.remove_exchange("x"))
    assert len(removed) == len(gone)
    assert set(removed) == set(gone)
    assert world.sources["x"].retired
    assert "x" not in world.topology.exchanges
    assert not below.incoming
    assert not above.below
    assert world.route("above") == ["q"]


# ------------------------------------------------------------------ routing


def test_each_queue_is_found_once_in_the_order_of_the_bindings(world: World):
    world.exchange("x", "direct")
    world.queues("b", "a", "c")
    for queue, key in [("b", "k"), ("c", "l"), ("a", "k"), ("b", "l")]:
        world.bind("x", queue, key)
    assert world.route("x", "k", "l", "k") == ["b", "a", "c"]
    assert world.route("x", "l", "k") == ["c", "b", "a"]


def test_messages_flow_through_bound_exchanges(world: World):
    world.exchange("x", "direct")
    world.exchange("y", "topic")
    world.exchange("z")
    world.queues("q", "r")
    world.bind("x", "y", "a.b")
    world.bind("y", "z", "a.*")
    world.bind("z", "q")
    world.bind("y", "r", "a.c")
    assert world.route("x", "a.b") == ["q"]
    assert world.route("x", "a.c") == []
    assert world.route("y", "a.c") == ["r", "q"]


# RabbitMQ 3.10.8, as all that names it below.
def test_cycles_of_bindings_are_harmless(world: World):
    world.exchange("x")
    world.exchange("y")
    world.queues("q")
    world.bind("x", "x")
    world.bind("x", "y")
    world.bind("y", "x")
    world.bind("y", "q", "a")
    world.bind("y", "q", "b")
    assert world.route("x") == world.route("y") == ["q"]


def test_headers_reach_a_bound_headers_exchange(world: World):
    world.exchange("x", "direct")
    world.exchange("h", "headers")
    world.queues("q")
    world.bind("x", "h", "k")
    world.topology.bind(Binding("h", "q", "queue", "", {"a": 1}))
    assert world.route("x", "k", headers={"a": 1}) == ["q"]
    assert world.route("x", "k") == []


def test_the_alternate_exchange_gets_what_meets_no_binding(world: World):
    world.exchange("x", "direct", alternate="ae")
    world.exchange("ae")
    world.queues("q", "lost")
    world.bind("x", "q", "k")
    world.bind("ae", "lost")
    assert world.route("x", "k") == ["q"]
    assert world.route("x", "other") == ["lost"]


# RabbitMQ: the union over all keys counts.
def test_the_alternate_exchange_gets_nothing_if_one_of_several_keys_is_met(world: World):
    world.exchange("x", "direct", alternate="ae")
    world.exchange("ae")
    world.queues("q", "lost")
    world.bind("x", "q", "k")
    world.bind("ae", "lost")
    assert world.route("x", "none", "k") == ["q"]


# RabbitMQ: it is enough that a binding is met, even if that leads nowhere.
def test_the_alternate_exchange_gets_nothing_if_another_exchange_does(world: World):
    world.exchange("x", "direct", alternate="ae")
    world.exchange("y", "direct")
    world.exchange("ae")
    world.queues("lost")
    world.bind("x", "y", "k")
    world.bind("ae", "lost")
    assert world.route("x", "k") == []
    assert world.route("x", "other") == ["lost"]


# RabbitMQ: what a bound exchange does not find goes to its own alternate exchange, even if the
# message was routed elsewhere as well.
def test_a_bound_exchange_uses_its_own_alternate_exchange(world: World):
    world.exchange("x", "direct")
    world.exchange("y", "direct", alternate="ae")
    world.exchange("ae")
    world.queues("q", "lost")
    world.bind("x", "y", "k")
    world.bind("x", "q", "k")
    world.bind("ae", "lost")
    assert sorted(world.route("x", "k")) == ["lost", "q"]


def test_a_missing_alternate_exchange_is_ignored_until_it_is_there(world: World):
    world.exchange("x", "direct", alternate="ae")
    world.queues("lost")
    assert world.route("x", "k") == []
    world.exchange("ae")
    world.bind("ae", "lost")
    assert world.route("x", "k") == ["lost"]
    list(world.topology.remove_exchange("ae"))
    assert world.route("x", "k") == []


# RabbitMQ: n1 and n2 are each other's alternate.
def test_cycles_of_alternate_exchanges_are_harmless(world: World):
    world.exchange("n1", "direct", alternate="n2")
    world.exchange("n2", "direct", alternate="n1")
    world.exchange("own", "direct", alternate="own")
    world.queues("q")
    world.bind("n2", "q", "z")
    assert world.route("n1", "k") == []
    assert world.route("n1", "z") == ["q"]
    assert world.route("own", "k") == []
    for name in ("own", "n1", "n2"):
        list(world.topology.remove_exchange(name))
    assert len(world.topology.exchanges) == 0


def test_the_default_exchange_routes_by_queue_name(world: World):
    world.exchange(DEFAULT_EXCHANGE, "direct")
    world.queues("q", "r")
    assert world.route("", "q") == ["q"]
    assert world.route("", "none") == []
    assert world.route("", "r", "q", "none", "r") == ["r", "q"]
    list(world.topology.remove_queue("q"))
    assert world.route("", "q") == []


# RabbitMQ: the queue gets nothing.
def test_the_default_exchange_routes_nothing_as_an_alternate_exchange(world: World):
    world.exchange(DEFAULT_EXCHANGE, "direct")
    world.exchange("x", alternate="")
    world.queues("q")
    assert world.route("x", "q") == []


def test_strict_keys_are_asked_of_the_exchange_published_to_and_of_no_other(world: World):
    world.exchange("strict", "topic", strict=True)
    world.exchange("x")
    world.queues("q")
    world.bind("x", "strict")
    world.bind("strict", "q", "#")
    assert world.route("strict", "a.b") == ["q"]
    with pytest.raises(PreconditionFailed, match="only letters"):
        world.route("strict", "a b")
    with pytest.raises(PreconditionFailed, match="no wildcards"):
        world.route("strict", "a", "*")
    with pytest.raises(PreconditionFailed, match="side by side"):
        world.bind("strict", "q", "#.#")
    assert world.route("x", "a b") == ["q"]


# ------------------------------------------------------------------ size


@pytest.mark.slow
def test_ten_thousand_bindings_are_added_found_and_removed_without_looking_at_each(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    compared = 0
    equal = Binding.__eq__

    def counted(one: Binding, other: object) -> bool:
        nonlocal compared
        compared += 1
        return equal(one, other)

    monkeypatch.setattr(Binding, "__eq__", counted)
    topic = world.exchange("t", "topic")
    world.exchange("d", "direct")
    world.exchange("top")
    world.bind("top", "t")
    world.queues("q", "r")
    bindings = [world.bind("t", "q", f"a.{number}.*.b.#") for number in range(10_000)]
    for number in range(1000):
        world.bind("d", "r", f"k{number}")
        assert world.route("d", f"k{number}") == ["r"]
        assert world.route("t", f"a.{number}.x.b") == ["q"]
    for binding in bindings:
        assert world.topology.unbind(binding)
    assert not topic.in_use
    # Some because a binding was looked up by an equal one, none because of all the others.
    assert compared < 100_000


def test_exchanges_with_a_history_that_a_message_passes_keep_it(world: World):
    world.exchange("top")
    for name in ("one", "two"):
        world.exchange(name, "x-recent-history")
        world.bind("top", name)
    world.bind("one", "two")
    world.exchange("elsewhere", "x-recent-history")
    world.queues("q")
    world.bind("two", "q")
    reached = world.resolve("top", "k")
    assert (reached.queues, sorted(reached.keepers)) == (["q"], ["one", "two"])
    not_kept = {"x-recent-history-no-store": True}
    assert world.resolve("top", "k", headers=not_kept).keepers == []


def test_being_kept_is_not_being_routed(world: World):
    world.exchange("x", "x-recent-history", alternate="ae")
    world.exchange("ae")
    world.queues("lost")
    world.bind("ae", "lost")
    reached = world.resolve("x", "k")
    assert (reached.queues, reached.keepers) == (["lost"], ["x"])


def test_strict_keys_are_asked_for_by_the_exchange_that_is_published_to_only(world: World):
    exchange = world.exchange("strict", strict=True)
    world.queues("q")
    world.bind("strict", "q", "k")
    assert finished(world.topology.reaching(exchange, message("not strict!"))).queues == ["q"]
