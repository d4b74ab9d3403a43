"""`leporid delays` against a broker; the ladder is tested in test_delays.py of the folder above."""

import pika
import pytest


@pytest.fixture
def exchange(leporid, name, channel):
    made = name("delayed")
    arguments = {"x-delayed-type": "topic"}
    channel.exchange_declare(made, "x-delayed-message", durable=True, arguments=arguments)
    channel.confirm_delivery()
    for number in range(4):
        properties = pika.BasicProperties(
            headers={"x-delay": 3_600_000 + number * 1000, "n": number}, message_id=f"m{number}"
        )
        channel.basic_publish(made, f"key.{number}", b"later", properties)
    yield made
    channel.exchange_delete(made)


def test_looking(leporid, exchange):
    (row,) = [row for row in leporid.rows("delays", "list") if row["exchange"] == exchange]
    counts = {"waiting": "4", "fired": "0", "cancelled": "0", "unroutable": "0"}
    assert row == {"vhost": "/", "exchange": exchange, **counts}
    leporid("vhosts", "add", f"{exchange}-vhost")
    nothing = leporid("delays", "list", "-p", f"{exchange}-vhost")
    assert nothing.split() == list(row)
    leporid("vhosts", "delete", f"{exchange}-vhost", "--yes")
    rows = leporid.rows("delays", "list", exchange, "-c", "3")
    assert [one["routing_key"] for one in rows] == ["key.0", "key.1", "key.2"]
    assert len(leporid.rows("delays", "list", exchange, "--filter", "n > 1")) == 2
    shown = leporid.json("delays", "show", exchange, rows[0]["id"])
    assert shown["body"] == "later"
    leporid("delays", "show", exchange, "none", code=3)
    of = f"of exchange '{exchange}' in '/'; it may have come due"
    assert leporid.error == f"leporid: there is no delayed message 'none' {of}\n"
    for words in (["list"], ["delete", "--all", "--yes"]):
        leporid("delays", words[0], "nowhere", *words[1:], code=3)
        assert leporid.error == "leporid: there is no exchange 'nowhere' in '/'\n"


def test_cancelling(leporid, exchange):
    first, *_ = leporid.rows("delays", "list", exchange)
    leporid("delays", "delete", exchange, code=2)
    leporid("delays", "delete", exchange, first["id"], "--all", "--yes", code=2)
    leporid("delays", "delete", exchange, first["id"], "--yes")
    said = leporid("delays", "delete", exchange, "--filter", "n > 2", "--dry-run")
    assert said.startswith("would cancel 1 delayed message of exchange")
    leporid("delays", "delete", exchange, "--filter", "n > 2", "--yes")
    assert len(leporid.rows("delays", "list", exchange)) == 2
    assert leporid("delays", "delete", exchange, "--all", "-y").startswith("2 delayed messages")


def test_a_filter_that_is_none(leporid, exchange):
    leporid("delays", "list", exchange, "--filter", "n >", code=1)
    assert leporid.error.count("\n") == 1
