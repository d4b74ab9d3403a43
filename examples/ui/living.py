"""Run a broker with something to see in each page of its web UI, until Ctrl-C.

    python examples/ui/living.py
    python examples/ui/living.py --rate 200 --http-port 15672

Starts a broker of its own on a fresh data directory and lets the flights that left New York in 2013
go through it, some a second: queues whose consumers are fast, slow, choosy or clumsy, so that
messages die for every reason there is; a stream with a reader that keeps up and one that does not;
messages that wait for seconds and for years; several users, virtual hosts and policies. Prints
where the web UI is, and the login. Everything is deleted at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import logging
import random
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Final, NamedTuple

import example

from leporid.client import Channel, ClientError, Message, connect
from leporid.client.management import Address, Management
from leporid.testing import BrokerError, BrokerProcess

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "flights"))

from dataset import DataError, Flight, load  # noqa: E402 - it is found only now

RATE_MAX: Final = 5000
TICK_S: Final = 0.1
PREFETCH: Final = 20
# A consumer that breaks down comes back after that time.
PAUSE_S: Final = 1.0


def made_up(count: int = 5000) -> list[Flight]:
    """Return flights that never were, for where the data set cannot be had."""
    choose = random.Random(2013)
    found = []
    for number in range(count):
        late = choose.choice((-5, 0, 3, 12, 40, 75, 180, None))
        state = "cancelled" if late is None else "late" if late >= 15 else "ontime"
        origin, carrier = choose.choice(example.AIRPORTS), choose.choice(("UA", "DL", "B6"))
        found.append(Flight(origin, carrier, state, f"2013,{number}".encode(), late))
    return found


def flights_there_are(csv: Path | None) -> list[Flight]:
    """Return the flights of a file, or of the data set, or such as could have been."""
    try:
        return load(csv)
    except DataError as error:
        print(f"without the data set ({error}): the flights are made up", flush=True)
        return made_up()


def message_of(number: int, flight: Flight) -> Message:
    """Return a flight as a message: JSON, with what filters look at in its headers."""
    headers: dict[str, Any] = {"origin": flight.origin, "carrier": flight.carrier}
    if flight.dep_delay is not None:
        headers["dep_delay"] = flight.dep_delay
    body = {
        "flight": f"{flight.carrier}{number % 2000 + 1}",
        "from": flight.origin,
        "state": flight.state,
        "delay_minutes": flight.dep_delay,
        "line": flight.line.decode(errors="replace").strip(),
    }
    return Message(
        json.dumps(body).encode(),
        key=flight.routing_key,
        headers=headers,
        tag=flight.state,
        content_type="application/json",
        message_id=str(number),
        type="flight",
    )


async def publish(channel: Channel, flights: list[Flight], rate: float) -> None:
    """Publish flights for ever, `rate` of them a second; every other minute twice as many."""
    exchange = await channel.exchange("flights", "topic", alternate="unroutable")
    messages = (
        message_of(number, flight) for number, flight in enumerate(itertools.cycle(flights))
    )
    due = 0.0
    for tick in itertools.count():
        # A burst now and then is what charts are for.
        due += rate * TICK_S * (1 + int(tick * TICK_S / 60) % 2)
        await exchange.publish_many(list(itertools.islice(messages, int(due))), mandatory=False)
        due -= int(due)
        await asyncio.sleep(TICK_S)


async def consume(
    channel: Channel, name: str, each_s: float, settle: Callable[[Any, int], Any], **options: Any
) -> None:
    """Consume from a queue, and settle each message as `settle` says, `each_s` after it came."""
    queue = await channel.queue(name, passive=True)
    count = 0
    async with queue.consume(prefetch=PREFETCH, **options) as consumer:
        async for message in consumer:
            count += 1
            await asyncio.sleep(each_s)
            await settle(message, count)


async def read(channel: Channel, reader: str, each_s: float, offset: str | None = None) -> None:
    """Read the stream by a name, a message each `each_s`."""
    stream = await channel.stream("departures", passive=True)
    async with stream.read(offset, reader=reader, prefetch=PREFETCH) as consumer:
        async for message in consumer:
            await asyncio.sleep(each_s)
            await message.ack()


async def shop(channel: Channel) -> None:
    """Take an order every few seconds."""
    orders = await channel.exchange("orders", "topic")
    for number in itertools.count(1):
        state = "paid" if number % 3 else "shipped"
        body = json.dumps({"order": number, "total": number * 7 % 90 + 9.9}).encode()
        await orders.publish(
            body, f"order.{number}.{state}", priority=number % 4, content_type="application/json"
        )
        await asyncio.sleep(2)


async def _ack(message: Any, count: int) -> None:
    await message.ack()


async def _reject_some(message: Any, count: int) -> None:
    await (message.reject() if count % 20 == 0 else message.ack())


async def _never(message: Any, count: int) -> None:
    await asyncio.sleep(TICK_S)
    await message.nack(requeue=True)


async def forever(name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do something again when it has ended, as when an administrator has deleted its queue."""
    while True:
        try:
            await work()
        except (ClientError, ExceptionGroup) as error:
            print(f"{name}: {error}; it goes on in {PAUSE_S:g} s", file=sys.stderr, flush=True)
        await asyncio.sleep(PAUSE_S)


