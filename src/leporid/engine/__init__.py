"""The data plane: what happens to every message, from socket buffer to socket buffer, in Cython.

Folders, lowest first; each imports only those above it in this list:

    wire        the bytes of frames, properties and records
    bounds      slices of time, jobs that take many turns, accounts of memory
    log         segments of records, facts about entries, replay and cleaning
    selectors   filters and selectors, compiled
    queue       entries and limits, expiry, dead-lettering, browsing, leases
    stream      logs of their own, read by offset
    routing     routes, route caches, topic patterns
    publishing  storing a routed message in its log and queues
    selecting   consumers with filters, and messages that wait for a filter class
    internal    hidden queues: delayed messages, backlogs, bindings with a filter class
    connection  connections, channels, consumers
    tables      Arrow columns, out and in
    engine      the order of work

An `Engine` holds all of it and makes connections, queues and route caches. Each module has a `.pyi`
for type checkers and for readers who only want to call it, and a `.pxd` for the other modules of
the engine. What is rare, so that its speed does not matter, is plain Python here too.

Must not know what a declare or a login means: that is `broker/`, which is called for everything
rare. Must not know sockets, files, clocks or random numbers: that is `server/`, which passes bytes
and the time in and takes bytes out. Invariant: one thread uses all of it.
"""

# The modules import each other; starting from this one, each is complete when it is needed.
import leporid.engine.engine  # noqa: F401
