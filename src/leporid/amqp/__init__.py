"""AMQP 0-9-1 as data: constants, faults, field tables, methods, properties and frames.

Serves both roles, broker and client. Must not know of sockets, connections or queues, and keeps
no state. Invariant: whatever bytes are decoded, the only exception that comes out is a `Fault`,
and memory is taken only for bytes that have arrived, never for sizes that were announced.
"""
