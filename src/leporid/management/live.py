"""Live figures: what the web UI shows of this second, as server-sent events.

Responsible for one event a second for all who listen, and for ending each answer with what allowed
it. Must not know how samples are taken (`rates`, `histories`). Invariants: what many see is encoded
once; a listener that reads slowly misses samples and makes nothing wait; what a listener sees is
what its user may see at that moment.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from starlette.responses import Response

from leporid.amqp.errors import AccessRefused
from leporid.broker.access import tags
from leporid.broker.access.permissions import DEFAULT_EXCHANGE_NAME
from leporid.broker.exchange.exchange import DEFAULT_EXCHANGE
from leporid.management.admission import taken
from leporid.management.answers import disconnected
from leporid.management.authorization import manager, not_authorised, not_found
from leporid.management.channels import find_channel, find_session
from leporid.management.histories import IN_VHOSTS, KINDS, Key, is_gone
from leporid.management.parameters import nearest, whole
from leporid.management.paths import takes
from leporid.management.rates import CHURN, COUNTS, DEAD_LETTERS, MESSAGES, TOTALS
from leporid.management.refusals import Refusal, bad
from leporid.management.sessions import Session, session_in

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.limits.shares import Slot
    from leporid.management.surroundings import Surroundings

MEDIA_TYPE: Final = "text/event-stream"
WATCHED_MAX: Final = 16
# A line that means nothing, so that nobody in between takes the connection for a dead one.
QUIET_SECONDS: Final = 15
# What a browser waits before it asks again.
RETRY_MS: Final = 2000
# As an answer that ends by itself: for programs that want a few.
SAMPLES_MAX: Final = 1_000_000

_encoded: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Live:
    """The samples of this second, encoded when the first listener asks.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._came: asyncio.Event | None = None
        self._begin()
        self.listeners = 0
        self.closing = False

    def __repr__(self) -> str:
        return f"<Live listeners={self.listeners}>"

    def _begin(self) -> None:
        self.at_ms = int(time.time() * 1000)
        self._overview: str | None = None
        self._objects: dict[Key, str] = {}

    def publish(self) -> None:
        """Samples were taken: whoever listens is given them."""
        self._begin()
        came, self._came = self._came, None
        if came is not None:
            came.set()

    def close(self) -> None:
        """The broker stops: every answer ends."""
        self.closing = True
        self.publish()

    async def next(self) -> None:
        """Return when samples were taken."""
        if self._came is None:
            self._came = asyncio.Event()
        await self._came.wait()

    async def overview(self, user: User) -> str:
        """Return what a user sees of the whole broker, as JSON."""
        if not tags.may_monitor(user):
            return _encoded(await self._of_vhosts(user))
        if self._overview is None:
            self._overview = _encoded(self._whole())
        return self._overview

    def watched(self, key: Key, held: Any, user: str) -> str:
        """Return what an object is like, as JSON; `null` if there is none.

        Args:
            key: which it is.
            held: as for `find`.
            user: who looks.
        """
        if key not in self._objects:
            found = find(self._around, key, held)
            histories = self._around.histories
            shown = None if found is None else histories.look(key, found, user).latest()
            self._objects[key] = _encoded(shown)
        return self._objects[key]

    def _whole(self) -> dict[str, Any]:
        around, samples = self._around, self._around.samples
        node, latest = around.node(), samples.latest()
        totals = {name: latest[name] for name in (*TOTALS, *COUNTS)}
        rates = samples.rates((*MESSAGES, *CHURN, *DEAD_LETTERS, "syncs", "sync_us"))
        syncs, sync_us = rates.pop("syncs"), rates.pop("sync_us")
        return {
            "rates": rates,
            "totals": totals,
            "memory": {"used": node.memory_used, "limit": node.memory_limit},
            "disk": {"free": node.disk_free, "limit": node.disk_free_limit},
            "sync_ms": round(sync_us / syncs / 1000, 3) if syncs else None,
            "alarms": sorted(around.broker.alarms),
        }

    async def _of_vhosts(self, user: User) -> dict[str, Any]:
        """Return the same for who does not monitor: what is in that user's virtual hosts."""
        around = self._around
        vhosts = await around.seen_vhosts(user)
        ready = sum(vhost.totals.ready + vhost.totals.held for vhost in vhosts)
        unacked = sum(vhost.totals.unacked for vhost in vhosts)
        return {
            "rates": {},
            "totals": {
                "messages": ready + unacked,
                "messages_ready": ready,
                "messages_unacknowledged": unacked,
                "queues": sum(vhost.queue_count for vhost in vhosts),
                "exchanges": sum(vhost.exchange_count for vhost in vhosts),
                "consumers": sum(vhost.consumers.count for vhost in vhosts),
            },
            "memory": None,
            "disk": None,
            "sync_ms": None,
            "alarms": sorted(around.broker.alarms),
        }


