"""Topics: a line of log, routed by a key of several words such as kern.critical."""

import sys

from leporid.client.blocking import connect

key, *words = sys.argv[1:] or ["anonymous.info"]
line = " ".join(words) or "Hello World!"
with connect("amqp://localhost:5672") as connection, connection.channel() as channel:
    channel.exchange("topic_logs", "topic").publish(line.encode(), key, mandatory=False)
print(f" [x] Sent {key}:{line}")
