"""Publish/subscribe: a line of log for everybody who listens now."""

import sys

from leporid.client.blocking import connect

line = " ".join(sys.argv[1:]) or "info: Hello World!"
with connect("amqp://localhost:5672") as connection, connection.channel() as channel:
    channel.exchange("logs", "fanout").publish(line.encode(), mandatory=False)
print(f" [x] Sent {line!r}")