async def looked_up(around: Surroundings, user: User, key: Key) -> Any:
    """Return a connection or channel, which is looked for among all, or a virtual host.

    Raises:
        Refusal: there is none of that kind and name (404), or the user does not see it (401).
    """
    if key.kind == "connection":
        return await find_session(around, user, key.name)
    if key.kind == "channel":
        return await find_channel(around, user, key.name)
    found = around.broker.vhosts.get(key.name) if key.kind == "vhost" else None
    if found is None:
        raise not_found()
    if not await around.decided(partial(may_look, user, key, None)):
        raise not_authorised("User not authorised to access virtual host")
    return found


def may_look(user: User, key: Key, held: Any) -> bool:
    """Say whether a user sees an object; `held` as for `find`."""
    if key.kind in IN_VHOSTS:
        return tags.may_enter(user, key.vhost)
    if key.kind == "vhost":
        return tags.may_see(user, key.name)
    if held is None or tags.may_monitor(user):
        return True
    session = held if key.kind == "connection" else held.session
    return bool(session.user.name == user.name)


def find(around: Surroundings, key: Key, held: Any = None) -> Any:
    """Return an object; None: there is none of that kind and name.

    Args:
        around: the broker.
        key: which it is.
        held: a connection or channel itself, which was looked up before.
    """
    if key.kind in ("connection", "channel"):
        return None if held is None or is_gone(key.kind, held) else held
    if key.kind == "vhost":
        return around.broker.vhosts.get(key.name)
    vhost = around.broker.vhosts.get(key.vhost)
    if vhost is None:
        return None
    if key.kind == "exchange":
        # The default exchange has no name, and this one wherever people see it.
        is_default = key.name == DEFAULT_EXCHANGE_NAME
        return vhost.find_exchange(DEFAULT_EXCHANGE if is_default else key.name)
    queue = vhost.find_queue(key.name)
    return None if key.kind == "stream" and queue is not None and queue.stream is None else queue


