"""What the golden data directories of a whole broker hold, and what clients see of it.

`LIVES` are sessions of clients, each with a broker that was started anew on one data directory;
`seen` is what clients and administrators find afterwards. `write_broker_v3.py` runs both against
the version whose directories are kept, `test_broker_v3.py` the second against today's.
"""

from __future__ import annotations

import io
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pika
import pyarrow as pa
from pika.adapters.blocking_connection import BlockingChannel

CONFIGURATION = """
vhosts = ["shop"]
[users.guest]
password = "guest"
tags = ["administrator", "impersonator"]
[users.guest.permissions."/"]
configure = ".*"
write = ".*"
read = ".*"
[users.guest.permissions.shop]
configure = ".*"
write = ".*"
read = ".*"
"""

# Ten years less a day: nothing of what is kept here ever falls due in a test.
LONG_MS = 315_273_600_000
DUE_MS = 2_090_000_000_000
PATIENCE_S = 20.0

# A class that never has a verdict about messages that are called so.
FILTER_CLASS = b"""
class Filter:
    def match(self, message):
        if message.body.startswith(b"undecided"):
            raise ValueError("no verdict")
        return message.headers["dep_delay"] > 60
"""

DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
ODD = {
    "x-unread": {"list": [1, "two", None, True, {"deep": b"\xff\x00"}]},
    "decimal": Decimal("3.14"),
    "timestamp": datetime(2020, 2, 2, tzinfo=UTC),
    "large": -(2**40),
}

# In "/", durable, in this order.
QUEUES: dict[str, dict[str, Any]] = {
    "plain": {},
    "gone": {},
    "odd": ODD,
    "ttl": {"x-message-ttl": LONG_MS, "x-expires": LONG_MS},
    "short": {"x-max-length": 3, **DEAD},
    "refusing": {"x-max-length-bytes": 20, "x-overflow": "reject-publish"},
    "refusing-dlx": {"x-max-length": 1, "x-overflow": "reject-publish-dlx", **DEAD},
    "priorities": {"x-max-priority": 5},
    "limited": {"x-delivery-limit": 3, **DEAD},
    "quorum": {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once"},
    "held": {"x-delayed-retry-type": "all", "x-delayed-retry-min": LONG_MS},
    "single": {"x-single-active-consumer": True, "x-queue-mode": "lazy", "x-queue-version": 2},
    "overdue": {"x-consumer-timeout": LONG_MS, "x-consumer-timeout-action": "requeue"},
    "unique": {"x-message-deduplication": True},
    "policed": {},
    "dead": {},
    "red": {},
    "costly": {},
    "late": {},
    "any": {},
    "hash-1": {},
    "hash-2": {},
    "imported": {},
    "mail": {},
    "stream": {
        "x-queue-type": "stream",
        "x-max-age": "9Y",
        "x-stream-max-segment-size-bytes": 4096,
    },
    "kept-short": {
        "x-queue-type": "stream",
        "x-max-length-bytes": 10_000,
        "x-stream-max-segment-size-bytes": 4096,
    },
}

# In "/": type, arguments, and whether it is internal.
EXCHANGES: dict[str, tuple[str, dict[str, Any], bool]] = {
    "orders": ("direct", {}, False),
    "events": ("topic", {"alternate-exchange": "unrouted"}, False),
    "unrouted": ("fanout", {}, True),
    "heads": ("headers", {}, False),
    "shared": ("x-consistent-hash", {"hash-header": "customer"}, False),
    "parts": ("x-modulus-hash", {}, False),
    "chat": ("x-recent-history", {"x-recent-history-length": 3}, False),
    "imports": ("x-message-deduplication", {"x-cache-size": 100, "x-cache-ttl": LONG_MS}, False),
    "forgets": (
        "x-message-deduplication",
        {"x-cache-size": 100, "x-cache-persistence": "memory"},
        False,
    ),
    "reminders": ("x-delayed-message", {"x-delayed-type": "topic"}, False),
    "strict": ("topic", {"x-strict-keys": True}, False),
}

# In "/": exchange, queue, key, arguments.
BINDINGS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("orders", "any", "new", {}),
    ("events", "any", "a.*.c", {}),
    ("events", "red", "#", {"x-filter-tags": "red || crimson"}),
    ("events", "costly", "#", {"x-filter-sql": "total > 100 AND p.priority >= 2"}),
    ("events", "late", "flight", {"x-filter-class": "late"}),
    ("unrouted", "any", "", {}),
    ("heads", "any", "", {"x-match": "any", "colour": "red", "size": 7}),
    ("shared", "hash-1", "1", {}),
    ("shared", "hash-2", "3", {}),
    ("parts", "hash-1", "", {}),
    ("parts", "hash-2", "", {}),
    ("imports", "imported", "", {}),
    ("forgets", "imported", "", {}),
    ("reminders", "mail", "mail.*", {}),
    ("strict", "mail", "mail.*", {}),
]

