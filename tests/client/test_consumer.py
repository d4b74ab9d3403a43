"""Consuming, against real brokers."""

import asyncio
import gc

import pytest
from tests.client.steps import channel_link_of, got

from leporid.client import (
    ConnectionLost,
    ConsumerCancelled,
    LocalProtocolError,
    NotFound,
    ServerClosed,
    connect,
)
from leporid.client.events import ConsumerEnded, Event

pytestmark = pytest.mark.slow


async def filled(channel, count, **arguments):
    queue = await channel.queue(exclusive=True, **arguments)
    bodies = [b"%d" % number for number in range(count)]
    await channel.default_exchange.publish_many(bodies, queue.name)
    return queue


async def take(consumer, count):
    found = []
    async for message in consumer:
        found.append(message)
        if len(found) == count:
            break
    return found


async def test_every_message_comes_once_and_in_order(url):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await filled(channel, 2000)
        seen = []
        async for message in queue.consume(prefetch=100):
            seen.append(message.body)
            await message.ack()
            if len(seen) == 2000:
                break
        assert seen == [b"%d" % number for number in range(2000)]
        assert await queue.count() == 0


async def test_prefetch_bounds_what_is_unsettled(url):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await filled(channel, 20)
        async with queue.consume(prefetch=5) as consumer:
            found = await take(consumer, 5)
            assert await queue.count() == 15
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(aiter(consumer)), 0.05)
            await found[4].ack(multiple=True)
            assert len(await take(consumer, 5)) == 5


async def test_leaving_the_loop_ends_the_consumer_and_gives_back_what_nobody_took(url):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await filled(channel, 50)
        async for message in queue.consume(prefetch=20):
            await message.ack()
            break
        assert channel.consumers == 0
        while await queue.count() != 49:
            await asyncio.sleep(0.01)
        assert queue.consumer_count == 0
        again = await got(queue)
        assert again.body == b"1"


async def test_entering_a_consumer_ends_it_with_the_block(url):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await filled(channel, 10)
        async with queue.consume(prefetch=3) as consumer:
            assert "active" in repr(consumer)
            (message,) = await take(consumer, 1)
        assert "ended" in repr(consumer)
        await message.ack()
        assert [each async for each in consumer] == []
        while await queue.count() != 9:
            await asyncio.sleep(0.01)


async def test_cancelling_wakes_the_one_who_waits(url):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        consumer = queue.consume()

        async def collect():
            return [message async for message in consumer]

        waiting = asyncio.create_task(collect())
        await consumer.begin()
        await consumer.cancel()
        assert await asyncio.wait_for(waiting, 10) == []


async def test_two_tasks_share_a_consumer(url):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await filled(channel, 200)
        seen = []

        async def work(consumer):
            async for message in consumer:
                seen.append(message.body)
                await asyncio.sleep(0)
                await message.ack()

        async with queue.consume(prefetch=10) as consumer:
            tasks = [asyncio.create_task(work(consumer)) for _ in range(3)]
            while len(seen) < 200:
                await asyncio.sleep(0.01)
            assert len(seen) == len(set(seen)) == 200
        await asyncio.gather(*tasks)


async def test_a_waiting_task_that_is_cancelled_takes_nothing(url):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        async with queue.consume() as consumer:
            waiting = asyncio.create_task(take(consumer, 1))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await channel.default_exchange.publish(b"for another", queue.name)
            (message,) = await asyncio.wait_for(take(consumer, 1), 10)
            assert message.body == b"for another"


async def test_a_busy_consumer_gives_others_their_turn(url):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await filled(channel, 1000)
        turns = 0

        async def others():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        async with queue.consume(prefetch=0) as consumer:
            while len(consumer.inbox) < 1000:
                await asyncio.sleep(0)
            before = turns
            for message in await take(consumer, 1000):
                await message.ack()
        assert turns - before >= 1000 // 64
        task.cancel()


async def test_process_settles_by_how_the_block_ends(url):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await filled(channel, 4)
        async with queue.consume() as consumer:
            acked, dropped, requeued, cancelled = await take(consumer, 4)
            async with acked.process() as same:
                assert same is acked
            with pytest.raises(KeyError):
                async with dropped.process():
                    raise KeyError
            with pytest.raises(KeyError):
                async with requeued.process(requeue=True):
                    raise KeyError
            with pytest.raises(asyncio.CancelledError):
                async with cancelled.process():
                    raise asyncio.CancelledError
            assert all(each.settled for each in (acked, dropped, requeued, cancelled))
            again = await take(consumer, 2)
            assert sorted(each.body for each in again) == [b"2", b"3"]
            assert all(each.redelivered for each in again)
            async with again[0].process(ignore_processed=True):
                await again[0].reject()
            with pytest.raises(LocalProtocolError, match="settled before"):
                async with again[1].process():
                    await again[1].ack()