@contextlib.asynccontextmanager
async def opened(url: str, name: str, **options: Any) -> AsyncIterator[Channel]:
    """Give a channel of a connection with a name."""
    async with connect(url, name=name, **options) as connection, connection.channel() as channel:
        yield channel


class Urls(NamedTuple):
    """Where the broker is.

    Attributes:
        http: of the web UI and the management API, without a slash at its end.
        amqp: as guest, of the virtual host `/`.
        shop: as the shop's application, of its virtual host.
    """

    http: str
    amqp: str
    shop: str


def urls_of(broker: BrokerProcess) -> Urls:
    """Return them of a broker that runs."""
    login = f"shop-app:{example.PASSWORD}"
    shop_url = broker.url.replace("guest:guest", login).replace("%2F", example.SHOP)
    return Urls(f"http://127.0.0.1:{broker.http_port}", broker.url, shop_url)


async def prepare(urls: Urls) -> None:
    """Make all that there is before anything moves."""
    with Management(Address(urls.http, "guest", "guest")) as management:
        example.administer(management)
    async with opened(urls.amqp, "example", api=urls.http) as channel:
        await example.declare(channel)
    async with opened(urls.shop, "example") as channel:
        await example.declare_shop(channel)
    with Management(Address(urls.http, "ann", example.PASSWORD)) as management:
        example.finish(management)


async def live(urls: Urls, flights: list[Flight], rate: float) -> None:
    """Have everything happen until the task is cancelled."""

    async def on(name: str, work: Callable[[Channel], Coroutine[Any, Any, None]]) -> None:
        async def once() -> None:
            url = urls.shop if name == "shop" else urls.amqp
            async with opened(url, name, api=urls.http) as channel:
                await work(channel)

        await forever(name, once)

    every: dict[str, Callable[[Channel], Coroutine[Any, Any, None]]] = {
        "tower": lambda channel: publish(channel, flights, rate),
        "board JFK": lambda channel: consume(channel, "departures.JFK", 0, _ack),
        "board LGA": lambda channel: consume(channel, "departures.LGA", 0.001, _reject_some),
        "only late EWR": lambda channel: consume(
            channel, "departures.EWR", 0, _ack, sql="dep_delay > 15"
        ),
        "gates": lambda channel: consume(channel, "gates", 0, _never),
        "report": lambda channel: read(channel, "board", 0),
        "slow audit": lambda channel: read(channel, "audit", 0.2, "first"),
        "shop": shop,
    }
    async with asyncio.TaskGroup() as tasks:
        for name, work in every.items():
            tasks.create_task(on(name, work))


async def run(urls: Urls, flights: list[Flight], rate: float) -> None:
    """Run until SIGINT or SIGTERM."""
    # Connections that end with the broker are no news here.
    logging.getLogger("leporid.client").addHandler(logging.NullHandler())
    await prepare(urls)
    living = asyncio.create_task(live(urls, flights, rate))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, living.cancel)
    others = ", ".join(name for name, tags in example.USERS.items() if tags)
    print(
        f"\nweb UI:  {urls.http}/\nlogin:   guest / guest   (this machine only)\n"
        f"others:  {others} / {example.PASSWORD}\nAMQP:    {urls.amqp}\nCtrl-C ends it.",
        flush=True,
    )
    with contextlib.suppress(asyncio.CancelledError):
        await living


def main() -> int:
    """Parse the arguments, run, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rate", type=float, default=40, help="flights a second (40)")
    parser.add_argument("--http-port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--amqp-port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--csv", type=Path, help="flights to use instead of the data set")
    options = parser.parse_args()
    if not 0 < options.rate <= RATE_MAX:
        parser.error(f"--rate: more than 0, and at most {RATE_MAX}")
    flights = flights_there_are(options.csv)
    # In the file, the cancelled flights of a day stand together.
    random.Random(2013).shuffle(flights)
    with tempfile.TemporaryDirectory(prefix="leporid-ui-") as scratch:
        broker = BrokerProcess(
            Path(scratch) / "data",
            amqp_port=options.amqp_port,
            options=["--http-port", str(options.http_port)],
        )
        try:
            with broker:
                asyncio.run(run(urls_of(broker), flights, options.rate))
                return broker.stop()
        except BrokerError as error:
            print(f"ui: {error}", file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
