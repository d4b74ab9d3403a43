"""What the web UI's tests show: a small broker with something of everything, and hostile names.

Responsible for filling a broker over HTTP and AMQP. Must not know pages. Invariant: what it makes
is the same each time, but for moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import httpx
import pika

CONFIG = """
[filter_server]
allow_guest = true
"""
"""Of the broker that is filled."""

HOSTILE: Sequence[str] = (
    '<script>alert("x")</script>',
    "<img src=x onerror=alert(1)>",
    "\"'><svg/onload=alert(2)>",
    "javascript:alert(3)",
    "${alert(4)}{{alert(5)}}",
    "../..%2f#?&=/ ",
    "long-" + "unbroken" * 20,
    "\u0645\u0631\u062d\u0628\u0627 \u202egnp.exe \U0001f407",
)
"""Names that would do something if they ever became HTML, an address or a template; one without a
place to break it, and one from right to left that turns around what follows it, with an emoji."""

HOSTILE_CLASSES = (HOSTILE[0], HOSTILE[-2], HOSTILE[-1])
"""Each is loaded in a process, which takes its time."""

CLASS = b"""
class Filter:
    def match(self, message):
        return message.headers.get("delay", 0) > 60
"""


class Api:
    """The management API as a user.

    Args:
        port: of HTTP on 127.0.0.1.
        user: name and password.
    """

    def __init__(self, port: int, user: tuple[str, str] = ("guest", "guest")) -> None:
        self.port = port
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", auth=user, trust_env=False, timeout=60
        )

    def call(self, method: str, *path: str, body: Any = None, **query: Any) -> Any:
        """Send a request that has to succeed; returns the JSON of the answer, None without one."""
        address = "/api/" + "/".join(quote(part, safe="") for part in path)
        given: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
        answer = self._client.request(
            method, address, params=query, **({} if body is None else given)
        )
        assert answer.is_success, f"{method} {address}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def get(self, *path: str, **query: Any) -> Any:
        """GET."""
        return self.call("GET", *path, **query)

    def put(self, *path: str, body: Any = None, **query: Any) -> Any:
        """PUT; without a body an empty object."""
        return self.call("PUT", *path, body={} if body is None else body, **query)

    def post(self, *path: str, body: Any = None, **query: Any) -> Any:
        """POST; without a body an empty object."""
        return self.call("POST", *path, body={} if body is None else body, **query)

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def publish(self, vhost: str, exchange: str, key: str, body: str, **properties: Any) -> None:
        """Publish one message that may be routed nowhere."""
        self.post(
            "exchanges",
            vhost,
            exchange,
            "publish",
            body={
                "properties": properties,
                "routing_key": key,
                "payload": body,
                "payload_encoding": "string",
            },
        )


EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}
STREAM = {"x-queue-type": "stream"}


def fill(api: Api) -> None:
    """Make something of everything that pages show."""
    api.post("definitions", body={**_access(), **_topology()})
    for number in range(20):
        headers = {"number": number, "delay": 7 * number}
        api.publish("/", "departures", "EWR.UA", f'{{"flight": {number}}}', headers=headers)
    for number in range(3):
        properties = {"headers": {"x-delay": 3600_000 * (number + 1)}, "message_id": f"m{number}"}
        api.publish("/", "reminders", "mail", f"later {number}", **properties)
    body = {"count": 2, "ackmode": "reject_requeue_false", "encoding": "auto"}
    api.post("queues", "/", "orders", "get", body=body)
    api.put("streams", "/", "flights", "readers", "archive", body={"offset": 11})
    api.put("filter-classes", "late", body=CLASS)
    api.put("user-limits", "carl", "max-connections", body={"value": 5})


def _access() -> dict[str, Any]:
    users = (("alice", "administrator"), ("carl", "management"), ("dora", ""))
    carls = {"configure": "", "write": "^orders", "read": ".*"}
    topic = {"exchange": "amq.topic", "write": "^shop\\.", "read": ".*"}
    return {
        "vhosts": [{"name": "shop", "description": "The shop", "tags": ["production"]}],
        "users": [
            {"name": name, "password": f"secret-{name}", "tags": tags} for name, tags in users
        ],
        "permissions": [
            {"vhost": "shop", "user": "guest", **EVERYTHING},
            {"vhost": "/", "user": "alice", **EVERYTHING},
            {"vhost": "/", "user": "carl", **carls},
            {"vhost": "shop", "user": "carl", **EVERYTHING},
        ],
        "topic_permissions": [{"vhost": "/", "user": "carl", **topic}],
        "global_parameters": [{"name": "motd", "value": "hello"}],
    }


def _topology() -> dict[str, Any]:
    queues = {
        "orders": {"x-dead-letter-exchange": "dead"},
        "late": {},
        "letters": {},
        "parcels": {"x-queue-type": "quorum"},
        "flights": STREAM,
    }
    exchanges = {"departures": "topic", "dead": "fanout", "reminders": "x-delayed-message"}
    bounded = {"pattern": "", "definition": {"max-length-bytes": 10_000_000}}
    operator = {**bounded, "apply-to": "queues", "priority": 0}
    parameters = {"operator_policy": ("bounded", operator)}
    short = {"pattern": "^(orders|late)$", "definition": {"max-length": 1000}, "priority": 1}
    return {
        "exchanges": [
            _exchange(name, kind, {"x-delayed-type": "direct"} if "delayed" in kind else {})
            for name, kind in exchanges.items()
        ],
        "queues": [_queue(name, arguments) for name, arguments in queues.items()],
        "bindings": [
            _binding("departures", "orders", "EWR.*"),
            _binding("departures", "flights", "#"),
            _binding("dead", "letters", ""),
            _binding("reminders", "late", "mail"),
        ],
        "policies": [{"vhost": "/", "name": "short", "apply-to": "all", **short}],
        "parameters": [
            {"vhost": "/", "component": component, "name": name, "value": value}
            for component, (name, value) in parameters.items()
        ]
        + [
            {
                "vhost": "shop",
                "component": "vhost-limits",
                "name": "limits",
                "value": {"max-queues": 100},
            }
        ],
    }


def _exchange(name: str, kind: str, arguments: dict[str, Any]) -> dict[str, Any]:
    made = {"durable": True, "auto_delete": False, "internal": False}
    return {"vhost": "/", "name": name, "type": kind, "arguments": arguments, **made}


def _queue(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    made = {"durable": True, "auto_delete": False}
    return {"vhost": "/", "name": name, "arguments": arguments, **made}


def _binding(
    source: str, queue: str, key: str, arguments: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "vhost": "/",
        "source": source,
        "destination": queue,
        "destination_type": "queue",
        "routing_key": key,
        "arguments": arguments or {},
    }


def fill_hostile(api: Api) -> None:
    """Make one of each noun for each hostile name."""
    found: dict[str, list[dict[str, Any]]] = {noun: [] for noun in NOUNS}
    for name in HOSTILE:
        for noun, items in _hostile(name).items():
            found[noun] += items
    api.post("definitions", body=found)
    for name in HOSTILE:
        api.put("streams", "/", f"s {name}", "readers", name, body={"offset": 0})
        headers = {name: name, "list": [name]}
        api.publish("/", name, name, name, headers=headers, message_id=name, type=name)
        later = {"x-delay": 3600_000, name: name}
        api.publish("/", "reminders", name, name, headers=later, message_id=name)
        run = {"pipeline": name, "stream": "flights", "started_ms": 1, "state": "failed"}
        api.put("pipelines", "/", name, body={**run, "error": name})
    for name in HOSTILE_CLASSES:
        api.put("filter-classes", name, body=CLASS)


NOUNS = (
    "vhosts",
    "users",
    "permissions",
    "topic_permissions",
    "exchanges",
    "queues",
    "bindings",
    "policies",
    "global_parameters",
)


def _hostile(name: str) -> dict[str, list[dict[str, Any]]]:
    tags = [name.replace(",", "")]
    # As a dead-letter exchange a name stands among arguments and settings, too.
    dead = {"x-dead-letter-exchange": name, "x-dead-letter-routing-key": name}
    policy = {"pattern": "^never$", "definition": {"dead-letter-exchange": name}, "priority": 0}
    return {
        "vhosts": [{"name": name, "description": name, "tags": tags}],
        "users": [{"name": name, "password_hash": "", "tags": tags}],
        "permissions": [
            {"vhost": name, "user": "guest", **EVERYTHING},
            {"vhost": name, "user": name, **EVERYTHING},
            {"vhost": "/", "user": name, **EVERYTHING, "read": "<i id=brought>.*"},
        ],
        "topic_permissions": [
            {"vhost": "/", "user": name, "exchange": name, "write": "", "read": ""}
        ],
        "exchanges": [_exchange(name, "topic", {})],
        "queues": [_queue(name, dead), _queue(f"s {name}", STREAM)],
        "bindings": [_binding(name, name, name, {name: name})],
        "policies": [{"vhost": "/", "name": name, "apply-to": "all", **policy}],
        "global_parameters": [{"name": name, "value": {name: name}}],
    }


def connected(amqp_port: int) -> pika.BlockingConnection:
    """Return a connection whose name, consumer tags, groups and queue are hostile.

    The caller closes it.
    """
    name = HOSTILE[0]
    parameters = pika.ConnectionParameters(
        "127.0.0.1",
        amqp_port,
        client_properties={"connection_name": name, "product": HOSTILE[1], "platform": HOSTILE[2]},
        heartbeat=0,
    )
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    for tag in HOSTILE:
        channel.basic_consume(HOSTILE[1], lambda *_: None, consumer_tag=tag)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1)
    for name in HOSTILE:
        channel.basic_consume("flights", lambda *_: None, arguments={"x-group": name})
    return connection
