"""The data plane: what happens to every message, from socket buffer to socket buffer, in Cython.

    plane      what connections, queues and logs share, and their turns
    peers      connections and channels
    routing    where a message goes
    filtering  filters, as they are run here
    queues     queues, and what waits in those that nobody sees
    streams    logs of their own, read by offset
    log        records, and state rebuilt from them
    tables     columns of Arrow's
    encoding   the bytes of frames, properties and records

A `Plane` is the whole of it; connections, queues and sources are made by it. Beside each module
stands its `.pyi`, for type checkers and for who only wants to call it, and its `.pxd`, for the
other modules of the engine. Rare things, for which speed means nothing, are plain Python here too.

Must not know what a declare or a login means: that is `broker/`, which is called for everything
rare. Must not know sockets, files, clocks or chance: that is `server/`, which gives bytes and the
time and takes bytes. Invariant: all of it is used by one thread.
"""

# Its modules need each other; beginning with this one, each is whole when it is needed.
import leporid.engine.plane  # noqa: F401
