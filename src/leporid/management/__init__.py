"""The HTTP interface to streams: what there is, records as Arrow tables, publishing of tables.

The same users and permissions as over AMQP. Beside `server`, which mounts it: must not know
sockets, files or how the process starts. Handlers are coroutines on the broker's thread; what takes
long (passwords, encoding tables, reading them) is done by threads that share nothing with it.
"""
