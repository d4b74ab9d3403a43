"""Limits: what a value means, and RabbitMQ's texts."""

from __future__ import annotations

import pytest

from leporid.amqp.errors import Fault, NotAllowed, PreconditionFailed
from leporid.broker.access.limits import (
    check_user_channels,
    check_user_connections,
    check_vhost_connections,
    check_vhost_queues,
)


@pytest.mark.parametrize(
    ("value", "count", "allowed"),
    [(1, 0, True), (1, 1, False), (1, 2, False), (0, 0, False), (-1, 10**6, True), (2, 1, True)],
)
def test_a_limit_is_compared_with_what_is_there(value: int, count: int, allowed: bool):
    for check, name, names in (
        (check_vhost_connections, "max-connections", {"vhost": "v", "user": "u"}),
        (check_user_connections, "max-connections", {"user": "u"}),
        (check_user_channels, "max-channels", {"user": "u"}),
        (check_vhost_queues, "max-queues", {"vhost": "v", "queue": "q"}),
    ):
        limits = {name: value, "another": 0}
        if allowed:
            check(limits, count, **names)
        else:
            with pytest.raises(Fault):
                check(limits, count, **names)
        check({"another": 0}, count, **names)


def test_the_texts_are_rabbitmqs():
    with pytest.raises(NotAllowed) as fault:
        check_vhost_connections({"max-connections": 1}, 1, vhost="v", user="u")
    assert fault.value.text == (
        "NOT_ALLOWED - access to vhost 'v' refused for user 'u': connection limit (1) is reached"
    )
    with pytest.raises(NotAllowed) as fault:
        check_user_connections({"max-connections": 1}, 1, user="u")
    assert fault.value.text == (
        "NOT_ALLOWED - connection refused for user 'u': user connection limit (1) is reached"
    )
    with pytest.raises(NotAllowed) as fault:
        check_user_channels({"max-channels": 1}, 1, user="u")
    assert fault.value.text == (
        "NOT_ALLOWED - number of channels opened for user 'u' has reached the maximum allowed "
        "user limit of (1)"
    )
    with pytest.raises(PreconditionFailed) as queue:
        check_vhost_queues({"max-queues": 1}, 1, vhost="v", queue="q")
    assert queue.value.text == (
        "PRECONDITION_FAILED - cannot declare queue 'q': queue limit in vhost 'v' (1) is reached"
    )
