"""Queues as RabbitMQ's API has them: lists, one queue, making, deleting, purging.

Responsible for these routes and for what a queue looks like in JSON. What is done to a queue,
AMQP's own methods do (`acting`), so permissions and refusals are theirs. Must not know how lists
are made (`paging`), nor messages (`messages`). Invariant: what is not counted here, such as the
memory of a queue, is left out and never made up.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from leporid.amqp.methods import QueueDeclare, QueueDelete, QueuePurge
from leporid.broker.names import REPLY_PREFIX
from leporid.broker.queue.queue_types import CLASSIC, QUORUM
from leporid.management import amqp_json
from leporid.management.acting import Acting, creator
from leporid.management.authorization import not_found, vhosts_listed, visitor
from leporid.management.consumers import shown_consumer
from leporid.management.details import connection_details
from leporid.management.histories import Key
from leporid.management.paging import Lists, Table, columns_in
from leporid.management.parameters import flag_in, object_in
from leporid.management.paths import name_of, takes
from leporid.management.rates import DELIVERIES, deliveries, rates_of, with_rates
from leporid.management.refusals import Refusal
from leporid.management.sample_routes import AGES, ages_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leporid.broker.access.access import User
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.vhost import VirtualHost
    from leporid.management.histories import History
    from leporid.management.paging import Part
    from leporid.management.rates import Ages
    from leporid.management.surroundings import Surroundings

# What a list has of each queue with disable_stats=true.
DEFINED: Final = (
    "name",
    "vhost",
    "type",
    "node",
    "state",
    "durable",
    "auto_delete",
    "exclusive",
    "owner_pid_details",
    "arguments",
    "leader",
    "members",
    "online",
)
COUNTED: Final = ("messages", "messages_ready", "messages_unacknowledged")
"""What it has beside that with enable_queue_totals=true."""
OTHERS: Final = (
    "policy",
    "operator_policy",
    "effective_policy_definition",
    "consumers",
    "exclusive_consumer_tag",
    "single_active_consumer_tag",
    "single_active_consumer_ctag",
    "message_bytes_ready",
)
"""What else no samples are needed for."""
STATS: Final = ("publish", *DELIVERIES)
RATED: Final = ("message_stats", *(f"{name}_details" for name in COUNTED))
"""What samples are needed for."""


class QueueRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        order = attrgetter("vhost", "name")
        named: dict[str, Any] = {"name": attrgetter("name"), "vhost": attrgetter("vhost")}
        # What whole lists are sorted by most.
        single = named | {"messages": lambda queue: counts_of(queue)[0]}
        parts: dict[str, Part[QueueState]] = {
            **dict.fromkeys(DEFINED, self._defined),
            **dict.fromkeys(COUNTED, counted),
            **dict.fromkeys(OTHERS, others),
            **dict.fromkeys(RATED, partial(sampled, around)),
        }
        self._table: Table[QueueState] = Table(single, order, self._whole, parts)
        self._only_defined: Table[QueueState] = Table(named, order, self._defined)
        self._with_totals: Table[QueueState] = Table(
            single, order, lambda queue: self._defined(queue) | counted(queue)
        )
        self._lists = Lists(around, self._table, lambda queue: queue.name)

    # ------------------------------------------------------------- looking

    @takes(**AGES)
    async def listing(self, request: Request) -> Response:
        """GET /api/queues, and /api/queues/{vhost}: with samples if they are asked for."""
        user, vhosts = await vhosts_listed(self._around, request)
        count = sum(vhost.queue_count for vhost in vhosts)
        given, table = request.query_params, self._table
        if given.get("disable_stats") == "true":
            totals = given.get("enable_queue_totals") == "true"
            table = self._with_totals if totals else self._only_defined
        else:
            lengths, rates = self._ages_in(request)
            if lengths is not None or rates is not None:
                table = self._with_samples(user, lengths, rates)
        return await self._lists.answer(request, user, queues_of(vhosts), count, table)

    @takes(**AGES)
    async def show(self, request: Request) -> Response:
        """GET /api/queues/{vhost}/{queue}: with its consumers, and samples if they are asked for.

        Samples are taken from when somebody first asks for them.
        """
        user, vhost = await visitor(self._around, request)
        queue = vhost.find_queue(name_of(request, "queue"))
        if queue is None:
            raise not_found()
        columns = columns_in(request)
        lengths, rates = self._ages_in(request)
        if lengths is None and rates is None:
            shown = self._table.show(queue, columns)
        else:
            shown = self._table.show(queue)
            history = self._around.histories.look(_key(queue), queue, user.name)
            self._add_samples(shown, history, lengths, rates)
            shown = shown if columns is None else columns.of_shown(shown)
        if columns is None:
            node = self._around.node_name
            shown |= {
                "consumer_details": (
                    shown_consumer(each, node)
                    for each in queue.subscriptions
                    if each in queue.subscriptions
                ),
                "deliveries": [],
                "incoming": [],
            }
        return self._around.listing(user, shown)

    def _ages_in(self, request: Request) -> tuple[Ages | None, Ages | None]:
        lengths, rates = (ages_in(self._around, request, kind) for kind in ("lengths", "msg_rates"))
        return lengths, rates

    def _with_samples(
        self, user: User, lengths: Ages | None, rates: Ages | None
    ) -> Table[QueueState]:
        """Return the table of a list that is asked for samples."""

        def whole(queue: QueueState) -> dict[str, Any]:
            shown = self._table.show(queue)
            history = self._around.histories.glance(_key(queue), queue, user.name)
            self._add_samples(shown, history, lengths, rates)
            return shown

        parts = {**self._table.parts, **dict.fromkeys(RATED, whole)}
        return replace(self._table, whole=whole, parts=parts)

    def _add_samples(
        self,
        shown: dict[str, Any],
        history: History,
        lengths: Ages | None,
        rates: Ages | None,
    ) -> None:
        """Add the samples of a queue to what is shown of it."""
        now_s = self._around.monotonic()
        for ages, names, into in (
            (lengths, COUNTED, shown),
            (rates, STATS, shown.get("message_stats", {})),
        ):
            found = {} if ages is None else history.details(names, ages, now_s)
            for name, details in found.items():
                if f"{name}_details" in into:
                    into[f"{name}_details"] |= details

    def _whole(self, queue: QueueState) -> dict[str, Any]:
        """Return all that is said of a queue."""
        rated = sampled(self._around, queue)
        return self._defined(queue) | others(queue) | counted(queue) | rated

    def _defined(self, queue: QueueState) -> dict[str, Any]:
        """Return DEFINED."""
        node = self._around.node_name
        shown = {
            "name": queue.name,
            "vhost": queue.vhost,
            "type": queue.type.name,
            "node": node,
            "state": "paused" if queue.engine.paused else "running",
            "durable": queue.durable,
            "auto_delete": queue.auto_delete,
            "exclusive": queue.owner is not None,
            "arguments": amqp_json.shown(dict(queue.arguments)),
        }
        if queue.owner is not None:
            owner: Any = queue.owner
            shown["owner_pid_details"] = connection_details(owner)
        if queue.type is not CLASSIC:
            shown |= {"leader": node, "members": [node], "online": [node]}
        return shown

    # ------------------------------------------------------------- changing

    @takes(
        {
            "durable": {"type": "boolean"},
            "auto_delete": {"type": "boolean"},
            "arguments": {"type": "object"},
        }
    )
    async def put(self, request: Request) -> Response:
        """PUT /api/queues/{vhost}/{queue}: 201 when it was made, 204 when it is there."""
        user, vhost = await creator(self._around, request)
        name = name_of(request, "queue")
        given = await object_in(self._around.admission, request, user)
        new = vhost.find_queue(name) is None
        declare = QueueDeclare(
            queue=name,
            durable=flag_in(given, "durable"),
            auto_delete=flag_in(given, "auto_delete"),
            arguments=amqp_json.table_in(given.get("arguments"), "arguments"),
        )
        await self._act(user, vhost, declare)
        return Response(status_code=201 if new else 204)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/queues/{vhost}/{queue}."""
        user, vhost = await visitor(self._around, request)
        name = name_of(request, "queue")
        if vhost.find_queue(name) is None:
            raise not_found()
        given = request.query_params
        await self._act(
            user,
            vhost,
            QueueDelete(
                queue=name,
                if_unused=given.get("if-unused") == "true",
                if_empty=given.get("if-empty") == "true",
            ),
        )
        return Response(status_code=204)

    async def purge(self, request: Request) -> Response:
        """DELETE /api/queues/{vhost}/{queue}/contents."""
        user, vhost = await visitor(self._around, request)
        name = name_of(request, "queue")
        if vhost.find_queue(name) is None:
            raise not_found()
        await self._act(user, vhost, QueuePurge(queue=name), settles=True)
        return Response(status_code=204)

    async def actions(self, request: Request) -> Response:
        """POST /api/queues/{vhost}/{queue}/actions: of mirrors, which there are not."""
        user, vhost = await visitor(self._around, request)
        if vhost.find_queue(name_of(request, "queue")) is None:
            raise not_found()
        given = await object_in(self._around.admission, request, user, ("action",))
        if given["action"] not in ("sync", "cancel_sync"):
            raise Refusal(400, "bad_request", ["unknown", given["action"]])
        return Response(status_code=204)

    async def _act(
        self, user: User, vhost: VirtualHost, method: Any, *, settles: bool = False
    ) -> None:
        with Acting(self._around, user, vhost, f"HTTP user '{user.name}'") as acting:
            await acting.act(method, settles=settles)


