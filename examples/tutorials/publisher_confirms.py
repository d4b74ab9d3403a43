"""Publisher confirms: one by one, many at a time, and what was refused."""

import asyncio
import time

from leporid.client import Returned, connect

COUNT = 10_000


async def main() -> None:
    """Publish the same number of messages in three ways."""
    async with connect("amqp://localhost:5672") as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        exchange, bodies = channel.default_exchange, [str(n).encode() for n in range(COUNT)]

        began = time.perf_counter()
        for body in bodies:
            await exchange.publish(body, queue.name)
        print(f" [x] one by one: {time.perf_counter() - began:.2f} s")

        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for body in bodies:
                tasks.create_task(exchange.publish(body, queue.name))
        print(f" [x] a task each: {time.perf_counter() - began:.2f} s")

        began = time.perf_counter()
        await exchange.publish_many(bodies, queue.name)
        print(f" [x] publish_many: {time.perf_counter() - began:.2f} s")

        try:
            await exchange.publish(b"for nobody", "no-such-queue")
        except Returned as error:
            print(f" [x] returned: {error.text}")


asyncio.run(main())
