"""Remote procedure calls: ask for a Fibonacci number."""

from leporid.client.blocking import connect

with connect("amqp://localhost:5672") as connection, connection.channel() as channel:
    print(" [x] Requesting fib(30)")
    reply = channel.rpc().call(channel.default_exchange, b"30", "rpc_queue")
print(f" [.] Got {int(reply.body)}")
