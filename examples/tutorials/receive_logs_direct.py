"""Routing: print the lines of log of some severities."""

import sys
from contextlib import suppress

from leporid.client.blocking import connect

severities = sys.argv[1:] or sys.exit(f"Usage: {sys.argv[0]} [info] [warning] [error]")
with (
    suppress(KeyboardInterrupt),
    connect("amqp://localhost:5672") as connection,
    connection.channel() as channel,
):
    queue, logs = channel.queue(exclusive=True), channel.exchange("direct_logs")
    for severity in severities:
        queue.bind(logs, severity)
    with queue.consume(no_ack=True) as consumer:
        print(" [*] Waiting for logs. To exit press CTRL+C", flush=True)
        for message in consumer:
            print(f" [x] {message.key}:{message.body.decode()}", flush=True)