async def test_settling_twice_is_told(url):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await filled(channel, 5)
        async with queue.consume() as consumer:
            found = await take(consumer, 5)
            await found[0].ack()
            for again in (found[0].ack, found[0].nack, found[0].reject):
                with pytest.raises(LocalProtocolError, match="delivery 1 was settled before"):
                    again()
            await found[3].ack(multiple=True)
            with pytest.raises(LocalProtocolError, match="settled before"):
                found[1].nack()
            await found[4].nack()
            await channel.connection.channel()  # the connection goes on
        async for message in queue.consume(no_ack=True):
            assert message.body == b"4"
            with pytest.raises(LocalProtocolError, match="no_ack"):
                await message.ack()
            break


async def test_acks_in_any_order_settle_exactly_these(url):
    async with connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.queue(exclusive=True)
        bodies = [b"%d" % number for number in range(300)]
        await channel.default_exchange.publish_many(bodies, queue.name)
        other = await connection.channel()
        mine = await other.queue(queue.name, passive=True)
        consumer = mine.consume(prefetch=0)
        found = await take(consumer, 300)
        acked = {number for number in range(300) if number * 7919 % 5 < 3}
        for number in sorted(acked, key=lambda each: each * 31 % 300):
            await found[number].ack()
            if number % 50 == 0:
                await asyncio.sleep(0)
        await other.close()
        while await queue.count() != 300 - len(acked):
            await asyncio.sleep(0.01)
        left = [(await got(queue, no_ack=True)).body for _ in range(300 - len(acked))]
        assert left == [b"%d" % number for number in range(300) if number not in acked]


async def test_one_delivery_that_is_held_for_long_keeps_no_memory_of_later_ones(url):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await filled(channel, 3000)
        async with queue.consume(prefetch=50) as consumer:
            (held,) = await take(consumer, 1)
            for message in await _acked(consumer, 2999):
                assert message.settled
            assert channel_link_of(channel).codec.unsettled == 1
            await held.nack()
            (again,) = await take(consumer, 1)
            assert again.body == held.body
            await again.ack()
            assert await queue.count() == 0
        assert channel_link_of(channel).codec.unsettled == 0


async def _acked(consumer, count):
    found = []
    async for message in consumer:
        found.append(message)
        await message.ack()
        if len(found) == count:
            break
    await asyncio.sleep(0)
    return found


async def test_the_brokers_cancel_raises_after_what_was_delivered(url, name):
    events: list[Event] = []
    async with connect(url, on_event=events.append) as connection:
        channel = await connection.channel()
        queue = await channel.queue(name)
        await channel.default_exchange.publish(b"last words", name)
        iterator = aiter(queue.consume())
        assert (await anext(iterator)).body == b"last words"
        await channel.delete_queue(name)
        with pytest.raises(ConsumerCancelled) as caught:
            await anext(iterator)
        assert caught.value.queue == name
        assert ConsumerEnded(name, caught.value.consumer_tag) in events


