"""Garbage and nearly valid streams: they parse or end in a fault, and nobody else notices."""

from __future__ import annotations

import gc
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.engine import frames
from tests.engine.frames import (
    ack,
    array,
    basic_publish,
    bodies,
    content_header,
    frame,
    longstr,
    method,
    nack,
    properties,
    publish,
    reject,
    table,
)
from tests.engine.session_fake import CHANNEL_CLOSE_OK, Peer, make_engine
from tests.engine.slices import ended

FRAME_MAX = 4096

# ------------------------------------------------------------------ streams

CHANNELS = st.sampled_from([1, 1, 1, 2, 2, 0, 3])
KEYS = st.sampled_from(["q", "d", "gone", "", b"\xff"])
TAGS = st.sampled_from([0, 1, 2, 3, 7, 2**64 - 1])
VALUES = st.recursive(
    st.sampled_from(
        [
            b"V",
            b"t\x01",
            b"I\x00\x00\x00\x05",
            b"l" + bytes(8),
            b"d\x7f\xf8" + bytes(6),
            b"D\xff\x7f\xff\xff\xff",
            b"T" + b"\xff" * 8,
            b"x\x00\x00\x00\x02\xff\xfe",
            b"Z",
            b"S\x00\x00\x00\x09cut",
            longstr("q"),
            longstr(b"\xff"),
        ]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda values: array(*values)),
        st.dictionaries(st.sampled_from("ab"), inner, max_size=2).map(
            lambda fields: b"F" + table(**fields)
        ),
    ),
    max_leaves=6,
)
HEADERS = st.dictionaries(st.sampled_from(["CC", "BCC", "a", "x-death"]), VALUES, max_size=3)
STRINGS = st.sampled_from([None, None, "0", "5", "soon", "me", b"\xff\xfe", "x" * 255])
PROPERTIES = st.builds(
    properties,
    headers=st.one_of(st.none(), HEADERS.map(lambda fields: table(**fields))),
    delivery_mode=st.sampled_from([None, 0, 1, 2, 255]),
    priority=st.sampled_from([None, 0, 255]),
    reply_to=st.sampled_from([None, None, "amq.rabbitmq.reply-to", b"\xff"]),
    expiration=STRINGS,
    message_id=STRINGS,
    user_id=STRINGS,
)
BODIES = st.sampled_from([b"", b"x", bytes(100), bytes(5000)])
MESSAGES = st.builds(
    publish,
    CHANNELS,
    KEYS,
    BODIES,
    raw=st.one_of(PROPERTIES, st.binary(max_size=20)),
    exchange=st.sampled_from(["", "", "", "none", b"\xff"]),
    mandatory=st.booleans(),
    immediate=st.sampled_from([False] * 9 + [True]),
    step=st.sampled_from([None, 1000, 4088]),
)
FRAMES = st.one_of(
    MESSAGES,
    MESSAGES,
    st.builds(ack, CHANNELS, TAGS, st.booleans()),
    st.builds(reject, CHANNELS, TAGS, st.booleans()),
    st.builds(nack, CHANNELS, TAGS, st.booleans(), st.booleans()),
    st.builds(basic_publish, CHANNELS, KEYS),
    st.builds(content_header, CHANNELS, st.sampled_from([0, 1, 5, 2**63, 2**64 - 1]), PROPERTIES),
    st.builds(bodies, CHANNELS, st.sampled_from([b"x", b"12345"])),
    st.builds(frame, st.integers(0, 9), CHANNELS, st.binary(max_size=30)),
    st.builds(
        method,
        CHANNELS,
        st.sampled_from([10, 20, 50, 60, 85, 90, 0, 65535]),
        st.sampled_from([10, 11, 20, 40, 41, 50, 60, 70, 71, 80, 110]),
        st.binary(max_size=20),
    ),
    st.just(frame(frames.HEARTBEAT, 0, b"")),
    CHANNELS.map(lambda channel: frame(frames.METHOD, channel, CHANNEL_CLOSE_OK)),
)


def damaged(stream: bytes, random: Random) -> bytes:
    """A few bytes changed, taken out or put in."""
    data = bytearray(stream)
    for _ in range(random.choice([1, 1, 2, 5])):
        at = random.randrange(len(data) + 1)
        what = random.randrange(5)
        if what == 0 and at < len(data):
            data[at] ^= 1 << random.randrange(8)
        elif what == 1 and at < len(data):
            data[at] = random.choice([0, 1, 0x7F, 0x80, 0xCE, 0xFF])
        elif what == 2:
            del data[at : at + random.choice([1, 2, 8, 100])]
        elif what == 3:
            data[at:at] = random.randbytes(random.choice([1, 2, 8, 100]))
        else:
            other = random.randrange(len(data) + 1)
            data[at:at] = data[other : other + random.choice([8, 50])]
    return bytes(data)


