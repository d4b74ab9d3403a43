"""What tests need and users may use as well: the broker, inside the process or in one of its own.

`broker()` starts one in memory, within a millisecond. `BrokerProcess` starts `leporid serve`, kills
it, and starts it again on the same data directory. The former is loaded when it is asked for, since
what drives another build must import nothing of this one.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from leporid.testing.process import BrokerError, BrokerProcess, reserve_port

if TYPE_CHECKING:
    from leporid.testing.memory_broker import BlockingMemoryBroker, MemoryBroker, broker

_IN_MEMORY = ("BlockingMemoryBroker", "MemoryBroker", "broker")

__all__ = [
    "BlockingMemoryBroker",
    "BrokerError",
    "BrokerProcess",
    "MemoryBroker",
    "broker",
    "reserve_port",
]


def __getattr__(name: str) -> object:
    if name not in _IN_MEMORY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("leporid.testing.memory_broker"), name)
