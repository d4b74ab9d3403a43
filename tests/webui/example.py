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
)
"""Names that would do something if they ever became HTML, an address or a template."""

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


def fill(api: Api) -> None:
    """Make something of everything that pages show."""
    _access(api)
    _topology(api)
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
    api.put("global-parameters", "motd", body={"name": "motd", "value": "hello"})


def _access(api: Api) -> None:
    api.put("vhosts", "shop", body={"description": "The shop", "tags": "production"})
    for name, tags in (("alice", "administrator"), ("carl", "management"), ("dora", "")):
        api.put("users", name, body={"password": f"secret-{name}", "tags": tags})
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    api.put("permissions", "/", "alice", body=everything)
    api.put("permissions", "/", "carl", body={"configure": "", "write": "^orders", "read": ".*"})
    api.put("permissions", "shop", "carl", body=everything)
    topic = {"exchange": "amq.topic", "write": "^shop\\.", "read": ".*"}
    api.put("topic-permissions", "/", "carl", body=topic)
    api.put("vhost-limits", "shop", "max-queues", body={"value": 100})
    api.put("user-limits", "carl", "max-connections", body={"value": 5})


def _topology(api: Api) -> None:
    api.put("exchanges", "/", "departures", body={"type": "topic", "durable": True})
    api.put("exchanges", "/", "dead", body={"type": "fanout", "durable": True})
    delayed = {"type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}}
    api.put("exchanges", "/", "reminders", body={**delayed, "durable": True})
    dead = {"x-dead-letter-exchange": "dead"}
    for name, arguments in (
        ("orders", dead),
        ("late", {}),
        ("letters", {}),
        ("parcels", {"x-queue-type": "quorum"}),
    ):
        api.put("queues", "/", name, body={"durable": True, "arguments": arguments})
    api.put("streams", "/", "flights", body={})
    for exchange, queue, key in (
        ("departures", "orders", "EWR.*"),
        ("departures", "flights", "#"),
        ("dead", "letters", ""),
        ("reminders", "late", "mail"),
    ):
        api.post("bindings", "/", "e", exchange, "q", queue, body={"routing_key": key})
    api.put(
        "policies",
        "/",
        "short",
        body={"pattern": "^(orders|late)$", "definition": {"max-length": 1000}, "priority": 1},
    )
    api.put(
        "operator-policies",
        "/",
        "bounded",
        body={"pattern": "", "definition": {"max-length-bytes": 10_000_000}, "apply-to": "queues"},
    )


def fill_hostile(api: Api) -> None:
    """Make one of each noun for each hostile name."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    for name in HOSTILE:
        api.put("vhosts", name, body={"description": name, "tags": name.replace(",", "")})
        api.put("users", name, body={"password": "x", "tags": name.replace(",", "")})
        api.put("permissions", name, "guest", body=everything)
        api.put("permissions", "/", name, body={**everything, "read": "<i id=brought>.*"})
        api.put("permissions", name, name, body=everything)
        api.put("topic-permissions", "/", name, body={"exchange": name, "write": "", "read": ""})
        api.put("exchanges", "/", name, body={"type": "topic", "durable": True})
        # As a dead-letter exchange it stands among the arguments, too.
        arguments = {"x-dead-letter-exchange": name, "x-dead-letter-routing-key": name}
        api.put("queues", "/", name, body={"durable": True, "arguments": arguments})
        api.put("streams", "/", f"s {name}", body={})
        api.put("streams", "/", f"s {name}", "readers", name, body={"offset": 0})
        binding = {"routing_key": name, "arguments": {name: name}}
        api.post("bindings", "/", "e", name, "q", name, body=binding)
        api.put(
            "policies",
            "/",
            name,
            body={"pattern": "^never$", "definition": {"dead-letter-exchange": name}},
        )
        api.put("global-parameters", name, body={"name": name, "value": {name: name}})
        headers = {name: name, "list": [name]}
        api.publish("/", name, name, name, headers=headers, message_id=name, type=name)
        later = {"x-delay": 3600_000, name: name}
        api.publish("/", "reminders", name, name, headers=later, message_id=name)


def connected(amqp_port: int) -> pika.BlockingConnection:
    """Return a connection whose name, consumer tags and queue are hostile; the caller closes it."""
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
    return connection