class LiveRoutes:
    """The handler.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    @takes(
        watch={"type": "array", "items": {"type": "string"}, "maxItems": WATCHED_MAX},
        samples={"type": "integer", "minimum": 1, "maximum": SAMPLES_MAX},
    )
    async def live(self, request: Request) -> Response:
        """GET /api/live: one event a second, of the broker and of the objects that are watched."""
        around = self._around
        user = await manager(around, request)
        keys, samples = _watched(request), SAMPLES_MAX
        if "samples" in request.query_params:
            samples = whole("samples", request.query_params["samples"], 1, SAMPLES_MAX)
        watched = {name: (key, await self._held(user, key)) for name, key in keys.items()}
        session = session_in(request, around.sessions)
        slot = taken(around.admission.shares.live, user.name)
        return LiveAnswer(around, Listener(user, session, watched, samples), slot)

    async def _held(self, user: User, key: Key) -> Any:
        """Return what `find` needs of an object, None for nothing.

        Raises:
            Refusal: the user does not see it.
        """
        if key.kind not in IN_VHOSTS:
            try:
                return await looked_up(self._around, user, key)
            except Refusal as refusal:
                if refusal.status != 404:
                    raise
        elif not await self._around.decided(partial(may_look, user, key, None)):
            raise not_authorised("User not authorised to access virtual host")
        return None


def _watched(request: Request) -> dict[str, Key]:
    """Return what is watched, by how the request says it.

    That is `KIND:VHOST:NAME`, percent-encoded, or `KIND:NAME` for what is in no virtual host.
    """
    found: dict[str, Key] = {}
    for name, value in request.query_params.multi_items():
        if name == "samples":
            continue
        if name != "watch":
            raise bad(name, f"unknown parameter{nearest(name, ('watch', 'samples'))}")
        kind, colon, called = value.partition(":")
        vhost = ""
        if kind in IN_VHOSTS:
            vhost, colon, called = called.partition(":")
        if kind not in KINDS or not colon:
            alone = ", ".join(each for each in KINDS if each not in IN_VHOSTS)
            raise bad(
                "watch",
                f"{value[:300]!r} is not KIND:VHOST:NAME, where KIND is {', '.join(IN_VHOSTS)}, "
                f"nor KIND:NAME, where KIND is {alone}",
            )
        try:
            found[value] = Key(kind, *(unquote_to_bytes(each).decode() for each in (vhost, called)))
        except UnicodeDecodeError:
            raise bad("watch", "is not percent-encoded UTF-8") from None
    if len(found) > WATCHED_MAX:
        raise bad("watch", f"there are {len(found)}; at most {WATCHED_MAX} may be")
    return found


class Listener:
    """Who listens, and to what.

    Args:
        user: as of the beginning.
        session: by which the user is known, if by one.
        watched: objects, by how the request named them, each with what `find` needs of it.
        samples: how many events there are at most.
    """

    __slots__ = ("samples", "session", "user", "watched")

    def __init__(
        self,
        user: User,
        session: Session | None,
        watched: dict[str, tuple[Key, Any]],
        samples: int,
    ) -> None:
        self.user = user
        self.session = session
        self.watched = watched
        self.samples = samples

    def user_now(self, around: Surroundings) -> User | None:
        """Return who listens, as of now; None: nobody may any more."""
        if self.session is not None:
            user = around.sessions.user_of(self.session)
        else:
            try:
                user = around.current(self.user)
            except Refusal:
                return None
            if user.password != self.user.password:
                return None
        return user if user is not None and tags.may_manage(user) else None


class LiveAnswer(Response):
    """The events.

    Args:
        around: the broker.
        listener: whose.
        slot: released when the answer has ended.
    """

    def __init__(self, around: Surroundings, listener: Listener, slot: Slot) -> None:
        self.status_code = 200
        self.background = None
        self._around = around
        self._live = around.live
        self._listener = listener
        self._slot = slot

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send one event after another, until the client is gone or may not listen any more."""
        self._live.listeners += 1
        gone = asyncio.create_task(disconnected(receive))
        sending = asyncio.create_task(self._send(send))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            self._live.listeners -= 1
            self._slot.release()
            for task in (gone, sending):
                task.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)

    async def _send(self, send: Any) -> None:
        head = (
            (b"content-type", MEDIA_TYPE.encode()),
            (b"cache-control", b"no-store"),
            # Proxies of the nginx family would keep events until they have some kilobytes.
            (b"x-accel-buffering", b"no"),
        )
        await send({"type": "http.response.start", "status": 200, "headers": list(head)})
        text = f"retry: {RETRY_MS}\n\n"
        for number in range(self._listener.samples):
            if number:
                await self._wait(send)
            try:
                event = await self._event()
            except (AccessRefused, Refusal):
                break  # who decides about rights has not said so in time
            if event is None:
                break
            # Returns when the client has taken most of what came before: it then gets the newest.
            await _write(send, text + event)
            text = ""
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _wait(self, send: Any) -> None:
        """Wait for the next samples."""
        while True:
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    return await self._live.next()
            except TimeoutError:
                await _write(send, ": no samples\n\n")

    async def _event(self) -> str | None:
        """Return the event of this second; None: nobody may see one any more."""
        around, live, listener = self._around, self._live, self._listener
        await around.admission.turns.next(listener.user.name)
        user = listener.user_now(around)
        if user is None or live.closing:
            return None
        at_ms, overview, objects = live.at_ms, await live.overview(user), []
        for name, (key, held) in listener.watched.items():
            # As somebody who may not see it any more sees that there is none.
            seen = await around.decided(partial(may_look, user, key, held))
            shown = live.watched(key, held, user.name) if seen else "null"
            objects.append(f"{_encoded(name)}:{shown}")
        return _event(at_ms, overview, objects)


def _event(at_ms: int, overview: str, objects: Sequence[str]) -> str:
    whole = f'{{"at_ms":{at_ms},"overview":{overview},"objects":{{{",".join(objects)}}}}}'
    return f"event: sample\ndata: {whole}\n\n"


async def _write(send: Any, text: str) -> None:
    body = text.encode("utf-8", "replace")
    await send({"type": "http.response.body", "body": body, "more_body": True})
