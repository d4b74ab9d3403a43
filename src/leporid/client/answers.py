"""Who waits for which answers of a broker.

Responsible for matching answers with questions, on channel 0 or another one, and for telling
everybody when there will be none. It must not know connections. Invariant: an answer goes to the
first who asked for it, also if nobody waits for that one any more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final, TypeVar

from leporid.amqp.methods import BasicCancelOk, BasicConsume, BasicConsumeOk, Method
from leporid.client.errors import ClientError, LocalProtocolError, ServerClosed, Timeout, fresh

Ids = tuple[int, int]
NOT_ASKED: Final = (0, 0)
_CONSUME: Final = (BasicConsume.CLASS_ID, BasicConsume.METHOD_ID)


class Answers:
    """Who waits for which methods, in the order in which they were asked for.

    Answers about consumers are told by the consumer's tag: RabbitMQ's queues send them, and other
    answers of the channel may overtake them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[Ids, tuple[type[Method], ...], asyncio.Future[Any]]] = deque()
        self._tagged: dict[tuple[type[Method], str], asyncio.Future[Any]] = {}

    def expect(self, asked: Ids, *kinds: type[Method]) -> asyncio.Future[Any]:
        """Returns a future for the next answer; one that is cancelled still takes its answer.

        Args:
            asked: class and number of the method that is to be answered.
            kinds: what the answer may be.
        """
        future = self._loop.create_future()
        self._waiting.append((asked, kinds, future))
        return future

    def expect_tagged(self, kind: type[Method], consumer_tag: str) -> asyncio.Future[Any]:
        """Returns a future for the answer about a consumer."""
        future = self._tagged[kind, consumer_tag] = self._loop.create_future()
        return future

    def asker(self, method: Method) -> asyncio.Future[Any] | None:
        """Whose answer it is, who then waits no more; None: nobody's. It may be done: given up."""
        if isinstance(method, BasicConsumeOk | BasicCancelOk):
            return self._tagged.pop((type(method), method.consumer_tag), None)
        if not self._waiting or not isinstance(method, self._waiting[0][1]):
            return None
        return self._waiting.popleft()[2]

    def give(self, method: Method) -> bool:
        """Hands an answer to the first who waits; False: it is not what they wait for."""
        future = self.asker(method)
        if future is None:
            return False
        if not future.done():
            future.set_result(method)
        return True

    def fail(self, error: Exception, bystanders: Exception) -> None:
        """Tells everybody that no answer will come.

        Args:
            error: for who asked for what the broker blames. Answers come in the order of the
                questions, so that is the first who waits for an answer to such a method.
            bystanders: for all others.
        """
        blamed = (error.class_id, error.method_id) if isinstance(error, ServerClosed) else None
        futures = [(asked, future) for asked, _, future in self._waiting]
        futures += [(_CONSUME, future) for future in self._tagged.values()]
        self._waiting.clear()
        self._tagged.clear()
        for asked, future in futures:
            if asked == blamed:
                blamed = None
                told = error
            else:
                told = bystanders
            if not future.done():
                future.set_exception(fresh(told))


def ids_of(method: Method) -> Ids:
    """Returns the numbers of a method's class and of itself."""
    return method.CLASS_ID, method.METHOD_ID


def encoded(method: Method) -> bytes:
    """Encodes a method.

    Raises:
        LocalProtocolError: a field has no encoding.
    """
    try:
        return method.encode()
    except (ValueError, AttributeError, TypeError) as error:
        raise LocalProtocolError(f"{method.NAME} cannot be encoded: {error}") from None


_T = TypeVar("_T")


async def answer_of(future: asyncio.Future[_T], what: str, seconds: float) -> _T:
    """Waits for an answer.

    Raises:
        Timeout: it did not come; the text says what was waited for.
    """
    try:
        async with asyncio.timeout(seconds):
            return await future
    except TimeoutError as error:
        if isinstance(error, ClientError):
            raise
        raise Timeout(f"no {what} within {seconds:g} s") from None
    finally:
        # The traceback of its error refers to this frame.
        del future
