"""Reserved names, and how names are written."""

from __future__ import annotations

import pytest

from leporid.amqp.errors import AccessRefused
from leporid.broker.names import check_new_name, exchange_in, queue_in, without_line_breaks


def test_only_the_broker_gives_amq_names():
    check_new_name("queue", "amq")
    check_new_name("queue", "mine.amq.x")
    with pytest.raises(AccessRefused) as raised:
        check_new_name("exchange", "amq.x")
    assert raised.value.text == (
        "ACCESS_REFUSED - exchange name 'amq.x' contains reserved prefix 'amq.*'"
    )


def test_line_breaks():
    assert without_line_breaks("\r\na\nb\r") == "ab"
    assert without_line_breaks("a\tb") == "a\tb"


def test_titles():
    assert queue_in("/", "q") == "queue 'q' in vhost '/'"
    assert exchange_in("v", "") == "exchange '' in vhost 'v'"
