"""Single messages over RabbitMQ's API: publishing one, getting some from a queue.

Responsible for these two routes, which are for looking and trying out: streams, leases and tables
are for programs. The messages pass through a channel of the request's own (`acting`), so that
permissions, exchanges and dead-lettering are those of AMQP. Invariants: what a client gets is
settled before the answer leaves, as in RabbitMQ; what it does not get, because of a limit, is in
the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leporid.amqp.methods import BasicAck, BasicNack
from leporid.limits.shares import NoSlot
from leporid.management.acting import Acting, BodyTooLarge, Delivered
from leporid.management.admission import taken
from leporid.management.amqp_json import Body, body_in, properties_in, shown, shown_properties
from leporid.management.authorization import visitor
from leporid.management.bindings import exchange_name
from leporid.management.listings import Written
from leporid.management.paging import Slices
from leporid.management.parameters import object_in
from leporid.management.paths import name_of
from leporid.management.refusals import Refusal, of_no_slot, too_large

if TYPE_CHECKING:
    from leporid.limits.shares import Slot
    from leporid.management.surroundings import Surroundings

# Of one request: a page that a person looks through.
MESSAGES_MAX: Final = 1000
MESSAGES_LIMIT: Final = "http_get_messages"
# Bodies of one answer together. They are in memory, and each is copied out of the log in one go:
# two milliseconds.
BODY_BYTES_MAX: Final = 8 * 1024 * 1024
BODY_LIMIT: Final = "http_get_body_bytes"
# What a message takes in an answer beside its body.
MESSAGE_BYTES: Final = 1024

# Whether a message goes back to the queue, and whether it counts as rejected if it does not.
ACK_MODES: Final = {
    "ack_requeue_true": BasicNack(0, multiple=True, requeue=True),
    "reject_requeue_true": BasicNack(0, multiple=True, requeue=True),
    "ack_requeue_false": BasicAck(0, multiple=True),
    "reject_requeue_false": BasicNack(0, multiple=True, requeue=False),
}


class MessageRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def publish(self, request: Request) -> Response:
        """POST /api/exchanges/{vhost}/{exchange}/publish: says whether it was routed."""
        user, vhost = await visitor(self._around, request)
        needed = ("properties", "routing_key", "payload", "payload_encoding")
        given = await object_in(self._around.admission, request, user, needed)
        if not isinstance(given["routing_key"], str):
            raise Refusal(400, "bad_request", "routing_key is a string")
        body = body_in(given["payload"], given["payload_encoding"])
        properties = properties_in(given["properties"])
        with Acting(self._around, user, vhost, f"HTTP user '{user.name}'") as acting:
            routed, accepted, _ = await acting.publish(
                exchange_name(request, "exchange"), given["routing_key"], properties, body
            )
        if not accepted:
            raise Refusal(400, "bad_request", "rejected: a queue that refuses more is full")
        return JSONResponse({"routed": routed})

    async def get(self, request: Request) -> Response:
        """POST /api/queues/{vhost}/{queue}/get: the next messages, settled as `ackmode` says."""
        user, vhost = await visitor(self._around, request)
        needed = ("ackmode", "count", "encoding")
        given = await object_in(self._around.admission, request, user, needed)
        count, truncate = _count_in(given), _truncate_in(given)
        settle = ACK_MODES.get(given["ackmode"]) if isinstance(given["ackmode"], str) else None
        if settle is None:
            raise Refusal(400, "bad_request", f"ackmode is one of {', '.join(ACK_MODES)}")
        if given["encoding"] not in ("auto", "base64"):
            reason = "Unsupported encoding. Please use auto or base64."
            raise Refusal(400, "bad_request", reason)
        room = taken(self._around.admission.shares.body_bytes, user.name, MESSAGE_BYTES)
        try:
            with Acting(self._around, user, vhost, f"HTTP user '{user.name}'") as acting:
                slices = Slices(self._around, user)
                found = await self._get(acting, name_of(request, "queue"), count, room, slices)
                if found:
                    await acting.settle(settle)
        except BaseException:
            room.release()
            raise
        as_text = given["encoding"] == "auto"
        messages = (_shown(each, truncate, as_text=as_text) for each in found)
        return self._around.listing(user, messages, ended=room.release)

    async def _get(
        self, acting: Acting, queue: str, count: int, room: Slot, slices: Slices
    ) -> list[Delivered]:
        """Take messages, as many as there is room for.

        Raises:
            Refusal: not even the first one may be shown; it is in the queue again when the channel
                has ended.
        """
        found: list[Delivered] = []
        left = BODY_BYTES_MAX
        while len(found) < count:
            await slices.next()
            try:
                message = await acting.get(queue, left)
                if message is None:
                    break
                room.add(len(message.body) + MESSAGE_BYTES)
            except BodyTooLarge as larger:
                await acting.give_back(larger.tag)
                if not found:
                    self._around.broker.refusals.count(BODY_LIMIT)
                    raise too_large(
                        BODY_LIMIT,
                        BODY_BYTES_MAX,
                        f"the next message has a body of {larger.size} bytes; of at most "
                        f"{BODY_BYTES_MAX} ({BODY_LIMIT}) it is shown",
                    ) from None
                break
            except NoSlot as none:
                raise of_no_slot(none) from None
            left -= len(message.body)
            found.append(message)
        return found


def _count_in(given: dict[str, Any]) -> int:
    """How many messages are asked for; RabbitMQ takes a number that is written as text, too."""
    value = given["count"]
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not 0 <= value <= MESSAGES_MAX:
        raise Refusal(
            400,
            "bad_request",
            f"count is a number from 0 to {MESSAGES_MAX} ({MESSAGES_LIMIT})",
            limit=MESSAGES_LIMIT,
            value=MESSAGES_MAX,
        )
    return int(value)


def _truncate_in(given: dict[str, Any]) -> int | None:
    value = given.get("truncate")
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise Refusal(400, "bad_request", "truncate is a number of bytes")


def _shown(message: Delivered, truncate: int | None, *, as_text: bool) -> dict[str, Any]:
    method = message.method
    body = Body(message.body[:truncate], "string", as_text=as_text)
    return {
        "payload_bytes": len(message.body),
        "redelivered": method.redelivered,
        "exchange": shown(method.exchange),
        "routing_key": shown(method.routing_key),
        "message_count": method.message_count,
        # An empty table of Erlang's is an empty list.
        "properties": shown_properties(message.properties) or [],
        "payload": Written(body.texts()),
        "payload_encoding": Written(body.encoding()),
    }
