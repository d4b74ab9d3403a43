"""The parts of the data plane, and the order in which they work."""

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.bounds.jobs cimport Jobs
from leporid.engine.connection.connections cimport Connections
from leporid.engine.log.logs cimport Logs
from leporid.engine.publishing.publishing cimport Publishing
from leporid.engine.queue.queues cimport Queues
from leporid.engine.routing.route_cache cimport CachedRoutes
from leporid.engine.selecting.filtered_consumers cimport Searches
from leporid.engine.selecting.verdicts cimport Verdicts
from leporid.engine.stream.stream cimport Streams

cdef class Engine:
    cdef readonly Clock clock
    cdef readonly Jobs jobs             # work that goes on for many turns
    cdef readonly Logs logs
    cdef readonly Queues queues
    cdef readonly Streams streams
    cdef readonly Verdicts verdicts
    cdef readonly Searches searches
    cdef readonly Publishing publishing
    cdef readonly Connections connections
    cdef readonly CachedRoutes cached_routes
    cdef bint ended                     # the last facts were appended
