"""Queues as RabbitMQ's API has them: lists, one queue, making, deleting, purging.

Responsible for these routes and for what a queue looks like in JSON. What is done to a queue,
AMQP's own methods do (`acting`), so permissions and refusals are theirs. Must not know how lists
are made (`paging`), nor messages (`messages`). Invariant: what is not counted here, such as the
memory of a queue, is left out and never made up.
"""

from __future__ import annotations

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
from leporid.management.paging import ABSENT, Lists, Table, columns_in
from leporid.management.parameters import flag_in, object_in
from leporid.management.paths import name_of, takes
from leporid.management.rates import DELIVERIES, deliveries, rates_of, with_rates
from leporid.management.refusals import Refusal
from leporid.management.sample_routes import AGES, ages_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leporid.broker.access.access import User
    from leporid.broker.connection.session import ConnectionState
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.vhost import VirtualHost
    from leporid.management.histories import History
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
STATS: Final = ("publish", *DELIVERIES)
RATED: Final = ("message_stats", *(f"{name}_details" for name in COUNTED))
"""What samples are needed for."""
ORDER: Final = ("vhost", "name")


class QueueRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        fields = self._fields()

        def rated(name: str) -> Any:
            return lambda queue: sampled(around, queue).get(name, ABSENT)

        def whole(queue: QueueState) -> dict[str, Any]:
            shown = {
                name: value
                for name, field in fields.items()
                if (value := field(queue)) is not ABSENT
            }
            return shown | sampled(around, queue)

        every = fields | {name: rated(name) for name in RATED}
        self._table: Table[QueueState] = Table(every, ORDER, whole)
        self._defined = Table({name: fields[name] for name in DEFINED}, ORDER)
        self._with_totals = Table({name: fields[name] for name in (*DEFINED, *COUNTED)}, ORDER)
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
            table = self._with_totals if totals else self._defined
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

        def rated(name: str) -> Any:
            return lambda queue: whole(queue).get(name, ABSENT)

        fields = {**self._table.fields, **{name: rated(name) for name in RATED}}
        return Table(fields, ORDER, whole)

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

    def _fields(self) -> dict[str, Any]:
        """Return what is said of a queue without samples."""
        around = self._around

        def nodes(queue: QueueState) -> Any:
            return ABSENT if queue.type is CLASSIC else [around.node_name]

        return {
            "name": lambda queue: queue.name,
            "vhost": lambda queue: queue.vhost,
            "type": lambda queue: queue.type.name,
            "node": lambda queue: around.node_name,
            "state": lambda queue: "paused" if queue.engine.paused else "running",
            "durable": lambda queue: queue.durable,
            "auto_delete": lambda queue: queue.auto_delete,
            "exclusive": lambda queue: queue.owner is not None,
            "owner_pid_details": _owner,
            "arguments": lambda queue: amqp_json.shown(queue.arguments),
            "leader": lambda queue: ABSENT if queue.type is CLASSIC else around.node_name,
            "members": nodes,
            "online": nodes,
            "policy": lambda queue: _name(queue.governed.policy),
            "operator_policy": lambda queue: _name(queue.governed.operator_policy),
            "effective_policy_definition": lambda queue: amqp_json.shown(queue.governed.definition),
            "consumers": lambda queue: len(queue.subscriptions),
            "exclusive_consumer_tag": _exclusive_tag,
            "single_active_consumer_tag": _active_tag,
            # What RabbitMQ 3.10 calls it in quorum queues.
            "single_active_consumer_ctag": lambda queue: (
                _active_tag(queue) if queue.type is QUORUM else ABSENT
            ),
            "messages": lambda queue: ready_of(queue) + queue.engine.unacked_count,
            "messages_ready": ready_of,
            "messages_unacknowledged": lambda queue: queue.engine.unacked_count,
            "message_bytes_ready": lambda queue: queue.engine.ready_bytes,
        }

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


def sampled(around: Surroundings, queue: QueueState) -> dict[str, Any]:
    """Return what samples are needed for."""
    engine = queue.engine
    ready = ready_of(queue)
    counted = (ready + engine.unacked_count, ready, engine.unacked_count)
    stats = (engine.published, *deliveries(engine.counts))
    rates = rates_of(queue, counted + stats, around.monotonic())
    behind = len(COUNTED)
    shown: dict[str, Any] = {
        f"{name}_details": {"rate": rate}
        for name, rate in zip(COUNTED, rates[:behind], strict=True)
    }
    if any(stats):
        shown["message_stats"] = with_rates(STATS, stats, rates[behind:])
    return shown


def _key(queue: QueueState) -> Key:
    return Key("queue" if queue.stream is None else "stream", queue.vhost, queue.name)


def _name(policy: Any) -> str | None:
    return None if policy is None else str(policy.name)


def ready_of(queue: QueueState) -> int:
    """Return how many messages are ready, or held for a moment."""
    return queue.engine.ready_count + queue.engine.held_count


def _owner(queue: QueueState) -> Any:
    owner: Any = queue.owner
    if owner is None:
        return ABSENT
    session: ConnectionState = owner
    return connection_details(session)


def _exclusive_tag(queue: QueueState) -> str | None:
    found = queue.exclusive_subscription
    return None if found is None else found.tag


def _active_tag(queue: QueueState) -> str | None:
    if not queue.single_active_consumer:
        return None
    oldest = queue.subscriptions.oldest
    return None if oldest is None else oldest.tag
