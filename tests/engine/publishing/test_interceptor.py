"""Timestamps and message ids that the broker sets, on encoded properties."""

from __future__ import annotations

import itertools
import re
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.frames import NO_PROPERTIES, PERSISTENT, publish
from tests.engine.session_fake import Peer

from leporid.amqp.properties import Properties, decode_properties, encode_properties
from leporid.engine.publishing.interceptor import MODES, Interceptor
from leporid.engine.queue.browse import snapshot

WALL_MS = 1_700_000_123_999
SECONDS = 1_700_000_123
ID = re.compile(r"M-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
octets = st.none() | st.integers(0, 255)
PROPERTIES = st.builds(
    Properties,
    content_type=texts,
    content_encoding=texts,
    headers=st.none() | st.dictionaries(st.text("abc", max_size=5), st.text("xyz"), max_size=3),
    delivery_mode=octets,
    priority=octets,
    correlation_id=texts,
    reply_to=texts,
    expiration=texts,
    message_id=texts,
    timestamp=st.none() | st.integers(0, (1 << 64) - 1),
    type=texts,
    user_id=texts,
    app_id=texts,
    cluster_id=texts,
)


def interceptor(timestamp: str = "off", message_id: str = "off") -> Interceptor:
    """One whose random bytes count up."""
    drawn = itertools.cycle(range(256))
    return Interceptor(
        timestamp=timestamp,
        message_id=message_id,
        random_bytes=lambda size: bytes(itertools.islice(drawn, size)),
    )


@given(given=PROPERTIES, timestamp=st.sampled_from(list(MODES)), ids=st.sampled_from(list(MODES)))
def test_it_sets_what_it_should_and_leaves_the_rest(given: Properties, timestamp: str, ids: str):
    raw = interceptor(timestamp, ids).intercepted(encode_properties(given), WALL_MS)
    found = decode_properties(raw)
    expected = given
    if timestamp == "overwrite" or (timestamp == "keep" and given.timestamp is None):
        expected = replace(expected, timestamp=SECONDS)
    if ids == "overwrite" or (ids == "keep" and given.message_id is None):
        assert ID.fullmatch(found.message_id or "")
        expected = replace(expected, message_id=found.message_id)
    assert found == expected
    assert raw == encode_properties(expected)


def test_ids_are_uuids_and_none_comes_twice():
    drawn = itertools.count(1)
    one = Interceptor(
        timestamp="off",
        message_id="keep",
        random_bytes=lambda size: b"".join(next(drawn).to_bytes(8) for _ in range(size // 8)),
    )
    ids = [decode_properties(one.intercepted(NO_PROPERTIES, 0)).message_id for _ in range(200)]
    assert len(set(ids)) == 200
    parsed = [uuid.UUID((each or "").removeprefix("M-")) for each in ids]
    assert {(each.version, each.variant) for each in parsed} == {(4, uuid.RFC_4122)}
    assert (parsed[0].bytes[7], parsed[0].bytes[15], parsed[1].bytes[15]) == (1, 2, 4)


@pytest.mark.parametrize("raw", [b"", b"\x80", b"\x80\x00\x05ab", b"\x00\x40\x00", b"\x00\x01"])
def test_what_does_not_parse_is_a_mistake_of_the_caller(raw: bytes):
    with pytest.raises(ValueError, match="do not parse"):
        interceptor("keep", "keep").intercepted(raw, 0)


def test_words_it_does_not_know_are_refused():
    with pytest.raises(KeyError):
        interceptor("always")


def test_too_few_random_bytes_are_refused():
    one = Interceptor(timestamp="off", message_id="keep", random_bytes=lambda size: b"few")
    with pytest.raises(ValueError, match="1024 random bytes"):
        one.intercepted(NO_PROPERTIES, 0)


# ------------------------------------------------------------------ in an engine


def received(engine, queue) -> list[Properties]:
    return [decode_properties(properties) for _, _, properties, _ in snapshot(queue)]


def test_what_clients_publish_is_intercepted(engine, queue, peer: Peer):
    engine.clock.wall_ms = WALL_MS
    engine.publishing.interceptor = interceptor("keep", "keep")
    peer.feed(publish(1, "q") + publish(1, "q", raw=PERSISTENT))
    first, second = received(engine, queue)
    assert (first.timestamp, second.timestamp) == (SECONDS, SECONDS)
    assert ID.fullmatch(first.message_id or "")
    assert first.message_id != second.message_id
    assert second.delivery_mode == 2


def test_what_the_broker_publishes_is_not(engine, queue):
    engine.publishing.interceptor = interceptor("overwrite", "overwrite")
    engine.publish([queue], "x", "k", NO_PROPERTIES, b"")
    assert received(engine, queue) == [Properties()]


def test_a_route_is_looked_up_with_what_was_set(engine, queue, peer: Peer):
    engine.publishing.interceptor = interceptor("keep", "keep")
    seen = []

    def resolve(key, raw):
        seen.append(decode_properties(raw))
        return [queue]

    peer.session.caches["x"] = engine.route_cache("x", resolve, False)
    peer.feed(publish(1, "k", exchange="x"))
    assert seen == received(engine, queue)
    assert seen[0].message_id


def test_other_rewrites_keep_what_was_set(engine, queue, peer: Peer):
    engine.clock.wall_ms = WALL_MS
    engine.publishing.interceptor = interceptor("keep", "keep")
    peer.session.reply_name = "amq.rabbitmq.reply-to.g2"
    raw = encode_properties(
        Properties(reply_to="amq.rabbitmq.reply-to", headers={"CC": ["q"], "BCC": ["none"]})
    )
    peer.feed(publish(1, "q", b"body", raw=raw))
    (found,) = received(engine, queue)
    assert found.headers == {"CC": ["q"]}
    assert found.timestamp == SECONDS
    assert ID.fullmatch(found.message_id or "")


def test_properties_at_the_end_of_a_transaction_are_those_of_its_publish(engine, queue, peer: Peer):
    engine.publishing.interceptor = interceptor("keep")
    engine.clock.wall_ms = WALL_MS
    peer.channel.select_tx()
    peer.feed(publish(1, "q"))
    engine.clock.wall_ms += 60_000
    peer.channel.commit()
    assert received(engine, queue) == [Properties(timestamp=SECONDS)]


def test_without_one_nothing_is_changed(engine, queue, peer: Peer):
    assert engine.publishing.interceptor is None
    peer.feed(publish(1, "q"))
    assert received(engine, queue) == [Properties()]
