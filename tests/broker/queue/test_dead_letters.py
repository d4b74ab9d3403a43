"""What a dead letter says of how it died, and where it goes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import cast

import pytest
from tests.broker.engine_fake import FakeQueue as Queue
from tests.broker.peer import Peer, World

from leporid.amqp.methods import ExchangeDeclare, QueueBind, QueueDeclare
from leporid.amqp.properties import Properties, decode_properties, encode_properties
from leporid.amqp.tables import MAX_TABLE_BYTES, Int8, Timestamp, Value
from leporid.broker.registry import StepsTo, finished
from leporid.engine.bounds.clock import Clock

NOW_SECONDS = 1_700_000_000
# A property frame that holds this much is at its limit once a death is added.
HUGE_BYTES = MAX_TABLE_BYTES - 100


class Cemetery:
    """A virtual host where messages die when they are told to; notes what is published."""

    def __init__(self, world: World, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.peer = peer
        self.letters: list[tuple[list[str], str, str, Properties, bytes]] = []
        self.refuses = False
        world.engine.clock.wall_ms = NOW_SECONDS * 1000 + 999
        monkeypatch.setattr(world.engine, "publish", self.publish)

    def publish(
        self,
        queues: Sequence[Queue],
        exchange: str,
        key: str,
        properties: bytes,
        body: bytes,
        *,
        elsewhere: Callable[[], Sequence[Queue]] | None = None,
    ) -> bool:
        names = [queue.name for queue in queues]
        self.letters.append((names, exchange, key, decode_properties(properties), body))
        return bool(queues) and not self.refuses

    def queue(self, name: str, exchange: str | None = None, key: str | None = None) -> None:
        arguments: dict[str, Value] = {}
        if exchange is not None:
            arguments["x-dead-letter-exchange"] = exchange
        if key is not None:
            arguments["x-dead-letter-routing-key"] = key
        self.peer.call(QueueDeclare(queue=name, arguments=arguments))

    def bury(
        self, name: str, reason: str = "rejected", key: str = "k", **properties: object
    ) -> tuple[list[str], Properties]:
        """Have a message die in a queue; returns where it went, and as what."""
        before = len(self.letters)
        raw = encode_properties(Properties(**properties))  # type: ignore[arg-type]
        port = self.world.queue(name).dead_letters
        assert port is not None
        steps = port(reason, "from", key, raw, b"body")
        finished(cast("StepsTo[None]", steps))
        if len(self.letters) == before:
            return [], Properties()
        (queues, _, _, letter, _) = self.letters[-1]
        return queues, letter

    def counts(self) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], int]]:
        """Return what was counted: deaths, and dead letters that went nowhere."""
        counts = self.world.broker.dead_letter_counts
        return dict(counts.deaths), dict(counts.dropped)


@pytest.fixture
def cemetery(monkeypatch: pytest.MonkeyPatch) -> Cemetery:
    world = World()
    return Cemetery(world, world.peer(), monkeypatch)


def deaths(letter: Properties) -> list[dict[str, Value]]:
    found = (letter.headers or {})["x-death"]
    assert isinstance(found, list)
    return [dict(each) for each in found if isinstance(each, dict)]


def counts(letter: Properties) -> list[tuple[Value, Value, Value]]:
    return [(each["queue"], each["reason"], each["count"]) for each in deaths(letter)]


def death(queue: str, reason: str, count: Value = 1) -> dict[str, Value]:
    return {"queue": queue, "reason": reason, "count": count}


def test_it_says_how_it_died(cemetery: Cemetery):
    cemetery.queue("morgue")
    cemetery.queue("q", "", "morgue")
    cemetery.bury(
        "q", "expired", headers={"mine": 1}, expiration="20", message_id="id", delivery_mode=2
    )
    ((queues, exchange, key, letter, body),) = cemetery.letters
    assert (queues, exchange, key, body) == (["morgue"], "", "morgue", b"body")
    assert (letter.expiration, letter.message_id, letter.delivery_mode) == (None, "id", 2)
    assert letter.headers == {
        "mine": 1,
        "x-first-death-reason": "expired",
        "x-first-death-queue": "q",
        "x-first-death-exchange": "from",
        "x-last-death-reason": "expired",
        "x-last-death-queue": "q",
        "x-last-death-exchange": "from",
        "x-death": [
            {
                "count": 1,
                "reason": "expired",
                "queue": "q",
                "time": NOW_SECONDS,
                "exchange": "from",
                "routing-keys": ["k"],
                "original-expiration": "20",
            }
        ],
    }
    assert isinstance(deaths(letter)[0]["time"], Timestamp)


def test_without_a_time_to_live_it_says_nothing_of_one(cemetery: Cemetery):
    cemetery.queue("q", "amq.fanout")
    assert "original-expiration" not in deaths(cemetery.bury("q")[1])[0]


def test_deaths_are_counted_and_the_last_stands_first(cemetery: Cemetery):
    cemetery.queue("p", "amq.fanout")
    cemetery.queue("q", "amq.fanout")
    headers: dict[str, Value] | None = None
    for queue, reason in [("q", "rejected"), ("p", "expired"), ("q", "rejected"), ("q", "maxlen")]:
        headers = cemetery.bury(queue, reason, headers=headers)[1].headers
    letter = cemetery.letters[-1][3]
    assert counts(letter) == [("q", "maxlen", 1), ("q", "rejected", 2), ("p", "expired", 1)]
    assert headers is not None
    assert (headers["x-first-death-queue"], headers["x-first-death-reason"]) == ("q", "rejected")
    assert (headers["x-last-death-queue"], headers["x-last-death-reason"]) == ("q", "maxlen")


def test_without_a_key_of_the_queue_it_keeps_its_own_and_its_copies(cemetery: Cemetery):
    for name in ("a", "b", "c"):
        cemetery.queue(name)
    cemetery.queue("q", "")
    queues, letter = cemetery.bury("q", key="a", headers={"CC": ["b", 7, "none"]})
    assert queues == ["a", "b"]
    assert cemetery.letters[-1][2] == "a"
    assert letter.headers is not None
    assert letter.headers["CC"] == ["b", 7, "none"]
    assert deaths(letter)[0]["routing-keys"] == ["a", "b", "none"]


def test_a_key_of_the_queue_replaces_them(cemetery: Cemetery):
    for name in ("a", "b", "c"):
        cemetery.queue(name)
    cemetery.queue("q", "", "c")
    queues, letter = cemetery.bury("q", key="a", headers={"CC": ["b"]})
    assert queues == ["c"]
    assert letter.headers is not None
    assert "CC" not in letter.headers
    assert deaths(letter)[0]["routing-keys"] == ["a", "b"]


def test_its_exchange_may_come_later(cemetery: Cemetery):
    cemetery.queue("morgue")
    cemetery.queue("q", "later", "k")
    cemetery.bury("q")
    assert cemetery.letters == []
    cemetery.peer.call(ExchangeDeclare(exchange="later", type="fanout"))
    cemetery.peer.call(QueueBind(queue="morgue", exchange="later"))
    assert cemetery.bury("q")[0] == ["morgue"]


def test_an_exchange_that_looks_at_headers_sees_the_new_ones(cemetery: Cemetery):
    cemetery.queue("morgue")
    cemetery.queue("q", "amq.headers")
    wanted: dict[str, Value] = {"x-match": "all-with-x", "x-first-death-reason": "expired"}
    cemetery.world.broker.vhosts["/"].routing._topology.clock = Clock()
    cemetery.peer.call(QueueBind(queue="morgue", exchange="amq.headers", arguments=wanted))
    assert cemetery.bury("q", "rejected")[0] == []
    assert cemetery.bury("q", "expired")[0] == ["morgue"]


def test_an_exchange_that_takes_no_such_key_gets_nothing(cemetery: Cemetery):
    strict: dict[str, Value] = {"x-strict-keys": True}
    cemetery.peer.call(ExchangeDeclare(exchange="x", type="fanout", arguments=strict))
    cemetery.queue("q", "x")
    assert cemetery.bury("q", key="not strict")[0] == []
    assert cemetery.letters == []


@pytest.mark.parametrize(
    ("reason", "history", "goes"),
    [
        ("expired", [], False),  # straight back to where it died
        ("maxlen", [], False),
        ("rejected", [], True),
        ("expired", [death("p", "rejected")], False),  # it was here since
        ("expired", [death("p", "expired")], False),
    ],
)
def test_a_queue_that_feeds_itself(
    cemetery: Cemetery, reason: str, history: list[Value], goes: bool
):
    cemetery.queue("q", "", "q")
    assert cemetery.bury("q", reason, headers={"x-death": history})[0] == (["q"] if goes else [])


@pytest.mark.parametrize(
    ("history", "goes"),
    [
        ([], True),
        ([death("p", "expired")], False),
        ([death("r", "maxlen"), death("p", "expired")], False),
        ([death("r", "rejected"), death("p", "expired")], True),
        ([death("p", "rejected")], True),
        ([death("p", "expired"), death("r", "rejected")], False),
        ([7, None, {"queue": 1}, {}, death("p", "maxlen")], False),
    ],
)
def test_a_circle_ends_unless_somebody_rejected(
    cemetery: Cemetery, history: list[Value], goes: bool
):
    cemetery.queue("p")
    cemetery.queue("q", "", "p")
    assert cemetery.bury("q", "expired", headers={"x-death": history})[0] == (["p"] if goes else [])


def test_only_the_queue_it_died_in_is_left_out(cemetery: Cemetery):
    for name in ("p", "q"):
        cemetery.queue(name, "amq.fanout")
        cemetery.peer.call(QueueBind(queue=name, exchange="amq.fanout"))
    assert cemetery.bury("q", "expired")[0] == ["p"]


@pytest.mark.parametrize("claimed", ["text", 1, None, {"queue": "q"}])
def test_claims_that_are_no_list_do_not_count(cemetery: Cemetery, claimed: Value):
    cemetery.queue("q", "amq.fanout")
    assert counts(cemetery.bury("q", headers={"x-death": claimed})[1]) == [("q", "rejected", 1)]


@pytest.mark.parametrize(
    ("claimed", "count"),
    [
        (2, 3),
        ("many", 1),
        (None, 1),
        (-5, -4),
        (2**63 - 2, 2**63 - 1),
        (2**63 - 1, 2**63 - 1),
    ],
)
def test_claimed_counts_do_no_harm(cemetery: Cemetery, claimed: Value, count: int):
    cemetery.queue("q", "amq.fanout")
    history: list[Value] = [death("q", "rejected", claimed)]
    _, letter = cemetery.bury("q", headers={"x-death": history})
    assert counts(letter) == [("q", "rejected", count)]


OWN: dict[str, Value] = {"queue": "q", "reason": "rejected"}
MORE: dict[str, Value] = {"queue": "p", "reason": "rejected"}


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [
        ([OWN], [("q", 1)]),
        ([OWN, OWN], [("q", 3)]),
        ([OWN | {"count": 2}, OWN | {"count": 5}], [("q", 3)]),
        ([OWN, OWN | {"count": 7}, OWN], [("q", 4)]),
        ([OWN, MORE | {"count": 1}], [("q", 2), ("p", 1)]),
        ([MORE], [("q", 1), ("p", None)]),
        ([MORE, OWN, MORE, OWN], [("q", 3), ("p", 2)]),
        ([MORE | {"count": 2}, MORE], [("q", 1), ("p", 2)]),
        ([MORE | {"count": "x"}, MORE], [("q", 1), ("p", "x")]),
        ([MORE | {"queue": each} for each in "abc"], [("q", 1), *((each, 1) for each in "abc")]),
        ([OWN | {"reason": "expired"}] * 2, [("q", 1), ("q", 2)]),
        ([{"queue": ["p"]}] * 2, [("q", 1), (["p"], 2)]),
        ([{}] * 3, [("q", 1), (None, 3)]),
        ([{"reason": "rejected"}], [("q", 1), (None, None)]),
    ],
)
def test_entries_of_one_queue_and_reason_are_folded(
    cemetery: Cemetery, claimed: list[Value], expected: list[tuple[Value, Value]]
):
    """As RabbitMQ 3.10.8 does, but that it turns the others around."""
    cemetery.queue("q", "amq.fanout")
    _, letter = cemetery.bury("q", headers={"x-death": claimed})
    assert [(each.get("queue"), each.get("count")) for each in deaths(letter)] == expected


def test_entries_that_are_no_tables_stay(cemetery: Cemetery):
    """RabbitMQ loses the message, and its queue crashes."""
    cemetery.queue("q", "amq.fanout")
    _, letter = cemetery.bury("q", headers={"x-death": ["a", "a", OWN, OWN]})
    found = (letter.headers or {})["x-death"]
    assert isinstance(found, list)
    assert found[1:] == ["a", "a"]
    assert counts(letter) == [("q", "rejected", 3)]


def test_headers_that_nobody_could_read_are_not_made(cemetery: Cemetery):
    cemetery.queue("q", "amq.fanout")
    cemetery.bury("q", headers={"huge": "x" * (HUGE_BYTES - 1000)})
    assert len(cemetery.letters) == 1
    cemetery.bury("q", headers={"huge": "x" * HUGE_BYTES})
    assert len(cemetery.letters) == 1


def test_deaths_are_counted_by_reason_and_type_of_queue(cemetery: Cemetery):
    cemetery.queue("morgue")
    cemetery.queue("q", "", "morgue")
    cemetery.peer.call(
        QueueDeclare(
            queue="quorum",
            durable=True,
            arguments={"x-queue-type": "quorum", "x-dead-letter-exchange": "amq.fanout"},
        )
    )
    cemetery.peer.call(QueueBind(queue="morgue", exchange="amq.fanout"))
    for reason in ("expired", "maxlen", "expired"):
        cemetery.bury("q", reason)
    cemetery.bury("quorum", "delivery_limit")
    deaths, dropped = cemetery.counts()
    assert deaths == {
        ("expired", "rabbit_classic_queue"): 2,
        ("maxlen", "rabbit_classic_queue"): 1,
        ("delivery_limit", "rabbit_quorum_queue"): 1,
    }
    assert dropped == {}


def test_a_letter_to_an_exchange_that_is_not_there_is_counted_and_told_once(
    cemetery: Cemetery, caplog: pytest.LogCaptureFixture
):
    cemetery.queue("q", "later")
    for _ in range(3):
        cemetery.bury("q", "expired")
    assert cemetery.counts() == (
        {("expired", "rabbit_classic_queue"): 3},
        {("expired", "no_exchange"): 3},
    )
    assert [record.getMessage() for record in caplog.records] == [
        "dead letters of queue 'q' in vhost '/' are dropped: there is no exchange 'later'"
    ]


@pytest.mark.parametrize(
    ("cause", "exchange", "key", "reason"),
    [
        ("no_queue", "amq.direct", "nobody", "rejected"),
        ("cycle", "", "q", "expired"),
        ("refused", "", "full", "maxlen"),
        ("invalid_key", "strict", "not strict", "rejected"),
    ],
)
def test_letters_that_go_nowhere_are_counted_with_the_cause(
    cemetery: Cemetery, cause: str, exchange: str, key: str, reason: str
):
    strict: dict[str, Value] = {"x-strict-keys": True}
    cemetery.peer.call(ExchangeDeclare(exchange="strict", type="fanout", arguments=strict))
    cemetery.queue("full")
    cemetery.queue("q", exchange, key)
    cemetery.refuses = cause == "refused"
    cemetery.bury("q", reason)
    assert cemetery.counts()[1] == {(reason, cause): 1}


def test_a_letter_too_large_for_its_headers_is_counted(cemetery: Cemetery):
    cemetery.queue("q", "amq.fanout")
    cemetery.bury("q", headers={"huge": "x" * HUGE_BYTES})
    assert cemetery.counts()[1] == {("rejected", "too_large"): 1}


def test_a_defect_costs_one_letter_and_is_counted(
    cemetery: Cemetery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    cemetery.queue("q", "amq.fanout")
    monkeypatch.setattr(cemetery.world.engine, "publish", None)
    cemetery.peer.call(QueueBind(queue="q", exchange="amq.fanout"))
    cemetery.bury("q")
    assert cemetery.counts()[1] == {("rejected", "defect"): 1}
    assert "defect" in caplog.text


MANY_DEATHS = 3000
Port = Callable[[str, str, str, bytes, bytes], "StepsTo[None]"]


def calls_of(work: Callable[[], object]) -> int:
    """How many functions some work calls: what it does in one piece, whatever machine it is on."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    "claimed",
    [
        {"x-death": [death(f"q{number}", "maxlen") for number in range(MANY_DEATHS)]},
        {"x-death": [{}] * MANY_DEATHS},
        {"CC": ["key"] * MANY_DEATHS},
        {"other": [Int8(1)] * MANY_DEATHS},
    ],
    ids=["deaths", "empty deaths", "copies", "others"],
)
def test_headers_of_a_peer_are_not_decoded_in_one_piece(
    cemetery: Cemetery, monkeypatch: pytest.MonkeyPatch, claimed: dict
):
    """3,000 deaths took 50 ms to decode, to fold and to encode; 64,000 small numbers did, too."""
    cemetery.queue("morgue")
    cemetery.queue("q", "", "morgue")
    port = cast("Port", cemetery.world.queue("q").dead_letters)
    raw = encode_properties(Properties(headers=claimed))
    cemetery.bury("q")
    letters: list[bytes] = []
    monkeypatch.setattr(
        cemetery.world.engine, "publish", lambda *args, **_: letters.append(args[3])
    )
    plain = calls_of(lambda: finished(port("rejected", "", "k", b"\0\0", b"")))
    made = calls_of(lambda: finished(port("rejected", "", "k", raw, b"")))
    assert made < plain + 300 + len(claimed.get("CC", ()))  # each becomes a text
    assert len(letters) == 2
    headers = decode_properties(letters[-1]).headers or {}
    if "CC" in claimed:
        assert deaths(Properties(headers=headers))[0]["routing-keys"] == ["k", *claimed["CC"]]
    else:
        folded = {"x-death": [{"count": MANY_DEATHS}]} if {} in claimed.get("x-death", ()) else {}
        for name, value in (claimed | folded).items():
            assert headers[name][-len(value) :] == value  # type: ignore[index]


