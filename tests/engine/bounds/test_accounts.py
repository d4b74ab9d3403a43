"""How much somebody may make the broker keep."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.engine.bounds.accounts import Account


@pytest.fixture
def total() -> Account:
    return Account("the broker", 100)


def test_what_is_charged_counts_all_the_way_up(total: Account) -> None:
    user = Account("user 'u'", 50, total)
    connection = Account("the connection", 20, user)
    assert connection.charge(15) is None
    assert (connection.bytes, user.bytes, total.bytes) == (15, 15, 15)
    connection.release(5)
    assert (connection.bytes, user.bytes, total.bytes) == (10, 10, 10)


def test_a_refused_charge_changes_nothing_and_says_which_limit(total: Account) -> None:
    user = Account("user 'u'", 50, total)
    connections = [Account("the connection", 30, user) for _ in range(2)]
    assert connections[0].charge(31) is connections[0]
    assert connections[0].charge(30) is None
    assert connections[1].charge(21) is user
    assert user.text(21) == "user 'u' keeps 30 bytes, and may keep 50; 21 more"
    assert (connections[1].bytes, user.bytes, total.bytes) == (0, 30, 30)
    assert connections[0].charge(2**64 - 1) is connections[0]


def test_a_full_broker_keeps_nothing_more(total: Account) -> None:
    connection = Account("the connection", 30, total)
    total.full = True
    assert connection.charge(1) is total
    assert "memory_watermark" in total.text(1)
    assert connection.over(1) is None
    connection.add(1)
    assert total.bytes == 1


def test_a_connection_that_logs_in_counts_for_its_user(total: Account) -> None:
    user = Account("user 'u'", 50, total)
    connection = Account("the connection", 30, total)
    connection.add(10)
    connection.move(user)
    assert (user.bytes, total.bytes) == (10, 10)
    connection.close()
    assert (connection.bytes, user.bytes, total.bytes) == (0, 0, 0)


def test_what_was_not_charged_cannot_be_released(total: Account) -> None:
    with pytest.raises(ValueError, match="keeps 0 bytes"):
        total.release(1)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-40, 40)), max_size=60))
def test_accounts_add_up(steps: list[tuple[int, int]]) -> None:
    total = Account("the broker", 90)
    parts = [Account(str(at), 40, total) for at in range(3)]
    kept = [0, 0, 0]
    for at, size in steps:
        if size < 0:
            size = min(-size, kept[at])
            parts[at].release(size)
            kept[at] -= size
        elif parts[at].charge(size) is None:
            kept[at] += size
        else:
            assert kept[at] + size > 40 or sum(kept) + size > 90
        assert [part.bytes for part in parts] == kept
        assert total.bytes == sum(kept) <= 90
