"""Hello world: put one message into a queue."""

from leporid.client.blocking import connect

with connect("amqp://localhost:5672") as connection, connection.channel() as channel:
    channel.queue("hello")
    channel.default_exchange.publish(b"Hello World!", "hello")
print(" [x] Sent 'Hello World!'")
