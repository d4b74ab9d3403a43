"""Remote procedure calls: answer each request with a Fibonacci number."""

import asyncio

from leporid.client import Delivery, Rpc, connect


def fib(n: int) -> int:
    """Compute it the slow way."""
    return n if n < 2 else fib(n - 1) + fib(n - 2)


async def answer(request: Delivery) -> bytes:
    """Handle one request."""
    print(f" [.] fib({request.body.decode()})", flush=True)
    return str(fib(int(request.body))).encode()


async def main() -> None:
    """Serve until interrupted."""
    async with (
        connect("amqp://localhost:5672") as connection,
        connection.channel() as channel,
        Rpc(channel).serve(await channel.queue("rpc_queue"), answer),
    ):
        print(" [x] Awaiting RPC requests", flush=True)
        await asyncio.Event().wait()


asyncio.run(main())
