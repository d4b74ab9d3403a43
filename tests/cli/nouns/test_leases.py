"""`leporid leases` against a broker."""

import httpx
import pytest


@pytest.fixture
def lease(leporid, name, channel, shared_broker):
    """A queue with two messages that are leased."""
    queue = name()
    leporid("queues", "add", queue)
    leporid("publish", "", queue, stdin=b"a\nb\n")
    url = f"http://127.0.0.1:{shared_broker.http_port}/api/queues/%2F/{queue}/leases"
    answer = httpx.post(url, params={"answer": "json"}, auth=("guest", "guest"), trust_env=False)
    return queue, answer.json()["lease"]


def test_released_messages_are_back(leporid, lease, channel):
    queue, number = lease
    assert channel.basic_get(queue)[0] is None
    leporid("leases", "release", queue, number, "--dry-run")
    leporid("leases", "release", queue, number)
    assert channel.basic_get(queue)[2] == b"a"
    for more in ([], ["--dry-run"]):
        leporid("leases", "release", queue, "none", *more, code=3)
        assert leporid.error.startswith(f"leporid: there is no lease 'none' of queue '{queue}'")


def test_acknowledged_messages_are_gone(leporid, lease, channel):
    queue, number = lease
    leporid("leases", "delete", queue, number, code=2)
    said = leporid("leases", "delete", queue, number, "--dry-run")
    assert said.startswith(f"would acknowledge the messages of lease '{number}' of queue")
    leporid("leases", "delete", queue, number, "--yes")
    leporid("leases", "delete", queue, number, "--dry-run", code=3)
    assert channel.queue_declare(queue, passive=True).method.message_count == 0


def test_listing(leporid, lease):
    queue, number = lease
    if leporid.run("leases", "list") == 1:
        assert "has no list of leases: it is older, or RabbitMQ" in leporid.error
        return
    (row,) = [row for row in leporid.rows("leases", "list") if row["queue"] == queue]
    assert (row["lease"], row["messages"], row["user"]) == (number, "2", "guest")
