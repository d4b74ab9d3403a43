"""What the example broker has before anything moves: queues, users, policies, delayed messages.

Made over AMQP where an application would, and over the management API where an administrator would.
"""

from __future__ import annotations

import contextlib
import json
from typing import Final

from leporid.client import Channel
from leporid.client.management import Management, ManagementError, path_of

AIRPORTS: Final = ("JFK", "LGA", "EWR")
SHOP: Final = "shop"
PASSWORD: Final = "example"

# How long messages of the queue `reminders` wait, and what they say.
REMINDERS: Final = (
    (20, "boarding begins"),
    (45, "last call"),
    (90, "doors close"),
    (5 * 60, "ask for slots"),
    (20 * 60, "crew change"),
    (3600, "weather briefing"),
    (6 * 3600, "night shift"),
    (86_400, "daily report"),
    (7 * 86_400, "weekly report"),
    (30 * 86_400, "invoice"),
    (365 * 86_400, "renew the lease of gate 7"),
    (10 * 365 * 86_400, "retire the aircraft"),
)

USERS: Final = {
    "ann": "administrator",
    "mona": "monitoring",
    "paul": "policymaker",
    "nina": "management",
    "shop-app": "",
}

FILTER_CLASS: Final = '''
class Filter:
    """Flights that left more than two hours late."""

    def match(self, message) -> bool:
        return message.headers.get("dep_delay", 0) > 120
'''


async def declare(channel: Channel) -> None:
    """Declare what belongs to the flights, in the virtual host `/`."""
    await channel.exchange("unroutable", "fanout")
    await channel.bind(await channel.queue("lost-and-found", length_max=1000), "unroutable")
    flights = await channel.exchange("flights", "topic", alternate="unroutable")
    dead = await channel.exchange("dead", "fanout")
    await channel.bind(await channel.queue("dead-letters", length_max=20_000), dead)
    for airport in AIRPORTS:
        queue = await channel.queue(
            f"departures.{airport}", type="quorum", length_max=5000, dead_letter_to="dead"
        )
        await channel.bind(queue, flights, f"flight.{airport}.#")
    cancelled = await channel.queue("cancelled", message_ttl=30, dead_letter_to="dead")
    await channel.bind(cancelled, flights, "flight.#", tags="cancelled")
    late = await channel.queue("very-late", length_max=25, dead_letter_to="dead")
    await channel.bind(late, flights, "flight.#", sql="dep_delay > 60")
    gates = await channel.queue("gates", delivery_limit=2, dead_letter_to="dead", type="quorum")
    await channel.bind(gates, flights, "flight.JFK.UA.#")
    stream = await channel.stream("departures", bytes_max=200_000_000, age_max=7 * 86_400)
    await channel.bind(stream, flights, "flight.#")
    await channel.queue("reminders")
    await channel.queue("maintenance")
    for number in range(30):
        body = json.dumps({"aircraft": f"N{100 + number}", "work": "inspection"}).encode()
        await channel.default_exchange.publish(
            body, "maintenance", content_type="application/json", message_id=f"m-{number}"
        )
    for seconds, text in REMINDERS:
        body = json.dumps({"text": text}).encode()
        await channel.default_exchange.publish(
            body, "reminders", delay=seconds, content_type="application/json", message_id=text
        )


async def declare_shop(channel: Channel) -> None:
    """Declare what belongs to the shop, in a virtual host of its own."""
    orders = await channel.exchange("orders", "topic")
    for name, pattern in (("paid", "order.*.paid"), ("shipped", "order.*.shipped")):
        await channel.bind(await channel.queue(name, priorities=3), orders, pattern)


def administer(api: Management) -> None:
    """Make users, virtual hosts, policies and limits."""
    api.put(path_of("vhosts", SHOP), {"description": "orders of the shop", "tags": "example"})
    api.put(path_of("vhosts", "laboratory"), {"description": "nothing yet"})
    for name, tags in USERS.items():
        api.put(path_of("users", name), {"password": PASSWORD, "tags": tags})
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    for vhost in ("/", SHOP, "laboratory"):
        for name in ("guest", "ann"):
            api.put(path_of("permissions", vhost, name), everything)
    api.put(path_of("permissions", "/", "mona"), {"configure": "", "write": "", "read": ".*"})
    api.put(path_of("permissions", SHOP, "paul"), everything)
    reading = {"configure": "", "write": "", "read": "^departures"}
    api.put(path_of("permissions", "/", "nina"), reading)
    api.put(path_of("permissions", SHOP, "shop-app"), everything)
    topic = {"exchange": "orders", "write": "^order\\.", "read": ".*"}
    api.put(path_of("topic-permissions", SHOP, "shop-app"), topic)
    api.put(path_of("vhost-limits", SHOP, "max-queues"), {"value": 50})
    api.put(path_of("user-limits", "shop-app", "max-connections"), {"value": 10})
    policies = (
        ("policies", "/", "dead-letters", "^dead-letters$", {"message-ttl": 3_600_000}, 10),
        ("policies", "/", "departures", "^departures\\.", {"max-length": 2000}, 5),
        ("policies", SHOP, "orders", ".*", {"max-length": 10_000, "overflow": "reject-publish"}, 0),
        ("operator-policies", "/", "bounded", ".*", {"max-length-bytes": 500_000_000}, 0),
    )
    for kind, vhost, name, pattern, definition, priority in policies:
        api.put(
            path_of(kind, vhost, name),
            {
                "pattern": pattern,
                "definition": definition,
                "priority": priority,
                "apply-to": "queues",
            },
        )


def finish(api: Management) -> None:
    """Pause a queue, and register a filter class, now that there is something to see."""
    api.put(path_of("queues", "/", "maintenance", "pause"), None)
    # A process of its own, which a small machine may refuse: the rest can be seen without it.
    with contextlib.suppress(ManagementError):
        api.request("PUT", path_of("filter-classes", "very-late"), None, FILTER_CLASS.encode())