async def test_a_queue_that_does_not_exist_raises_and_leaves_the_channel_usable(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(name)
        await queue.delete()
        with pytest.raises(NotFound) as caught:
            async for _ in queue.consume():
                pass
        assert (caught.value.code, caught.value.method) == (404, "basic.consume")
        await channel.queue(exclusive=True)


async def test_an_exclusive_consumer_is_alone(url):
    async with connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.queue(exclusive=True)
        async with queue.consume(exclusive=True):
            other = await connection.channel()
            with pytest.raises(ServerClosed) as caught:
                async with (await other.queue(queue.name, passive=True)).consume():
                    pass
            assert caught.value.code == 403


async def test_closing_the_channel_ends_the_iteration(url):
    async with connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.queue(exclusive=True)
        consumer = queue.consume()
        await consumer.begin()

        async def collect():
            return [message async for message in consumer]

        waiting = asyncio.create_task(collect())
        await asyncio.sleep(0)
        await channel.close()
        assert await asyncio.wait_for(waiting, 10) == []


async def test_closing_while_much_is_on_its_way_leaves_the_connection(url):
    async with connect(url, robust=False) as connection:
        publisher = await connection.channel()
        queue = await filled(publisher, 3000)
        for _ in range(20):
            channel = await connection.channel(prefetch=1000)
            mine = await channel.queue(queue.name, passive=True)
            held = await got(mine)
            publishing = asyncio.create_task(
                channel.default_exchange.publish_many([b"x"] * 500, "nowhere", mandatory=False)
            )
            async for message in mine.consume():
                await message.nack()
                break
            await channel.close()
            with pytest.raises(LocalProtocolError, match="closed"):
                await held.nack()
            # All of it may have been confirmed by then.
            (published,) = await asyncio.gather(publishing, return_exceptions=True)
            assert isinstance(published, int | ConnectionLost | LocalProtocolError)
        while await queue.count() < 3000:
            await asyncio.sleep(0.01)


async def test_settling_after_close_is_told(url):
    async with connect(url) as connection:
        channel = await connection.channel()
        queue = await filled(channel, 1)
        message = await got(queue)
        await channel.close()
        with pytest.raises(LocalProtocolError, match="closed"):
            await message.ack()


async def test_a_consumer_that_nobody_holds_is_collected(url):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        consumer = queue.consume()
        await consumer.begin()
        assert channel.consumers == 1
        del consumer
        gc.collect()
        assert channel.consumers == 0
        while True:
            await queue.count()
            if queue.consumer_count == 0:
                break


async def test_a_reply_goes_to_who_asked(url):
    async with connect(url) as connection, connection.channel() as channel:
        requests = await channel.queue(exclusive=True)
        replies = await channel.queue(exclusive=True)
        await channel.default_exchange.publish(
            b"ask", requests.name, reply_to=replies.name, correlation_id="7"
        )
        await channel.default_exchange.publish(b"no reply", requests.name)
        async with requests.consume() as consumer:
            asked, plain = await take(consumer, 2)
            await asked.reply(b"answer", content_type="text/plain")
            with pytest.raises(LocalProtocolError, match="no reply_to"):
                await plain.reply(b"answer")
        answer = await got(replies, no_ack=True)
        assert (answer.body, answer.correlation_id, answer.content_type) == (
            b"answer",
            "7",
            "text/plain",
        )


async def test_filters_choose_what_is_delivered(broker):
    async with connect(broker.url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        for tag in ("late", "early", "late"):
            await channel.default_exchange.publish(tag.encode(), queue.name, tag=tag)
        async with queue.consume(tags=["early", "none"]) as consumer:
            (message,) = await take(consumer, 1)
            assert message.tag == "early"
        async with queue.consume(sql="\"x-tag\" = 'late'") as consumer:
            assert [each.body for each in await take(consumer, 2)] == [b"late"] * 2
        with pytest.raises(ServerClosed) as caught:
            async with queue.consume(sql="late >"):
                pass
        assert caught.value.code == 406


async def test_acks_are_sent_before_the_connection_is_closed(url, name):
    async with connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.queue(name)
        await channel.default_exchange.publish(b"x", name)
        # An ack waits for the end of the turn, and close() comes within it.
        delivery = await queue.get()
        assert delivery is not None
        await delivery.ack()
    async with connect(url) as connection, connection.channel() as channel:
        assert await (await channel.queue(name)).count() == 0


async def test_a_channel_is_closed_while_messages_come(url, name):
    async with connect(url) as connection:
        async with connection.channel() as channel:
            await channel.queue(name)
            await channel.default_exchange.publish_many([bytes(5000)] * 2000, name)
        for _ in range(10):
            channel = await connection.channel(prefetch=0)
            consumer = (await channel.queue(name)).consume()
            await consumer.begin()
            await channel.close()
        async with connection.channel() as channel:
            assert (await (await channel.queue(name)).delete()) == 2000


async def test_a_consumer_that_is_cancelled_while_it_begins_ends(url):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        await channel.default_exchange.publish(b"1", queue.name)
        for turns in range(3):
            consumer = queue.consume()
            beginning = asyncio.ensure_future(anext(aiter(consumer), None))
            for _ in range(turns + 1):
                await asyncio.sleep(0)
            await consumer.cancel()
            assert await asyncio.wait_for(beginning, 10) is None
            assert channel.consumers == 0
            del consumer, beginning
        async with asyncio.timeout(10):
            while await queue.count() == 0:
                pass
