"""Work queues: do one task at a time; one that was not finished goes to another worker."""

import time
from contextlib import suppress

from leporid.client.blocking import connect

with (
    suppress(KeyboardInterrupt),
    connect("amqp://localhost:5672") as connection,
    connection.channel() as channel,
    channel.queue("task_queue").consume(prefetch=1) as consumer,
):
    print(" [*] Waiting for messages. To exit press CTRL+C", flush=True)
    for message in consumer:
        with message.process():
            print(f" [x] Received {message.body.decode()!r}", flush=True)
            time.sleep(message.body.count(b"."))
            print(" [x] Done", flush=True)
