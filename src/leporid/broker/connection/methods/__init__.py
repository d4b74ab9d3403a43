"""What each method of AMQP 0-9-1 does, one module per class.

Responsible for turning a method into calls on the virtual host and the engine, checking in
RabbitMQ's order so that the first fault is the same one. Must not know frames or sockets.
Invariant: a handler that raises a fault has changed nothing; one that returns a method leaves
it to the session to send it once what was recorded is on disk.
"""
