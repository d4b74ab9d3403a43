"""Events are values."""

from leporid.client import events
from leporid.client.settings import Address


def test_events_tell_themselves():
    event = events.Reconnecting(Address("mq", 5672), 3, 0.5)
    assert event == events.Reconnecting(Address("mq", 5672), 3, 0.5)
    assert "mq" in repr(event)
    assert isinstance(event, events.Event)


def test_every_event_is_one():
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type)]
    assert all(issubclass(kind, events.Event) for kind in kinds if kind is not Address)
    assert len(kinds) > 10