POLICIES: dict[str, dict[str, Any]] = {
    "policies/%2F/policed": {
        "pattern": "^policed$",
        "apply-to": "queues",
        "priority": 3,
        "definition": {"max-length": 4, "overflow": "reject-publish"},
    },
    "policies/%2F/alternates": {
        "pattern": "^orders$",
        "apply-to": "exchanges",
        "definition": {"alternate-exchange": "unrouted"},
    },
    "operator-policies/%2F/nothing-for-ever": {
        "pattern": "^plain$",
        "definition": {"message-ttl": LONG_MS},
    },
    "policies/shop/streams": {
        "pattern": "",
        "apply-to": "streams",
        "definition": {"max-age": "9Y"},
    },
}

EVERY_PROPERTY: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {"text": "grün", "nested": {"list": [1, "two", None]}, **ODD},
    "priority": 3,
    "correlation_id": "c-1",
    "reply_to": "answers",
    "expiration": str(LONG_MS),
    "message_id": "m-1",
    "timestamp": 1_700_000_000,
    "type": "kind",
    "user_id": "guest",
    "app_id": "golden",
    "cluster_id": "none",
}


class Client:
    """One connection over AMQP, and one over HTTP, to these ports of this machine."""

    def __init__(self, amqp_port: int, http_port: int) -> None:
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{http_port}/api/",
            auth=("guest", "guest"),
            timeout=PATIENCE_S,
            trust_env=False,
        )
        self._url = f"amqp://guest:guest@127.0.0.1:{amqp_port}/"
        self.connection = pika.BlockingConnection(pika.URLParameters(f"{self._url}%2F"))
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def close(self) -> None:
        self.connection.close()
        self.http.close()

    @contextmanager
    def other(self, vhost: str = "%2F") -> Iterator[BlockingChannel]:
        """A channel of a connection of its own."""
        parameters = pika.URLParameters(self._url + vhost)
        with closing(pika.BlockingConnection(parameters)) as connection:
            yield connection.channel()

    def publish(
        self, exchange: str, key: str, body: bytes, *, durable: bool = True, **fields: Any
    ) -> None:
        """Return when it is confirmed; UnroutableError, NackError: it was not taken."""
        properties = pika.BasicProperties(delivery_mode=2 if durable else 1, **fields)
        self.channel.basic_publish(exchange, key, body, properties, mandatory=True)

    def refused(self, exchange: str, key: str, body: bytes, **fields: Any) -> str | None:
        try:
            self.publish(exchange, key, body, **fields)
        except (pika.exceptions.NackError, pika.exceptions.UnroutableError) as error:
            return type(error).__name__
        return None

    def take(self, queue: str, count: int) -> list[int]:
        """Get so many messages and leave them unsettled; returns their delivery tags."""
        found = [self.channel.basic_get(queue)[0] for _ in range(count)]
        return [method.delivery_tag for method in found]

    def count(self, queue: str) -> int:
        return int(self.channel.queue_declare(queue, passive=True).method.message_count)

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline
            self.connection.process_data_events(0.02)

    def get(self, path: str, **parameters: Any) -> Any:
        return self.http.get(path, params=parameters).raise_for_status().json()

    def put(self, path: str, **arguments: Any) -> None:
        self.http.put(path, **arguments).raise_for_status()

    def publish_table(self, producer: str, sequence: int, keys: list[str]) -> Any:
        """Publish rows with these routing keys; returns what became of them."""
        bodies = [f"{producer} {sequence + row}".encode() for row in range(len(keys))]
        table = pa.table({"body": pa.array(bodies, pa.binary()), "routing_key": keys})
        with io.BytesIO() as out:
            with pa.ipc.new_stream(out, table.schema) as writer:
                writer.write_table(table)
            answer = self.http.post(
                "publish/%2F/amq.default",
                params={"producer": producer, "sequence": sequence},
                content=out.getvalue(),
            )
        return answer.raise_for_status().json()

    def table(self, path: str) -> list[dict[str, Any]]:
        answer = self.http.get(path).raise_for_status()
        with pa.ipc.open_stream(answer.content) as reader:
            rows: list[dict[str, Any]] = reader.read_all().to_pylist()
        return rows

    def read(self, stream: str, count: int, **arguments: Any) -> list[list[Any]]:
        """The first messages that a consumer of a stream gets: offset, key, body."""
        found: list[list[Any]] = []
        with self.other() as channel:
            channel.basic_qos(prefetch_count=100)
            for method, properties, body in channel.consume(
                stream, arguments=arguments, inactivity_timeout=PATIENCE_S
            ):
                assert method is not None, (stream, found)
                offset = properties.headers["x-stream-offset"]
                found.append([offset, method.routing_key, plain(body)])
                channel.basic_ack(method.delivery_tag)
                if len(found) == count:
                    break
            channel.cancel()
        return found


