"""Work queues: put a task into a durable queue; each dot is a second of work."""

import sys

from leporid.client.blocking import connect

task = " ".join(sys.argv[1:]) or "Hello World!"
with connect("amqp://localhost:5672") as connection, connection.channel() as channel:
    channel.queue("task_queue")
    channel.default_exchange.publish(task.encode(), "task_queue")
print(f" [x] Sent {task!r}")
