"""`leporid deadletters` against a broker."""

import pika
import pytest


@pytest.fixture
def died(leporid, name, channel):
    """A queue with four dead letters: two rejected, two expired; and the queue they died in."""
    dead, origin = name("dead"), name("origin")
    leporid("queues", "add", dead)
    arguments = ["-a", "x-dead-letter-exchange=", "-a", f"x-dead-letter-routing-key={dead}"]
    leporid("queues", "add", origin, *arguments)
    for number in range(4):
        body = str(number).encode()
        leporid("publish", "", origin, "-m", body.decode(), "--header", f"n={number}")
        method, _, _ = channel.basic_get(origin)
        channel.basic_reject(method.delivery_tag, requeue=False)
    # Each reject is done when the next answer of the same channel comes.
    assert channel.queue_declare(dead, passive=True).method.message_count == 4
    return dead, origin


def bodies(channel, queue: str) -> list[bytes]:
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(got[2])
    return found


def test_they_go_back_to_where_they_died_as_they_were(leporid, died, channel):
    dead, origin = died
    leporid("deadletters", "requeue", dead, code=2)
    said = leporid("deadletters", "requeue", dead, "--yes", "-c", "3")
    assert said == "3 dead letters sent back\n"
    _, properties, body = channel.basic_get(origin, auto_ack=True)
    assert (body, properties.headers["n"]) == (b"0", 0)
    assert properties.headers["x-first-death-queue"] == origin
    assert properties.delivery_mode == 2
    assert bodies(channel, origin) == [b"1", b"2"]
    assert bodies(channel, dead) == [b"3"]


def test_those_of_another_reason_and_those_without_a_queue_stay(leporid, died, channel):
    dead, origin = died
    assert leporid("deadletters", "requeue", dead, "-y", "--reason", "expired").startswith(
        "0 dead letters sent back, 4 stay"
    )
    leporid("queues", "delete", origin, "--yes")
    said = leporid("deadletters", "requeue", dead, "--yes", code=1)
    assert said == "0 dead letters sent back, 4 stay: no queue is there\n"
    assert bodies(channel, dead) == [b"0", b"1", b"2", b"3"], "in their places"


def test_elsewhere(leporid, died, channel, name):
    dead, _ = died
    other = name()
    leporid("queues", "add", other)
    leporid("deadletters", "requeue", dead, "--key", "k", "--yes", code=2)
    leporid("deadletters", "requeue", dead, "--exchange", "", "--key", other, "--yes")
    assert len(bodies(channel, other)) == 4
    leporid("deadletters", "requeue", name("none"), "--yes", code=3)


def test_counting_and_looking(leporid, died):
    dead, origin = died
    if leporid.run("deadletters", "list") == 1:
        assert "has no counts of dead letters: it is older, or RabbitMQ" in leporid.error
    else:
        (row,) = [row for row in leporid.rows("deadletters", "list") if row["queue"] == origin]
        assert (row["reason"], row["messages"]) == ("rejected", "4")
    if leporid.run("deadletters", "look", dead) == 1:
        assert "has no messages to browse over HTTP" in leporid.error
    else:
        rows = leporid.rows("deadletters", "look", dead, "-c", "2")
        assert [row["payload"] for row in rows] == ["0", "1"]
        assert (rows[0]["died_in"], rows[0]["reason"], rows[0]["times"]) == (
            origin, "rejected", "1",
        )  # fmt: skip
        assert leporid.rows("deadletters", "look", dead, "--reason", "expired") == []


@pytest.fixture
def copied(leporid, name, channel):
    """A dead letter that was published with a copy: where it is, where it died, the other queue."""
    dead, origin, other = name("dead"), name("origin"), name("other")
    for queue in (dead, other):
        leporid("queues", "add", queue)
    leporid("queues", "add", origin, "-a", "x-dead-letter-exchange=amq.fanout")
    channel.queue_bind(dead, "amq.fanout")
    properties = pika.BasicProperties(headers={"CC": [other], "n": 1})
    channel.basic_publish("", origin, b"one", properties)
    method, _, _ = channel.basic_get(origin)
    channel.basic_reject(method.delivery_tag, requeue=False)
    assert bodies(channel, other) == [b"one"]
    return dead, origin, other


def test_a_letter_that_goes_back_is_copied_to_no_other_queue(leporid, copied, channel):
    dead, origin, other = copied
    leporid("deadletters", "requeue", dead, "--yes")
    _, properties, body = channel.basic_get(origin, auto_ack=True)
    assert (body, properties.headers["n"], "CC" in properties.headers) == (b"one", 1, False)
    assert bodies(channel, other) == [], "it had its copy when it was published"


def test_a_letter_stays_if_only_a_queue_of_its_copies_is_left(leporid, copied, channel):
    dead, origin, other = copied
    leporid("queues", "delete", origin, "--yes")
    leporid("deadletters", "requeue", dead, "--yes", code=1)
    assert (bodies(channel, dead), bodies(channel, other)) == ([b"one"], [])


def test_with_its_own_keys_a_letter_has_its_copies(leporid, copied, channel):
    dead, origin, other = copied
    leporid("deadletters", "requeue", dead, "--exchange", "", "--yes")
    assert (bodies(channel, origin), bodies(channel, other)) == ([b"one"], [b"one"])


def test_letters_of_another_user_stay_and_the_others_go_on(
    leporid, name, channel, shared_broker, monkeypatch
):
    """A user_id that is not ours: only its user may publish it."""
    dead, origin, user = name("dead"), name("origin"), name("ann")
    leporid("users", "add", user, "--new-password", "secret", "--tags", "impersonator")
    leporid("permissions", "set", user, ".*", ".*", ".*", "-p", "/")
    leporid("queues", "add", dead)
    arguments = ["-a", "x-dead-letter-exchange=", "-a", f"x-dead-letter-routing-key={dead}"]
    leporid("queues", "add", origin, *arguments)
    login = pika.PlainCredentials(user, "secret")
    where = pika.ConnectionParameters("127.0.0.1", shared_broker.amqp_port, credentials=login)
    with pika.BlockingConnection(where) as connection:
        hers = connection.channel()
        for number in range(6):
            claimed = user if number % 2 else None
            properties = pika.BasicProperties(user_id=claimed, delivery_mode=2)
            hers.basic_publish("", origin, str(number).encode(), properties)
        for _ in range(6):
            hers.basic_reject(hers.basic_get(origin)[0].delivery_tag, requeue=False)
        assert hers.queue_declare(dead, passive=True).method.message_count == 6
    assert leporid("deadletters", "requeue", dead, "--yes", code=1) == "3 dead letters sent back\n"
    assert f"3 stay: their user_id is '{user}'" in leporid.error
    assert bodies(channel, origin) == [b"0", b"2", b"4"]
    assert bodies(channel, dead) == [b"1", b"3", b"5"], "in their order"
    leporid("users", "delete", user, "--yes")