# ---------------------------------------------------------------- writing


def declare(client: Client) -> None:
    """Everything that has a name."""
    for path, policy in POLICIES.items():
        client.put(path, json=policy)
    client.put("filter-classes/late", params={"version": 3}, content=FILTER_CLASS)
    for name, arguments in QUEUES.items():
        client.channel.queue_declare(name, durable=True, arguments=arguments)
    client.channel.queue_declare("deleted-itself", durable=True, auto_delete=True)
    for name, (kind, arguments, internal) in EXCHANGES.items():
        client.channel.exchange_declare(
            name, kind, durable=True, internal=internal, arguments=arguments
        )
    for exchange, queue, key, arguments in BINDINGS:
        client.channel.queue_bind(queue, exchange, key, arguments)
    client.channel.exchange_bind("unrouted", "orders", "old")
    client.channel.queue_unbind("mail", "strict", "mail.*")
    client.put("streams/%2F/clicks", json={"partitions": 2})
    with client.other("shop") as channel:
        channel.queue_declare("plain", durable=True, arguments={"x-max-priority": 2})
        channel.exchange_declare("orders", "fanout", durable=True)
        channel.queue_bind("plain", "orders", "")
        channel.basic_publish("orders", "", b"shop", pika.BasicProperties(delivery_mode=2))


def publish_to_queues(client: Client) -> None:
    for number in range(10):
        client.publish("", "plain", b"plain %d" % number)
    client.channel.basic_ack(client.take("plain", 4)[-1], multiple=True)
    client.publish("", "gone", b"gone")
    client.channel.queue_delete("gone")
    client.publish("", "plain", b"", **EVERY_PROPERTY)
    client.publish("", "plain", b"large " * 20_000)
    client.publish("", "plain", b"transient", durable=False)
    for queue in ("odd", "ttl", "held", "single", "overdue", "deleted-itself"):
        for number in range(4):
            client.publish("", queue, b"%s %d" % (queue.encode(), number))
    for number in range(5):
        client.publish("", "short", b"short %d" % number)
    assert client.refused("", "refusing", b"20 octets at the most") == "NackError"
    client.publish("", "refusing", b"19 octets are taken")
    client.publish("", "refusing-dlx", b"taken")
    assert client.refused("", "refusing-dlx", b"refused") == "NackError"
    for priority in (0, 3, 5, 9, 1, 3):
        client.publish("", "priorities", b"priority %d" % priority, priority=priority)
    for number in range(4):
        client.publish("", "policed", b"policed %d" % number)
    assert client.refused("", "policed", b"too much") == "NackError"
    client.publish("", "dead", b"expires", expiration="1")
    client.until(lambda: client.count("dead") == 3)  # two of short, one of refusing-dlx


