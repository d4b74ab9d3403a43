"""The data plane: what happens to every message, from socket buffer to socket buffer, in Cython.

Folders, lowest first; each knows those above it in this list only:

    wire        the bytes of frames, properties and records
    log         records appended, what is told of entries, and state rebuilt from them
    selectors   filters, as they are run here
    queue       entries and limits, expiry, dead-lettering, browsing, leases
    stream      logs of their own, read by offset
    routing     where a message goes
    publishing  the one way from a route to log and queues
    internal    queues that nobody declares: delays, backlogs, what waits for verdicts
    selecting   consumers with filters
    connection  connections, channels, consumers
    tables      columns of Arrow's, out and in
    engine      the order of work

An `Engine` is the whole of it; connections, queues and route caches are made by it. Beside each
module stands its `.pyi`, for type checkers and for who only wants to call it, and its `.pxd`, for
the other modules of the engine. Rare things, for which speed means nothing, are plain Python here
too.

Must not know what a declare or a login means: that is `broker/`, which is called for everything
rare. Must not know sockets, files, clocks or chance: that is `server/`, which gives bytes and the
time and takes bytes. Invariant: all of it is used by one thread.
"""

# Its modules need each other; beginning with this one, each is whole when it is needed.
import leporid.engine.engine  # noqa: F401
