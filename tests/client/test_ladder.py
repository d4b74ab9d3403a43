"""The ladder of delays: what it declares, followed step by step by a message, and its keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kombu.transport.native_delayed_delivery import calculate_routing_key, level_name
from tests.client.topology import Topology

from leporid.client.ladder import LEVELS_MAX, Ladder


def declared(ladder: Ladder) -> Topology:
    topology = Topology()
    topology.exchange_declare("shop", "topic", durable=True)
    ladder.declare(topology)
    ladder.bind(topology, "shop", "orders.paid")
    return topology


@pytest.mark.parametrize("levels", [1, 2, 4, 6])
def test_every_delay_of_a_small_ladder(levels: int):
    ladder = Ladder(levels)
    topology = declared(ladder)
    assert ladder.delay_seconds_max == 2**levels - 1
    for seconds in range(2**levels):
        key = ladder.key(seconds, "orders.paid")
        assert topology.follow(ladder.entry, key, "shop") == seconds * 1000


@given(st.integers(0, 2**LEVELS_MAX - 1))
def test_delays_of_the_largest_ladder(seconds: int):
    ladder = Ladder()
    assert (
        LARGEST.follow(ladder.entry, ladder.key(seconds, "orders.paid"), "shop") == seconds * 1000
    )


LARGEST = declared(Ladder())


def test_keys_are_the_binary_digits_and_the_destination():
    assert Ladder(4).key(10, "destination") == "1.0.1.0.destination"
    assert Ladder(4).key(0, "destination") == "0.0.0.0.destination"
    assert Ladder(1).key(1, "a.b") == "1.a.b"


def test_a_message_goes_to_its_destination_only():
    ladder = Ladder(2)
    topology = declared(ladder)
    topology.exchange_declare("other", "topic", durable=True)
    ladder.bind(topology, "other", "invoices")
    assert topology.routes(ladder.delivery, ladder.key(1, "invoices")) == ["other"]
    assert topology.routes(ladder.delivery, ladder.key(1, "orders.paid")) == ["shop"]


@pytest.mark.parametrize("seconds", [-1, 16, 2**40])
def test_delays_out_of_range_are_refused(seconds: int):
    with pytest.raises(ValueError, match=f"a delay of {seconds} seconds .* 0 to 15 .* 4 levels"):
        Ladder(4).key(seconds, "d")


@pytest.mark.parametrize("seconds", [1.5, 1.0, "1", True, None])
def test_delays_are_whole_seconds(seconds: object):
    with pytest.raises(ValueError, match="whole seconds"):
        Ladder(4).key(seconds, "d")  # type: ignore[arg-type]


@pytest.mark.parametrize("levels", [0, -1, LEVELS_MAX + 1, 1000, True, 2.0])
def test_levels_out_of_range_are_refused(levels: int):
    with pytest.raises(ValueError, match=f"levels .* from 1 to {LEVELS_MAX}"):
        Ladder(levels)


def test_destinations_that_no_key_can_hold_are_refused():
    ladder = Ladder()
    longest = "x" * (255 - 2 * LEVELS_MAX)
    assert len(ladder.key(1, longest)) == 255
    for destination in (longest + "x", "ö" * 128):
        with pytest.raises(ValueError, match="255 bytes"):
            ladder.key(1, destination)
        with pytest.raises(ValueError, match="255 bytes"):
            ladder.bind(Topology(), "shop", destination)
    with pytest.raises(ValueError, match="empty"):
        ladder.key(1, "")


@pytest.mark.parametrize("destination", ["#", "a.*.b", "a.#"])
def test_wildcards_are_no_destination(destination: str):
    """Bound with them, an exchange would be given the messages of others too."""
    with pytest.raises(ValueError, match="wildcard"):
        Ladder(4).bind(Topology(), "shop", destination)


def test_a_key_says_where_it_leads():
    ladder = Ladder(4)
    assert ladder.destination_of(ladder.key(10, "a.b")) == "a.b"
    for key in ("1.0.1.a", "1.0.1.0", "1.0.2.0.a", "a", "", "1.0.1.0."):
        with pytest.raises(ValueError, match="no key of a ladder of 4 levels"):
            ladder.destination_of(key)


def test_names():
    ladder = Ladder(3, prefix="later.")
    assert (ladder.entry, ladder.delivery) == ("later.2", "later.delivery")
    assert [ladder.level_name(level) for level in (2, 1, 0)] == ["later.2", "later.1", "later.0"]
    with pytest.raises(ValueError, match="255 bytes"):
        Ladder(3, prefix="x" * 250)
    for prefix in ("", "amq."):
        with pytest.raises(ValueError, match="prefix"):
            Ladder(3, prefix=prefix)


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_queues_are_as_kombu_declares_them(queue_type: str):
    """A Celery worker and this ladder may declare the same one, in either order."""
    ladder = Ladder(prefix="celery_delayed_", queue_type=queue_type)
    topology = Topology()
    ladder.declare(topology)
    assert ladder.delivery == "celery_delayed_delivery"
    assert [*topology.queues] == [level_name(level) for level in range(27, -1, -1)]
    assert topology.queues["celery_delayed_3"] == {
        "x-queue-type": queue_type,
        "x-overflow": "reject-publish",
        "x-message-ttl": 8000,
        "x-dead-letter-exchange": "celery_delayed_2",
    } | ({"x-dead-letter-strategy": "at-least-once"} if queue_type == "quorum" else {})
    assert topology.queues["celery_delayed_0"]["x-dead-letter-exchange"] == ladder.delivery
    assert ladder.key(90_000, "q") == calculate_routing_key(90_000, "q")


def test_an_unknown_type_of_queue_is_refused():
    with pytest.raises(ValueError, match="'stream' is neither 'classic' nor 'quorum'"):
        Ladder(4, queue_type="stream")