def come_back(client: Client) -> None:
    """Deliveries that were not the last."""
    client.publish("", "limited", b"returns too often")
    for _ in range(4):
        client.channel.basic_nack(*client.take("limited", 1), requeue=True)
    client.publish("", "limited", b"rejected")
    client.channel.basic_reject(*client.take("limited", 1), requeue=False)
    client.until(lambda: client.count("dead") == 5)
    for queue in ("limited", "quorum"):
        for number in range(3):
            client.publish("", queue, b"%d times" % (2 - number))
        for times in (2, 1):
            for tag in client.take(queue, times):
                client.channel.basic_nack(tag, requeue=True)
    client.channel.basic_nack(*client.take("held", 1), requeue=True)


def route(client: Client) -> None:
    """Messages by every kind of exchange and binding."""
    client.publish("orders", "new", b"direct")
    client.publish("orders", "old", b"by another exchange")
    client.publish("orders", "nowhere", b"by the policy's alternate exchange")
    client.publish("events", "a.b.c", b"by a pattern")
    client.publish("events", "x", b"by the alternate exchange")
    client.publish("events", "x", b"by a tag", headers={"x-tag": "crimson"})
    client.publish("events", "x", b"by an expression", headers={"total": 101}, priority=2)
    client.publish("events", "flight", b"by a class", headers={"dep_delay": 61})
    client.publish("events", "flight", b"refused by a class", headers={"dep_delay": 60})
    client.publish("events", "flight", b"undecided 1", headers={"dep_delay": 61})
    client.publish("events", "flight", b"undecided 2", headers={"dep_delay": 61})
    client.until(lambda: client.count("late") == 1)
    client.publish("heads", "", b"by a header", headers={"size": 7})
    for number in range(8):
        client.publish("shared", "", b"shared %d" % number, headers={"customer": f"c{number}"})
        client.publish("parts", f"{number}", b"part %d" % number)
    for exchange in ("imports", "forgets"):
        for value in ("a", "b", "a", 7):
            headers = {"x-deduplication-header": value}
            client.publish(exchange, "", b"%s first" % exchange.encode(), headers=headers)
    for value in ("a", 1, "a", "1"):
        client.publish("", "unique", b"unique", headers={"x-deduplication-header": value})
    client.channel.basic_ack(*client.take("unique", 1))
    client.publish("", "unique", b"a once more", headers={"x-deduplication-header": "a"})


def delay(client: Client) -> None:
    """Messages that wait for their time."""
    for name, milliseconds in (("second", LONG_MS), ("first", LONG_MS - 86_400_000)):
        client.publish("reminders", "mail.1", name.encode(), headers={"x-delay": milliseconds})
    client.publish("reminders", "mail.2", b"cancelled", headers={"x-deliver-at": DUE_MS})
    (identity,) = [
        each["id"] for each in client.get(DELAYED)["messages"] if each["routing_key"] == "mail.2"
    ]
    client.http.delete(f"{DELAYED}/{identity}").raise_for_status()
    client.publish("reminders", "mail.3", b"due already", headers={"x-delay": 1}, message_id="due")
    client.until(lambda: client.count("mail") == 1)
    client.publish("", "mail", b"with every property", **EVERY_PROPERTY | {
        "headers": EVERY_PROPERTY["headers"] | {"x-deliver-at": DUE_MS},
    })  # fmt: skip


def write_streams(client: Client) -> None:
    for number in range(40):
        tag = ("red", "blue", None)[number % 3]
        headers = {"x-tag": tag, "number": number} if tag else {"number": number}
        client.publish("", "stream", b"%d " % number * 50, headers=headers)
        client.publish("", "kept-short", b"%d " % number * 300)
    for key in "abcdefgh":
        client.publish("clicks", key, key.encode())
    keys = ["stream", "stream", "plain", "stream"]
    assert client.publish_table("loader", 0, keys)["accepted"] == 4
    assert client.publish_table("loader", 2, keys)["duplicates"] == 2
    client.put("streams/%2F/stream/readers/report", json={"offset": 17})
    client.put("streams/%2F/clicks/readers/report?partition=1", json={"offset": 1})
    client.read("stream", 5, **{"x-reader": "acks", "x-stream-offset": "first"})
    client.read("stream", 4, **{
        "x-group": "billing", "x-group-version": 7, "x-stream-offset": "first",
        "x-filter-tags": "red",
    })  # fmt: skip
    path = "groups/%2F/stream/billing"
    client.until(lambda: (client.get(path)["partitions"][0]["committed"] or 0) >= 9)


