"""What was taken back may be settled late: see also test_timeouts and test_credit."""

from __future__ import annotations

import pytest
from tests.engine.connection.test_credit import Several
from tests.engine.frames import ack

FORGIVEN_MAX = 4096


@pytest.mark.parametrize("tag", [1, FORGIVEN_MAX // 2, FORGIVEN_MAX + 5])
def test_of_very_many_all_are_forgiven(tag: int):
    several = Several(FORGIVEN_MAX + 5, FORGIVEN_MAX + 5)
    found = 0
    while bodies := several.came():
        found += len(bodies)
    assert found == FORGIVEN_MAX + 5
    several.channel.cancel(several.readers[0])
    several.channel.drop_unsettled(several.readers[0])
    several.peer.feed(ack(1, tag))
    assert several.peer.session.faults == []


def test_what_never_was_is_not_forgiven():
    several = Several(2, 2)
    several.came()
    several.channel.cancel(several.readers[0])
    several.channel.drop_unsettled(several.readers[0])
    several.peer.feed(ack(1, 3))
    assert len(several.peer.session.faults) == 1
