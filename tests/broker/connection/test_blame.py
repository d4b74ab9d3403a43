"""Which method a fault names."""

from __future__ import annotations

from leporid.amqp.errors import NotFound
from leporid.amqp.methods import BasicPublish, QueueDeclare
from leporid.broker.connection.blame import blame


def test_the_first_blame_stays():
    fault = blame(NotFound("no"), BasicPublish)
    assert (fault.class_id, fault.method_id) == (60, 40)
    assert blame(fault, QueueDeclare) is fault
    assert (fault.class_id, fault.method_id) == (60, 40)
