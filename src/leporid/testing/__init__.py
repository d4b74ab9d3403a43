"""What tests need and users may use as well: a real broker in a process of its own.

`BrokerProcess` starts `leporid serve`, kills it, and starts it again on the same data directory.
"""

from leporid.testing.process import BrokerError, BrokerProcess, reserve_port

__all__ = ["BrokerError", "BrokerProcess", "reserve_port"]
