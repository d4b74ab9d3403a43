"""Topics: print the lines of log whose keys match; * is one word, # any number of words."""

import sys
from contextlib import suppress

from leporid.client.blocking import connect

patterns = sys.argv[1:] or sys.exit(f"Usage: {sys.argv[0]} [pattern]...")
with (
    suppress(KeyboardInterrupt),
    connect("amqp://localhost:5672") as connection,
    connection.channel() as channel,
):
    queue, logs = channel.queue(exclusive=True), channel.exchange("topic_logs", "topic")
    for pattern in patterns:
        queue.bind(logs, pattern)
    with queue.consume(no_ack=True) as consumer:
        print(" [*] Waiting for logs. To exit press CTRL+C", flush=True)
        for message in consumer:
            print(f" [x] {message.key}:{message.body.decode()}", flush=True)