# ------------------------------------------------------------------ what must hold


def pieces(stream: bytes, random: Random) -> list[bytes]:
    found = []
    while stream:
        size = random.choice([1, 3, 20, 500, 5000, len(stream)])
        found.append(stream[:size])
        stream = stream[size:]
    return found


def check(stream: bytes, seed: int) -> None:
    """One peer sends this; another one goes on as if nothing had happened."""
    engine = make_engine(durable_segment_bytes=65536)
    queues = {"q": engine.queue(0, "q", False), "d": engine.queue(1, "d", True)}
    peer = Peer(engine, queues, channels=(1, 2), frame_max=FRAME_MAX)
    peer.connection.user_id = b"me"
    witness = Peer(engine, {"w": engine.queue(0, "w", False)})
    witness.feed(basic_publish(1, "w"))
    for queue in queues.values():
        peer.channels[1].consume(queue, "c", False, 0, 5)
    peer.channels[2].select_confirm()
    for part in pieces(stream, Random(seed)):
        peer.feed(part)
        engine.run()
    assert peer.session.defects == []
    for _, fault in peer.session.faults:
        assert fault.code >= 300
        assert len(fault.text.encode()) <= 255
    ends = [fault.closes_connection for _, fault in peer.session.faults]
    assert ends == sorted(ends), "a channel was still heard after its connection had ended"
    peer.events()
    engine.clock.now_ms += 10
    engine.run()
    peer.connection.lost()
    engine.run()
    assert (queues["q"].unacked_count, queues["d"].unacked_count) == (0, 0)
    reader = Peer(engine)
    for queue in queues.values():
        count = queue.ready_count
        assert len(reader.drain(queue)) == count
        assert queue.ready_bytes == 0
    witness.feed(content_header(1, 2) + bodies(1, b"ok"))
    assert witness.drain(witness.queues["w"]) == [b"ok"]
    assert witness.faults == []


SEEDS = st.integers(0, 2**32)
QUICK = settings(max_examples=25, suppress_health_check=list(HealthCheck))
LONG = settings(QUICK, max_examples=600)


def streams_parse_or_end_in_a_fault(parts: list[bytes], seed: int) -> None:
    check(b"".join(parts), seed)


def damaged_streams_parse_or_end_in_a_fault(parts: list[bytes], seed: int) -> None:
    check(damaged(b"".join(parts), Random(seed)), seed)


def garbage_ends_in_a_fault(garbage: bytes, seed: int) -> None:
    check(garbage, seed)


PARTS = st.lists(FRAMES, min_size=1, max_size=12)
test_streams = QUICK(given(PARTS, SEEDS)(streams_parse_or_end_in_a_fault))
test_damaged_streams = QUICK(given(PARTS, SEEDS)(damaged_streams_parse_or_end_in_a_fault))
test_garbage = QUICK(
    example(b"\x03\x00\x01\x00\x00\x0f\xf8", 0)(
        given(st.binary(max_size=200), SEEDS)(garbage_ends_in_a_fault)
    )
)
test_more_streams = pytest.mark.slow(LONG(given(PARTS, SEEDS)(streams_parse_or_end_in_a_fault)))
test_more_damaged_streams = pytest.mark.slow(
    LONG(given(PARTS, SEEDS)(damaged_streams_parse_or_end_in_a_fault))
)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for its memory")
def test_what_a_peer_announces_costs_nothing_until_it_comes():
    engine = make_engine()
    before = resident_bytes()
    peers = []
    for _ in range(300):
        peer = Peer(engine, {}, channels=tuple(range(1, 20)))
        for channel in range(1, 20):
            peer.feed(basic_publish(channel, "q") + content_header(channel, 25_000_000))
            peer.feed(bodies(channel, b"x"))
        peer.feed(b"\x03\x00\x01\x00\x01\xff\xf0" + bytes(100))
        assert peer.faults == []
        peers.append(peer)
    assert resident_bytes() - before < 20_000_000


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for its memory")
def test_one_that_comes_and_goes_leaves_nothing_behind():
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    sizes = []
    for turn in range(6):
        for number in range(100):
            peer = Peer(engine, {"q": queue}, channels=(1, 2, 3))
            peer.channel.consume(queue, "c", False, 0, 0)
            peer.feed(publish(1, "q", bytes(1000)) * 20)
            engine.run()
            peer.feed(damaged(publish(2, "q", bytes(1000)) * 3, Random(number)))
            peer.connection.lost()
            ended(queue.purging())
        engine.connections.take_touched()
        gc.collect()
        if turn:
            sizes.append(resident_bytes())
    assert sizes[-1] - sizes[0] < 3_000_000