def transact(client: Client) -> None:
    with client.other() as channel:
        channel.tx_select()
        persistent = pika.BasicProperties(delivery_mode=2)
        channel.basic_publish("", "odd", b"committed 1", persistent)
        channel.basic_publish("", "any", b"committed 2", persistent)
        channel.basic_publish("", "stream", b"committed 3", persistent)
        channel.basic_ack(channel.basic_get("single")[0].delivery_tag)
        channel.tx_commit()
        channel.basic_publish("", "odd", b"rolled back", persistent)
        channel.basic_ack(channel.basic_get("odd")[0].delivery_tag)
        channel.tx_rollback()


def first_life(client: Client) -> None:
    declare(client)
    publish_to_queues(client)
    come_back(client)
    route(client)
    delay(client)
    write_streams(client)
    transact(client)


def second_life(client: Client) -> None:
    """Some more in later segments, and deliveries that the end of the broker finds unsettled."""
    client.publish("", "plain", b"of the second life")
    client.publish("events", "a.b.c", b"of the second life", headers={"x-tag": "red"})
    client.publish("", "stream", b"of the second life", headers={"x-tag": "red"})
    client.publish("reminders", "mail.4", b"of the second life", headers={"x-delay": LONG_MS})
    client.publish_table("loader", 6, ["plain", "stream"])
    transact(client)
    client.channel.basic_ack(*client.take("plain", 1))
    client.take("plain", 2)
    client.channel.basic_ack(client.take("priorities", 2)[0])


def third_life(client: Client) -> None:
    """The same once more, for a broker that is to be killed."""
    second_life(client)
    client.channel.queue_declare("of the third life", durable=True)
    client.publish("", "of the third life", b"confirmed")
    client.channel.queue_delete("ttl")


LIVES = (first_life, second_life, third_life)
DELAYED = "delays/%2F/reminders"


# ---------------------------------------------------------------- looking


def plain(value: Any) -> Any:
    """A value as JSON has it, of which nothing but the type of texts is lost."""
    match value:
        case bytes() if len(value) > 1000:
            return f"{plain(value[:20])}… {len(value)} octets, CRC {zlib.crc32(value)}"
        case bytes():
            return value.decode("latin-1")
        case datetime() | Decimal():
            return str(value)
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
    return value


def rows(definitions: Path) -> dict[str, list[Any]]:
    """Every row of the definitions by its table, as SQLite has them."""
    with closing(sqlite3.connect(f"{definitions.as_uri()}?mode=ro", uri=True)) as connection:
        tables = [name for (name,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
        )]  # fmt: skip
        return {name: plain(list(connection.execute(f"SELECT * FROM {name}"))) for name in tables}


def browsed(client: Client) -> dict[str, Any]:
    """What each queue has, in its order; nothing is changed by looking."""
    wanted = "columns=offset,timestamp,exchange,routing_key,body,redelivered,state"
    return {
        queue: plain(client.table(f"queues/%2F/{quote(queue)}/messages?{wanted}"))
        for queue in queues(client)
    }


def queues(client: Client) -> list[str]:
    """The names of those that there are, streams left out."""
    there = []
    for name in ("of the third life", "deleted-itself", *QUEUES):
        if QUEUES.get(name, {}).get("x-queue-type") == "stream":
            continue
        if client.http.get(f"queues/%2F/{quote(name)}/messages?limit=1").status_code == 200:
            there.append(name)
    return there


def delivered(client: Client) -> dict[str, Any]:
    """What a client gets of each queue, with every property; all of it comes back afterwards."""
    found: dict[str, Any] = {}
    names = queues(client)
    with client.other() as channel:
        for queue in names:
            found[queue] = []
            while (got := channel.basic_get(queue))[0] is not None:
                method, properties, body = got
                fields = {
                    name: value for name, value in vars(properties).items() if value is not None
                }
                found[queue].append(plain([method.redelivered, fields, body]))
    return found


def delayed(client: Client) -> dict[str, Any]:
    """What waits for its time, and when that is."""
    members = ("id", "due_ms", "came_ms", "exchange", "routing_key", "properties", "body")
    found = {}
    for exchange in ("reminders", "amq.default"):
        path = f"delays/%2F/{exchange}"
        waiting = [client.get(f"{path}/{each['id']}") for each in client.get(path)["messages"]]
        found[exchange] = [{key: each[key] for key in members} for each in waiting]
    return {exchange: plain(each) for exchange, each in found.items()}


