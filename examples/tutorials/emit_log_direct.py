"""Routing: a line of log, routed by its severity."""

import sys

from leporid.client.blocking import connect

severity, *words = sys.argv[1:] or ["info"]
line = " ".join(words) or "Hello World!"
with connect("amqp://localhost:5672") as connection, connection.channel() as channel:
    channel.exchange("direct_logs").publish(line.encode(), severity, mandatory=False)
print(f" [x] Sent {severity}:{line}")
