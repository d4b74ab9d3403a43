"""Leporid: a message broker that speaks AMQP 0-9-1 and keeps what it confirms.

Each folder is one layer, and imports point down only: `cli`, `server`, `broker`, `engine`, `amqp`,
with `storage` beside them, joined to the rest by `server`. docs/design.md says how they work
together. Nothing is imported here, so that each command loads only what it needs.
"""

__version__ = "0.1.0"
