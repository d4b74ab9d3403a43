"""Names that are kept free."""

from __future__ import annotations

import pytest

from leporid.amqp.errors import BeingDeleted
from leporid.broker.reservations import Reservations


def test_a_name_is_reserved_once_until_it_is_let_go():
    reserved = Reservations("/")
    reserved.check("queue", "q")
    reserved.add("queue", "q")
    for call in (reserved.add, reserved.check):
        with pytest.raises(BeingDeleted, match="queue 'q' in vhost '/' is being imported"):
            call("queue", "q")
    reserved.add("exchange", "q")
    reserved.discard("queue", "q")
    reserved.discard("queue", "never")
    reserved.check("queue", "q")
    with pytest.raises(BeingDeleted, match="exchange 'q'"):
        reserved.check("exchange", "q")
