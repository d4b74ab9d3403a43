"""The HTTP interface under `/api/`: RabbitMQ's management API, and routes that only Leporid has.

The latter are for streams and queues as Arrow tables, delays, groups, filters, sessions and live
figures of the web UI, and the audit log. Users and permissions are those of AMQP. `server` mounts
it; it must not know sockets, files or how the process starts. Handlers are coroutines on the
broker's thread; what takes long (passwords, encoding and reading tables) is done by threads that
share nothing with it.
"""
