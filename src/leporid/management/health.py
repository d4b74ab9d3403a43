"""RabbitMQ's health checks, and the test that a virtual host passes messages.

Responsible for these routes: 200 and `{"status":"ok"}`, or 503 and what is wrong. Must not know how
alarms are found. Invariant: a check looks at what is true now, and changes nothing; the test of a
virtual host leaves nothing but its queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leporid.amqp.methods import BasicAck, QueueDeclare
from leporid.management.acting import Acting
from leporid.management.authorization import manager, not_found, visitor
from leporid.management.paths import name_of
from leporid.management.refusals import Refusal
from leporid.management.sessions import check_page

if TYPE_CHECKING:
    from leporid.management.nodes import Listening
    from leporid.management.surroundings import Surroundings

DAY_S: Final = 86_400
UNITS: Final = {
    "days": DAY_S,
    "weeks": 7 * DAY_S,
    "months": 365 * DAY_S // 12,
    "years": 365 * DAY_S,
}
"""In seconds, as RabbitMQ counts them."""
WITHIN_DIGITS_MAX: Final = 9
PROTOCOLS: Final = {
    "amqp": "amqp",
    "amqp091": "amqp",
    "amqp0.9.1": "amqp",
    "amqps": "amqp/ssl",
    "amqp091s": "amqp/ssl",
    "management": "http",
}
"""Other words for protocols; RabbitMQ's."""

ALIVENESS_QUEUE: Final = "aliveness-test"
PAYLOAD: Final = b"test_message"


class HealthRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def alarms(self, request: Request) -> Response:
        """GET …/alarms and …/local-alarms, which are the same on one node."""
        await manager(self._around, request)
        found = [
            {"node": self._around.node_name, "resource": alarm}
            for alarm in sorted(self._around.broker.alarms)
        ]
        if not found:
            return _ok()
        return _failed("There are alarms in effect in the cluster", alarms=found)

    async def certificates(self, request: Request) -> Response:
        """GET …/certificate-expiration/{within}/{unit}: of listeners with TLS."""
        await manager(self._around, request)
        within, unit = name_of(request, "within"), name_of(request, "unit").lower()
        if unit not in UNITS:
            raise Refusal(
                400,
                "bad_request",
                "Time unit not recognised. Supported units: days, weeks, months, years.",
            )
        if not within.isascii() or not within.isdigit() or len(within) > WITHIN_DIGITS_MAX:
            raise Refusal(400, "bad_request", "Invalid expiration value.")
        before = self._around.engine.clock.wall_ms // 1000 + int(within) * UNITS[unit]
        node = self._around.node()
        found = [
            {"node": self._around.node_name, **ending}
            for listening in node.listening
            for ending in _ending(listening, before)
        ]
        return _failed("Certificates expiring", expired=found) if found else _ok()

    async def port(self, request: Request) -> Response:
        """GET …/port-listener/{port}."""
        await manager(self._around, request)
        given = name_of(request, "port")
        if not given.isascii() or not given.isdigit() or len(given) > 5:
            raise Refusal(400, "bad_request", "Invalid port")
        ports = list(dict.fromkeys(each.port for each in self._around.node().listening))
        if int(given) in ports:
            return JSONResponse({"status": "ok", "port": int(given)})
        return _failed("No active listener", missing=int(given), ports=ports)

    async def protocol(self, request: Request) -> Response:
        """GET …/protocol-listener/{protocol}."""
        await manager(self._around, request)
        given = name_of(request, "protocol")
        wanted = PROTOCOLS.get(given.lower(), given)
        known = list(dict.fromkeys(each.protocol for each in self._around.node().listening))
        if wanted in known:
            return JSONResponse({"status": "ok", "protocol": given})
        return _failed("No active listener", missing=wanted, protocols=known)

    async def fine(self, request: Request) -> Response:
        """GET a check that cannot fail here, or not while somebody is answered."""
        await manager(self._around, request)
        return _ok()

    async def critical(self, request: Request) -> Response:
        """GET a check of replicas that others depend on, of which one node has none."""
        await manager(self._around, request)
        return JSONResponse({"status": "ok", "reason": "single node cluster"})

    async def in_service(self, request: Request) -> Response:
        """GET …/is-in-service and …/ready-to-serve-clients."""
        await manager(self._around, request)
        if self._around.node().draining:
            return _failed("this node is being stopped")
        return _ok()

    async def connection_limit(self, request: Request) -> Response:
        """GET …/below-node-connection-limit."""
        await manager(self._around, request)
        limit, count = self._around.node().connections_max, len(self._around.broker.sessions)
        facts = {"connections": count, "limit": limit or "infinity"}
        if limit and count >= limit:
            return _failed("node connection limit is reached", **facts)
        return JSONResponse({"status": "ok", **facts})

    async def aliveness(self, request: Request) -> Response:
        """GET /api/aliveness-test/{vhost}: a message goes through a queue and is taken out."""
        user, vhost = await visitor(self._around, request)
        # The only GET that changes something: an image in any page could have a browser send it,
        # with the password that the browser knows.
        check_page(request)
        with Acting(self._around, user, vhost, f"HTTP user '{user.name}'") as acting:
            await acting.act(QueueDeclare(queue=ALIVENESS_QUEUE))
            await acting.publish("", ALIVENESS_QUEUE, b"\0\0", PAYLOAD)
            found = await acting.get(ALIVENESS_QUEUE, len(PAYLOAD))
            if found is None:
                return _failed("the message that was published is not in the queue")
            await acting.settle(BasicAck(0, multiple=True))
        return _ok()

    async def all_of_it(self, request: Request) -> Response:
        """GET /api/healthchecks/node[/{name}]: as far as RabbitMQ's old check is about us."""
        await manager(self._around, request)
        name = request.path_params.get("name")
        if name is not None and not self._around.is_node(name_of(request, "name")):
            raise not_found()
        if self._around.broker.alarms:
            alarms = ",".join(sorted(self._around.broker.alarms))
            return JSONResponse({"status": "failed", "reason": f"resource alarm(s): {alarms}"})
        return _ok()


def _ending(listening: Listening, before: int) -> Iterator[dict[str, Any]]:
    """Go through the certificates of a listener that are not valid until then, as RabbitMQ does."""
    for each in listening.certificates:
        ends = [_moment(end) for end in each.certificate_ends if end < before]
        authority_ends = [_moment(end) for end in each.authority_ends if end < before]
        if ends or authority_ends:
            yield {
                "protocol": listening.protocol,
                "interface": listening.host,
                "port": listening.port,
                "certfile": each.certificate,
                "cacertfile": each.authority,
                "certfile_expires_on": ends,
                "cacertfile_expires_on": authority_ends,
            }


def _moment(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


def _ok() -> Response:
    return JSONResponse({"status": "ok"})


def _failed(reason: str, **facts: Any) -> Response:
    return JSONResponse({"status": "failed", "reason": reason, **facts}, status_code=503)
