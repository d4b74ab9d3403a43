"""Rights that a server decides, with brokers, pika, and a server of the test's."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import httpx
import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from tests.server.certificates import PATIENCE_S, logged_in, running, until
from tests.server.outside import Decider, Fields

from leporid.amqp.frames import method_frame
from leporid.amqp.methods import (
    BasicPublish,
    ChannelOpen,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    QueueDeclare,
)
from leporid.server.http_rights import REQUESTS_MAX
from leporid.testing.process import BrokerProcess

pytestmark = pytest.mark.slow

PASSWORD = "right +ü"
EMPTY = b"\x02\0\x01\0\0\0\x0e\0\x3c\0\0\0\0\0\0\0\0\0\0\0\0\xce"
"""The header of a message without a body."""
DENY = (200, b"deny")
ALL = '{configure = ".*", write = ".*", read = ".*"}'


@pytest.fixture(scope="module")
def decider() -> Iterator[Decider]:
    made = Decider()
    yield made
    made.close()


def configured(decider: Decider, cache_seconds: int, method: str = "post") -> str:
    paths = "\n".join(
        f'{key}_path = "{decider.url}/auth/{key}"' for key in ("user", "vhost", "resource", "topic")
    )
    return f"""
[auth]
backends = ["http", "internal"]
cache_seconds = {cache_seconds}
[auth_http]
http_method = "{method}"
{paths}
[users.own]
password = "own"
permissions."/" = {ALL}
"""


@pytest.fixture(scope="module")
def brokers(
    decider: Decider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[int, BrokerProcess]]:
    """Two brokers, by how long an answer counts in seconds."""
    with (
        running(tmp_path_factory.mktemp("long"), configured(decider, 3600)) as long,
        running(tmp_path_factory.mktemp("short"), configured(decider, 1, "get")) as short,
    ):
        yield {3600: long, 1: short}


@pytest.fixture
def broker(brokers: dict[int, BrokerProcess], decider: Decider) -> Iterator[BrokerProcess]:
    """One that remembers answers for an hour."""
    decider.asked.clear()
    yield brokers[3600]
    decider.hold.set()
    decider.decides = lambda path, fields: None


@pytest.fixture
def forgetful(brokers: dict[int, BrokerProcess], decider: Decider) -> Iterator[BrokerProcess]:
    """One that remembers them for a second."""
    decider.asked.clear()
    yield brokers[1]
    decider.hold.set()
    decider.decides = lambda path, fields: None


def connect(broker: BrokerProcess, name: str, **more: Any) -> pika.BlockingConnection:
    return logged_in(broker, name, "own" if name == "own" else PASSWORD, **more)


def denying(**denied: str) -> Callable[[str, Fields], tuple[int, bytes] | None]:
    """Deny what has all these fields."""

    def decides(_: str, fields: Fields) -> tuple[int, bytes] | None:
        return DENY if denied.items() <= fields.items() else None

    return decides


# ---------------------------------------------------------------- what is asked


def test_what_is_asked_is_what_rabbitmq_asks(broker: BrokerProcess, decider: Decider):
    connection = connect(broker, "asked")
    channel = connection.channel()
    channel.queue_declare("q")
    channel.exchange_declare("t", "topic")
    channel.queue_bind("q", "t", "a.b")
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"1")
    channel.basic_publish("t", "a.b", b"2")
    connection.close()
    (ip,) = {fields.pop("ip") for fields in decider.rights_asked() if "ip" in fields}
    assert ip == "127.0.0.1"
    user = {"username": "asked", "tags": "administrator", "vhost": "/"}
    names = {"variable_map.username": "asked", "variable_map.vhost": "/"}
    queue = {**user, "resource": "queue", "name": "q"}
    exchange = {**user, "resource": "exchange", "name": "t"}
    topic = {**user, "resource": "topic", "name": "t", "routing_key": "a.b", **names}
    assert [(path, fields) for _, path, fields in decider.asked[1:]] == [
        ("/auth/vhost", user),
        ("/auth/resource", {**queue, "permission": "configure"}),
        ("/auth/resource", {**exchange, "permission": "configure"}),
        ("/auth/resource", {**queue, "permission": "write"}),
        ("/auth/resource", {**exchange, "permission": "read"}),
        ("/auth/topic", {**topic, "permission": "read"}),
        ("/auth/resource", {**exchange, "name": "amq.default", "permission": "write"}),
        ("/auth/resource", {**exchange, "permission": "write"}),
        ("/auth/topic", {**topic, "permission": "write"}),
    ]


def test_nothing_is_asked_twice_while_it_counts(broker: BrokerProcess, decider: Decider):
    for _ in range(3):
        connection = connect(broker, "again")
        channel = connection.channel()
        for _ in range(3):
            channel.queue_declare("again")
            channel.basic_publish("", "again", b"")
        connection.close()
    asked = [tuple(sorted(fields.items())) for fields in decider.rights_asked()]
    assert len(asked) == len(set(asked)) == 3


def test_of_one_that_many_wait_for_is_asked_once(broker: BrokerProcess, decider: Decider):
    decider.hold.clear()
    decider.answers["many"] = (200, b"allow")
    waiting: list[threading.Thread] = []
    for _ in range(5):
        waiting.append(threading.Thread(target=lambda: connect(broker, "many").close()))
        waiting[-1].start()
    until(lambda: len(decider.asked) >= 1)
    decider.hold.set()
    for each in waiting:
        each.join(PATIENCE_S)
    assert len(decider.rights_asked()) == 1


# ---------------------------------------------------------------- every right, allowed and denied

Act = Callable[[BlockingChannel], Any]


def publish(exchange: str, key: str, body: bytes = b"m", **headers: Any) -> Act:
    def act(channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        properties = pika.BasicProperties(headers=headers or None)
        channel.basic_publish(exchange, key, body, properties)

    return act


def publish_in_transaction(channel: BlockingChannel) -> None:
    channel.tx_select()
    channel.basic_publish("r.e", "k", b"m")
    channel.tx_commit()


QUEUE = {"resource": "queue", "name": "r.q"}
NEW = {"resource": "queue", "name": "r.new"}
EXCHANGE = {"resource": "exchange", "name": "r.e"}
NEW_EXCHANGE = {"resource": "exchange", "name": "r.x"}
TOPIC = {"resource": "topic", "name": "r.t", "routing_key": "a.b"}
DEAD = {"x-dead-letter-exchange": "r.e"}
ALTERNATE = {"alternate-exchange": "r.e"}

ACTS: dict[str, tuple[dict[str, str], Act]] = {
    "declare a queue": (
        NEW | {"permission": "configure"},
        lambda channel: channel.queue_declare("r.new"),
    ),
    "declare one without a name": (
        {"resource": "queue", "permission": "configure"},
        lambda channel: channel.queue_declare("", exclusive=True),
    ),
    "declare one that dead-letters: read": (
        NEW | {"name": "r.dead", "permission": "read"},
        lambda channel: channel.queue_declare("r.dead", arguments=DEAD),
    ),
    "declare one that dead-letters: write": (
        EXCHANGE | {"permission": "write"},
        lambda channel: channel.queue_declare("r.dead2", arguments=DEAD),
    ),
    "delete a queue": (
        NEW | {"permission": "configure"},
        lambda channel: channel.queue_delete("r.new"),
    ),
    "declare an exchange": (
        NEW_EXCHANGE | {"permission": "configure"},
        lambda channel: channel.exchange_declare("r.x"),
    ),
    "declare one with an alternate": (
        EXCHANGE | {"permission": "write"},
        lambda channel: channel.exchange_declare("r.alternate", arguments=ALTERNATE),
    ),
    "delete an exchange": (
        NEW_EXCHANGE | {"permission": "configure"},
        lambda channel: channel.exchange_delete("r.x"),
    ),
    "bind: write": (
        QUEUE | {"permission": "write"},
        lambda channel: channel.queue_bind("r.q", "r.e", "k"),
    ),
    "bind: read": (
        EXCHANGE | {"permission": "read"},
        lambda channel: channel.queue_bind("r.q", "r.e", "k"),
    ),
    "bind by a topic": (
        TOPIC | {"permission": "read"},
        lambda channel: channel.queue_bind("r.q", "r.t", "a.b"),
    ),
    "unbind": (
        QUEUE | {"permission": "write"},
        lambda channel: channel.queue_unbind("r.q", "r.e", "k"),
    ),
    "publish": (EXCHANGE | {"permission": "write"}, publish("r.e", "k")),
    "publish to the default exchange": (
        {"resource": "exchange", "name": "amq.default", "permission": "write"},
        publish("", "r.q"),
    ),
    "publish in many frames": (
        EXCHANGE | {"permission": "write"},
        publish("r.e", "k", b"m" * 500_000),
    ),
    "publish in a transaction": (EXCHANGE | {"permission": "write"}, publish_in_transaction),
    "publish by a topic": (TOPIC | {"permission": "write"}, publish("r.t", "a.b")),
    "publish by a topic in many frames": (
        TOPIC | {"permission": "write"},
        publish("r.t", "a.b", b"m" * 500_000),
    ),
    "publish by a topic in CC": (
        TOPIC | {"permission": "write"},
        publish("r.t", "z", CC=["c", "a.b", "d"]),
    ),
    "publish by a topic in BCC": (
        TOPIC | {"permission": "write"},
        publish("r.t", "z", BCC=[*map(str, range(300)), "a.b"]),
    ),
    "consume": (
        QUEUE | {"permission": "read"},
        lambda channel: channel.basic_consume("r.q", print),
    ),
    "get": (QUEUE | {"permission": "read"}, lambda channel: channel.basic_get("r.q")),
    "purge": (QUEUE | {"permission": "read"}, lambda channel: channel.queue_purge("r.q")),
}


def settle_topology(broker: BrokerProcess) -> None:
    connection = connect(broker, "own")
    channel = connection.channel()
    for name in ("r.new", "r.dead", "r.dead2"):
        channel.queue_delete(name)
    for name in ("r.x", "r.alternate"):
        channel.exchange_delete(name)
    channel.queue_declare("r.q")
    channel.queue_purge("r.q")
    channel.exchange_declare("r.e")
    channel.exchange_declare("r.t", "topic")
    connection.close()


@pytest.mark.parametrize("what", ACTS)
def test_a_right_counts_as_the_server_says(broker: BrokerProcess, decider: Decider, what: str):
    denied, act = ACTS[what]
    settle_topology(broker)
    # Answers count for an hour, for users of one name.
    granted = connect(broker, f"may {what}")
    act(granted.channel())
    granted.close()
    assert any(denied.items() <= fields.items() for fields in decider.rights_asked())
    settle_topology(broker)
    decider.decides = denying(**denied)
    refused = connect(broker, f"may not {what}")
    channel = refused.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        act(channel)
    assert caught.value.reply_code == 403
    assert f"{denied['permission']} access to " in caught.value.reply_text
    # The connection goes on.
    refused.channel().close()
    refused.close()


def test_a_virtual_host_is_entered_as_the_server_says(broker: BrokerProcess, decider: Decider):
    connect(broker, "enters").close()
    decider.decides = denying(vhost="/", ip="127.0.0.1")
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError):
        connect(broker, "does not enter")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((500, b"allow"), "answers 500"),
        ((200, b"allowed"), "answers neither allow nor deny"),
        ((200, b""), "answers neither allow nor deny"),
        ((302, b"allow"), "answers 302"),
        ((200, b"allow" + b" x" * 5000), "more than 4096 octets"),
        ((200, b"\xff\0"), "answers neither allow nor deny"),
    ],
)
@pytest.mark.parametrize("path", ["vhost", "resource", "topic"])
def test_what_is_no_allow_grants_nothing(
    broker: BrokerProcess, decider: Decider, path: str, said: tuple[int, bytes], why: str
):
    settle_topology(broker)
    decider.decides = lambda asked, _: said if asked.endswith(path) else None
    name = f"{path} {said}"[:60]
    with pytest.raises(pika.exceptions.AMQPError), closing(connect(broker, name)) as connection:
        publish("r.t", "k")(connection.channel())
    text = broker.log_path.read_text()
    assert f"/auth/{path}: {why}" in text or (f"/auth/{path}" in text and why in text)


def test_a_server_that_says_nothing_in_time_grants_nothing(broker: BrokerProcess, decider: Decider):
    settle_topology(broker)
    connection = connect(broker, "unheard", heartbeat=2)
    channel = connection.channel()
    channel.queue_declare("r.q")
    decider.hold.clear()
    began = time.monotonic()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="write access"):
        publish("r.e", "k")(channel)
    assert time.monotonic() - began < PATIENCE_S
    assert "no whole answer within 5 s" in broker.log_path.read_text()
    connection.close()


# ---------------------------------------------------------------- others, and what is left


def test_others_do_not_wait_for_a_slow_server(broker: BrokerProcess, decider: Decider):
    settle_topology(broker)
    slow = [connect(broker, f"slow {number}") for number in range(2 * REQUESTS_MAX)]
    channels = [each.channel() for each in slow]
    known = connect(broker, "slow 0")
    knows = known.channel()
    publish("r.e", "k")(knows)
    own = connect(broker, "own")
    decider.hold.clear()
    asked = len(decider.asked)
    for number, channel in enumerate(channels[1:], 1):
        channel.basic_publish("", f"nowhere {number}", b"")
        slow[number].process_data_events(0)
    until(lambda: len(decider.asked) - asked >= REQUESTS_MAX)
    # Who is known to the broker, and who waits for nothing, goes on.
    channel = own.channel()
    channel.confirm_delivery()
    for _ in range(20):
        channel.basic_publish("r.e", "k", b"")
        knows.basic_publish("r.e", "k", b"")
    assert len(decider.asked) - asked <= REQUESTS_MAX
    decider.hold.set()
    for each in (own, known, *slow):
        each.close()


@pytest.mark.parametrize(
    "act",
    [BasicPublish("amq.direct", "k"), QueueDeclare(queue="left", exclusive=True)],
    ids=["publish", "declare"],
)
def test_who_leaves_while_a_right_is_asked_leaves_nothing(
    broker: BrokerProcess, decider: Decider, act: BasicPublish | QueueDeclare
):
    decider.answers["leaves"] = (200, b"allow " + type(act).__name__.encode())
    users_connected(broker)
    frames = (
        method_frame(0, ConnectionStartOk({}, "PLAIN", b"\0leaves\0" + PASSWORD.encode(), "en_US")),
        method_frame(0, ConnectionTuneOk(2047, 131072, 0)),
        method_frame(0, ConnectionOpen("/")),
        method_frame(1, ChannelOpen()),
        method_frame(1, act),
    )
    with socket.create_connection(("127.0.0.1", broker.amqp_port), PATIENCE_S) as sock:
        sock.sendall(b"AMQP\0\0\x09\x01")
        for said in (frames[0], b"".join(frames[1:3])):
            assert sock.recv(4096)
            sock.sendall(said)
        assert sock.recv(4096)
        decider.hold.clear()
        content = EMPTY if isinstance(act, BasicPublish) else b""
        sock.sendall(b"".join(frames[3:]) + content)
        until(lambda: any(fields.get("resource") for fields in decider.rights_asked()))
        assert "leaves" in users_connected(broker)
    until(lambda: "leaves" not in users_connected(broker))
    assert not decider.hold.is_set()


def users_connected(broker: BrokerProcess) -> list[str]:
    """Return whose connections there are, as a user says who is known to the broker."""
    answer = httpx.get(
        f"http://localhost:{broker.http_port}/api/connections",
        auth=("web", PASSWORD),
        trust_env=False,
    )
    return [each["user"] for each in answer.json()]


# ---------------------------------------------------------------- revocation


def test_what_is_taken_away_ends_on_live_connections(forgetful: BrokerProcess, decider: Decider):
    settle_topology(forgetful)
    connection = connect(forgetful, "revoked")
    consumer, publisher = connection.channel(), connection.channel()
    cancelled: list[Any] = []
    consumer.add_on_cancel_callback(cancelled.append)
    consumer.basic_consume("r.q", lambda *_: None)
    publish("r.e", "k")(publisher)
    decider.decides = denying(permission="read")
    began = time.monotonic()
    while not cancelled and time.monotonic() - began < PATIENCE_S:
        connection.process_data_events(0.1)
    assert cancelled
    publisher.basic_publish("r.e", "k", b"")
    decider.decides = denying(permission="write")

    def go_on() -> None:
        while time.monotonic() - began < PATIENCE_S:
            publisher.basic_publish("r.e", "k", b"")

    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="write access"):
        go_on()
    decider.decides = lambda path, _: DENY if path.endswith("vhost") else None
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="access to vhost '/'"):
        connection.sleep(PATIENCE_S)


def test_a_publisher_does_not_wait_while_its_right_is_renewed(
    forgetful: BrokerProcess, decider: Decider
):
    settle_topology(forgetful)
    connection = connect(forgetful, "renewed")
    channel = connection.channel()
    channel.confirm_delivery()
    asked = published = 0
    began = time.monotonic()
    while asked < 3 and time.monotonic() - began < PATIENCE_S:
        channel.basic_publish("r.e", "k", b"")
        published += 1
        asked = sum(
            fields.get("permission") == "write" and fields["username"] == "renewed"
            for fields in decider.rights_asked()
        )
    connection.close()
    # About each half of a second, and it went on all the time; not for each message.
    assert asked == 3
    assert published > 10 * asked


# ---------------------------------------------------------------- over HTTP


def test_rights_count_over_http(broker: BrokerProcess, decider: Decider):
    settle_topology(broker)
    api = f"http://localhost:{broker.http_port}/api"
    denied = denying(resource="queue", name="s.secret")
    decider.decides = denied
    with httpx.Client(auth=("web", PASSWORD), trust_env=False, timeout=PATIENCE_S) as client:
        assert client.get(f"{api}/whoami").json() == {"name": "web", "tags": ["administrator"]}
        own = httpx.Client(auth=("own", "own"), trust_env=False)
        with own:
            for name in ("s.a", "s.secret", "s.b"):
                assert own.put(f"{api}/streams/%2F/{name}", json={}).status_code in (201, 204)
        listed = client.get(f"{api}/streams/%2F").json()["streams"]
        assert [each["name"] for each in listed] == ["s.a", "s.b"]
        assert client.get(f"{api}/streams/%2F/s.a").status_code == 200
        assert client.get(f"{api}/streams/%2F/s.secret").status_code == 403
        assert client.put(f"{api}/streams/%2F/s.many", json={"partitions": 3}).status_code == 201
        assert client.get(f"{api}/queues").status_code == 200
        body = {
            "properties": {},
            "routing_key": "r.q",
            "payload": "x",
            "payload_encoding": "string",
        }
        answer = client.post(f"{api}/exchanges/%2F/amq.default/publish", json=body)
        assert answer.json() == {"routed": True}
        answer = client.post(f"{api}/exchanges/%2F/r.t/publish", json=body)
        assert answer.json() == {"routed": False}
        wanted = {"ackmode": "ack_requeue_false", "count": 5, "encoding": "auto"}
        answer = client.post(f"{api}/queues/%2F/r.q/get", json=wanted)
        assert [each["payload"] for each in answer.json()] == ["x"]
        decider.decides = lambda path, fields: (
            denied(path, fields) or (DENY if fields.get("permission") == "write" else None)
        )
        body = {"properties": {}, "routing_key": "k", "payload": "x", "payload_encoding": "string"}
        answer = client.post(f"{api}/exchanges/%2F/amq.fanout/publish", json=body)
        assert answer.status_code == 400
        assert "write access to exchange 'amq.fanout'" in answer.json()["reason"]
        answer = client.put(f"{api}/queues/%2F/new", json={"arguments": {}})
        assert answer.status_code in (201, 204)


def test_tags_are_those_that_the_server_gives(broker: BrokerProcess, decider: Decider):
    api = f"http://localhost:{broker.http_port}/api"
    for name, said, status in (
        ("tagless", b"allow", 401),
        ("manages", b"allow management", 200),
        ("shouts", b"ALLOW Management\n", 200),
    ):
        decider.answers[name] = (200, said)
        answer = httpx.get(f"{api}/vhosts", auth=(name, PASSWORD), trust_env=False)
        assert answer.status_code == status, answer.text
    decider.decides = denying(ip="127.0.0.1")
    answer = httpx.get(f"{api}/vhosts", auth=("manages", PASSWORD), trust_env=False)
    assert [each["name"] for each in answer.json()] == ["/"]
    decider.answers["manages2"] = (200, b"allow management")
    answer = httpx.get(f"{api}/vhosts", auth=("manages2", PASSWORD), trust_env=False)
    assert answer.json() == []
