"""Hello world: print what comes into a queue."""

from contextlib import suppress

from leporid.client.blocking import connect

with (
    suppress(KeyboardInterrupt),
    connect("amqp://localhost:5672") as connection,
    connection.channel() as channel,
    channel.queue("hello").consume(no_ack=True) as consumer,
):
    print(" [*] Waiting for messages. To exit press CTRL+C", flush=True)
    for message in consumer:
        print(f" [x] Received {message.body.decode()!r}", flush=True)
