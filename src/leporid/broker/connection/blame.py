"""Which method a fault names in channel.close or connection.close.

Responsible for that one sentence of the protocol (AMQP 0-9-1 §1.4.2.7 class-id). Must not know
where faults come from. Invariant: a fault that names a method already keeps it.
"""

from __future__ import annotations

from leporid.amqp.errors import Fault
from leporid.amqp.methods import Method


def blame(fault: Fault, method: type[Method]) -> Fault:
    """Name the method at fault, unless the fault names one itself."""
    if not fault.class_id:
        fault.class_id, fault.method_id = method.CLASS_ID, method.METHOD_ID
    return fault