def queues_of(vhosts: list[VirtualHost]) -> Iterator[QueueState | None]:
    """Go through the queues that there are, as of now in each virtual host; None for others."""
    for vhost in vhosts:
        # To look at each before the first is shown would take a millisecond for 10,000.
        for queue in vhost.all_queues():
            gone = queue.deleted or queue.name.startswith(REPLY_PREFIX)
            yield None if gone else queue


def others(queue: QueueState) -> dict[str, Any]:
    """Return OTHERS."""
    governed, exclusive, oldest = queue.governed, queue.exclusive_subscription, None
    if queue.single_active_consumer:
        oldest = queue.subscriptions.oldest
    active = None if oldest is None else oldest.tag
    shown = {
        "policy": _name(governed.policy),
        "operator_policy": _name(governed.operator_policy),
        "effective_policy_definition": amqp_json.shown(dict(governed.definition)),
        "consumers": len(queue.subscriptions),
        "exclusive_consumer_tag": None if exclusive is None else exclusive.tag,
        "single_active_consumer_tag": active,
        "message_bytes_ready": queue.engine.ready_bytes,
    }
    if queue.type is QUORUM:
        # What RabbitMQ 3.10 calls it there.
        shown["single_active_consumer_ctag"] = active
    return shown


def counts_of(queue: QueueState) -> tuple[int, int, int]:
    """Return what COUNTED names; what is held for a moment is ready."""
    engine = queue.engine
    ready, unacked = engine.ready_count + engine.held_count, engine.unacked_count
    return ready + unacked, ready, unacked


def counted(queue: QueueState) -> dict[str, Any]:
    """Return COUNTED."""
    messages, ready, unacked = counts_of(queue)
    return {
        "messages": messages,
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
    }


def sampled(around: Surroundings, queue: QueueState) -> dict[str, Any]:
    """Return RATED."""
    counts = counts_of(queue)
    stats = (queue.engine.published, *deliveries(queue.engine.counts))
    rates = rates_of(queue, counts + stats, around.monotonic())
    shown: dict[str, Any] = {
        "messages_details": {"rate": rates[0]},
        "messages_ready_details": {"rate": rates[1]},
        "messages_unacknowledged_details": {"rate": rates[2]},
    }
    if any(stats):
        shown["message_stats"] = with_rates(STATS, stats, rates[len(counts) :])
    return shown


def _key(queue: QueueState) -> Key:
    return Key("queue" if queue.stream is None else "stream", queue.vhost, queue.name)


def _name(policy: Any) -> str | None:
    return None if policy is None else str(policy.name)
