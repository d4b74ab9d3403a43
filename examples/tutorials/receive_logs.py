"""Publish/subscribe: print every line of log, from a queue of this program's own."""

from contextlib import suppress

from leporid.client.blocking import connect

with (
    suppress(KeyboardInterrupt),
    connect("amqp://localhost:5672") as connection,
    connection.channel() as channel,
):
    queue = channel.queue(exclusive=True)
    queue.bind(channel.exchange("logs", "fanout"))
    with queue.consume(no_ack=True) as consumer:
        print(" [*] Waiting for logs. To exit press CTRL+C", flush=True)
        for message in consumer:
            print(f" [x] {message.body.decode()}", flush=True)
