"""Pausing a queue over HTTP, and letting it go on.

Responsible for the two routes, whose paths are LavinMQ's. They take the right to configure the
queue: whoever has it may delete the queue, which stops its consumers as well. Must not know how
deliveries stop. Invariant: an answer that a durable queue is paused leaves when that is on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from leporid.management.parameters import Parameters
from leporid.management.paths import name_of

if TYPE_CHECKING:
    from leporid.management.surroundings import Surroundings


class PauseRoutes:
    """The handlers.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def pause(self, request: Request) -> Response:
        """PUT /api/queues/{vhost}/{queue}/pause: also if it is paused."""
        return await self._set(request, True)

    async def resume(self, request: Request) -> Response:
        """PUT /api/queues/{vhost}/{queue}/resume: also if it is not paused."""
        return await self._set(request, False)

    async def _set(self, request: Request, paused: bool) -> Response:
        around = self._around
        user, vhost = await around.enter(request)
        Parameters(request, ())
        name = name_of(request, "queue")
        await around.decided(lambda: user.check("configure", "queue", name, vhost.name))
        queue = vhost.queue(name)
        queue.check_access(None)
        switch = vhost.pauses.pause if paused else vhost.pauses.resume
        switch(queue)
        around.wake()
        await around.recorded(user)
        return Response(status_code=204)