def streams(client: Client) -> dict[str, Any]:
    """Offsets, messages, readers and groups of every stream."""
    found = {}
    for name in ("stream", "kept-short", "clicks"):
        path = f"streams/%2F/{name}"
        shown = client.get(path)
        for each in shown["partitions"]:
            del each["bytes"]  # a start may give unused space back
        records = [
            client.table(f"{path}/records?partition={each['partition']}")
            for each in shown["partitions"]
        ]
        found[name] = {
            "shown": shown,
            "records": plain(records),
            "readers": client.get(f"{path}/readers"),
        }
    group = client.get("groups/%2F/stream/billing")
    found["group"] = {key: group[key] for key in ("version", "filter", "lag", "partitions")}
    tagged = {"x-stream-offset": "first", "x-filter-tags": "red"}
    found["tagged"] = {"red": client.read("stream", 14, **tagged)}
    return found


def administered(client: Client) -> dict[str, Any]:
    """What an administrator finds."""
    found = {path: client.get(path) for path in POLICIES}
    shown = client.get("filter-classes/late")
    found["late"] = {key: shown[key] for key in ("name", "version", "class", "source", "waiting")}
    return found


def remembered(client: Client) -> dict[str, Any]:
    """What becomes of repetitions; each of them is recognised, or taken out again."""
    found: dict[str, Any] = {"imports": {}, "unique": {}}
    for exchange, key, queue in (("imports", "", "imported"), ("", "unique", "unique")):
        for value in ("a", "b", 7, 1, "new"):
            before = client.count(queue)
            headers = {"x-deduplication-header": value}
            client.publish(exchange, key, b"again", headers=headers)
            found[exchange or key][f"{value!r}"] = client.count(queue) - before
    found["producer"] = client.publish_table("loader", 0, ["plain"] * 5)
    return found


def routed(client: Client) -> dict[str, Any]:
    """Which queues new messages come to, and which limits they meet."""
    found: dict[str, Any] = {}
    names = queues(client)
    probes: list[tuple[str, str, dict[str, Any]]] = [
        ("orders", "new", {}),
        ("orders", "old", {}),
        ("orders", "nowhere", {}),
        ("events", "a.b.c", {}),
        ("events", "x", {"headers": {"x-tag": "red"}}),
        ("events", "x", {"headers": {"total": 101}, "priority": 2}),
        ("events", "x", {"headers": {"total": 100}, "priority": 2}),
        ("heads", "", {"headers": {"colour": "red"}}),
        ("heads", "", {"headers": {"colour": "blue"}}),
        ("strict", "mail.1", {}),
        ("reminders", "mail.1", {}),
        ("forgets", "", {"headers": {"x-deduplication-header": "a"}}),
        ("", "short", {}),
        ("", "refusing", {}),
        ("", "refusing-dlx", {}),
        ("", "policed", {}),
        *(("shared", "", {"headers": {"customer": f"c{number}"}}) for number in range(8)),
        *(("parts", f"{number}", {}) for number in range(4)),
    ]
    before = {queue: client.count(queue) for queue in names}
    for exchange, key, fields in probes:
        outcome = client.refused(exchange, key, b"probe", **fields)
        after = {queue: client.count(queue) for queue in names}
        gained = [queue for queue in names if after[queue] != before[queue]]
        found[f"{exchange!r} {key!r} {fields}"] = [outcome, gained]
        before = after
    for name, arguments in QUEUES.items():
        if name in names:
            client.channel.queue_declare(name, durable=True, arguments=arguments)
    with client.other("shop") as channel:
        found["shop"] = plain(channel.basic_get("plain")[2])
    return found


# In an order in which none disturbs what the next sees.
VIEWS: dict[str, Callable[[Client], dict[str, Any]]] = {
    "browsed": browsed,
    "delayed": delayed,
    "streams": streams,
    "administered": administered,
    "delivered": delivered,
    "remembered": remembered,
    "routed": routed,
}


def seen(amqp_port: int, http_port: int) -> dict[str, Any]:
    """What clients see of a broker with these ports."""
    client = Client(amqp_port, http_port)
    try:
        return {view: look(client) for view, look in VIEWS.items()}
    finally:
        client.close()