def test_many_queues_are_compared_with_all_deaths_at_once(
    cemetery: Cemetery, monkeypatch: pytest.MonkeyPatch
):
    """Each was looked for in each of the deaths: 3 million comparisons for 1,000 queues."""
    for number in range(100):
        cemetery.queue(f"m{number}")
        cemetery.peer.call(QueueBind(queue=f"m{number}", exchange="amq.fanout"))
    cemetery.queue("q", "amq.fanout")
    history: list[Value] = [death(f"none{number}", "expired") for number in range(MANY_DEATHS)]
    history.append(death("m7", "expired"))
    port = cast("Port", cemetery.world.queue("q").dead_letters)
    raw = encode_properties(Properties(headers={"x-death": history}))
    names: list[list[str]] = []
    monkeypatch.setattr(
        cemetery.world.engine,
        "publish",
        lambda queues, *_, **__: names.append([each.name for each in queues]),
    )
    assert calls_of(lambda: finished(port("expired", "", "k", raw, b""))) < 3000
    assert names == [[f"m{number}" for number in range(100) if number != 7]]


def test_a_letter_that_streams_have_was_not_dropped(
    cemetery: Cemetery, monkeypatch: pytest.MonkeyPatch
):
    """Though the queues that it is for, too, refuse it."""
    cemetery.queue("morgue")
    cemetery.peer.call(QueueBind(queue="morgue", exchange="amq.fanout"))
    cemetery.queue("stands for streams")
    cemetery.peer.call(QueueBind(queue="stands for streams", exchange="amq.fanout"))
    cemetery.queue("q", "amq.fanout")

    def storing(queues: Sequence, *_: object) -> StepsTo[tuple[Sequence, bytes]]:
        yield from ()
        return [each for each in queues if each.name == "morgue"], b""

    monkeypatch.setattr(cemetery.world.engine, "storing", storing)
    monkeypatch.setattr(cemetery.world.engine, "publish", lambda *_, **__: False)
    cemetery.bury("q")
    assert cemetery.counts()[1] == {}
