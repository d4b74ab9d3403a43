"""`leporid queues` against a broker."""

import pytest


def test_what_is_added_is_listed_shown_and_deleted(leporid, name):
    queue = name()
    assert "added" in leporid("queues", "add", queue, "-a", "x-max-length=5", "--type", "quorum")
    assert "was there already" in leporid(
        "queues", "add", queue, "-a", "x-max-length=5", "--type", "quorum"
    )
    shown = leporid.json("queues", "show", queue)
    assert shown["arguments"] == {"x-max-length": 5, "x-queue-type": "quorum"}
    (row,) = leporid.rows("queues", "list", "--name", queue)
    assert (row["name"], row["type"], row["messages_ready"]) == (queue, "quorum", "0")
    assert leporid("queues", "list", "--quiet", "--name", queue) == f"{queue}\n"
    assert "deleted" in leporid("queues", "delete", queue, "--yes")
    leporid("queues", "show", queue, code=3)
    assert leporid.error == f"leporid: there is no queue '{queue}' in '/'\n"


def test_a_queue_that_differs_is_refused_in_one_line(leporid, name):
    queue = name()
    leporid("queues", "add", queue, "--transient")
    leporid("queues", "add", queue, code=1)
    assert "inequivalent arg 'durable'" in leporid.error
    assert leporid.error.count("\n") == 1


def test_an_argument_that_is_misspelt_is_told(leporid, name):
    queue = name()
    assert "added" in leporid("queues", "add", queue, "-a", "x-max-lenght=5", "-a", "mine=1")
    assert leporid.error == (
        "leporid: argument 'x-max-lenght' has no effect: did you mean x-max-length?\n"
    )
    leporid("queues", "add", name(), "-a", "x-max-length=5")
    assert leporid.error == ""
    exchange, stream = name("x"), name("s")
    leporid("exchanges", "add", exchange, "-a", "alternate-exchang=a")
    assert "did you mean alternate-exchange?" in leporid.error
    leporid("streams", "add", stream, "-a", "x-max-aeg=7D")
    assert "did you mean x-max-age?" in leporid.error


def test_nothing_is_destroyed_unasked(leporid, name, channel):
    queue = name()
    channel.queue_declare(queue, durable=True)
    channel.basic_publish("", queue, b"one")
    for verb in ("delete", "purge"):
        leporid("queues", verb, queue, code=2)
        assert "--yes" in leporid.error
        said = leporid("queues", verb, queue, "--dry-run")
        assert said.startswith(f"would {verb} queue '{queue}'")
    assert channel.queue_declare(queue, passive=True).method.message_count == 1
    leporid("queues", "purge", queue, "-y")
    assert channel.queue_declare(queue, passive=True).method.message_count == 0
    leporid("queues", "add", name("never"), "--dry-run")
    assert "never" not in leporid("queues", "list", "--quiet")


def test_conditions_of_a_deletion(leporid, name, channel):
    queue = name()
    channel.queue_declare(queue, durable=True)
    channel.basic_publish("", queue, b"one")
    leporid("queues", "delete", queue, "--yes", "--if-empty", code=1)
    channel.queue_purge(queue)
    leporid("queues", "delete", queue, "--yes", "--if-empty")


def test_columns_and_order_are_the_brokers(leporid, name, channel):
    few, many = name("order"), name("order")
    for queue, count in ((few, 1), (many, 3)):
        channel.queue_declare(queue, durable=True)
        for _ in range(count):
            channel.basic_publish("", queue, b"")
    arguments = ["queues", "list", "--name", "order-", "--columns", "name,messages"]
    rows = leporid.rows(*arguments, "--sort", "messages", "--reverse")
    assert [(row["name"], row["messages"]) for row in rows] == [(many, "3"), (few, "1")]
    found = leporid.json(*arguments, "--sort", "messages")
    assert found == [{"name": few, "messages": 1}, {"name": many, "messages": 3}]


def test_more_than_a_page(leporid, channel, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("leporid.client.management.PAGE_SIZE", 3)
    leporid("vhosts", "add", "paged")
    for number in range(10):
        leporid("queues", "add", f"q{number}", "-p", "paged")
    listed = leporid("queues", "list", "-p", "paged", "-q").split()
    assert listed == [f"q{number}" for number in range(10)]
    leporid("vhosts", "delete", "paged", "--yes")


def test_pausing(leporid, name, channel):
    queue = name()
    leporid("queues", "add", queue)
    leporid("queues", "pause", name("none"), code=3)
    if leporid.run("queues", "pause", queue) == 1:
        assert "has no queues that pause: it is older, or RabbitMQ" in leporid.error
        return
    channel.basic_publish("", queue, b"one")
    assert channel.basic_get(queue)[0] is None
    assert leporid.json("queues", "show", queue)["state"] == "paused"
    leporid("queues", "resume", queue)
    assert channel.basic_get(queue)[2] == b"one"


def test_moving(leporid, name, channel):
    queue, other, none = name(), name(), name("none")
    leporid("queues", "add", queue)
    leporid("queues", "add", other)
    for number in range(4):
        channel.basic_publish("", queue, b"%d" % number)
    said = leporid("queues", "move", queue, other, "--dry-run")
    assert said == (
        f"would move 4 messages of queue '{queue}' in '/'\n"
        f"  4 messages to exchange 'amq.default' with key '{other}'\n"
    )
    moved = leporid("queues", "move", queue, other, "--limit", "1")
    assert moved == f"1 message of queue '{queue}' in '/' moved\n"
    assert channel.basic_get(other, auto_ack=True)[2] == b"0"
    found = leporid.json("queues", "move", queue, "--exchange", "amq.direct", "--key", none, code=1)
    assert (found["moved"], found["stayed"]) == (0, {"no_queue": 3})
    assert leporid("queues", "move", queue, other, "--only-key", "x").startswith("0 messages")
    assert leporid("queues", "move", queue, other).startswith("3 messages")
    assert channel.queue_declare(other, passive=True).method.message_count == 3
    leporid("queues", "move", other, "--origin", "queue", code=1)
    assert leporid.error == "leporid: messages that stay: 3 never_died\n"
    leporid("queues", "move", none, other, code=3)
    for wrong in ((), (other, "--exchange", "x"), (other, "--key", "k"), (other, "--limit", "0")):
        leporid("queues", "move", queue, *wrong, code=2)


def test_arguments_that_are_none(leporid):
    leporid("queues", "add", "q", "-a", "x-max-length", code=2)
    assert leporid.error == "leporid: 'x-max-length' is not KEY=VALUE\n"
    leporid("queues", "add", "q", "-a", "a=1", "-a", "a=2", code=2)


def test_a_name_cannot_move_the_cursor(leporid):
    leporid("queues", "add", "evil\x1b[2J")
    assert "\x1b" not in leporid("queues", "list", "--name", "evil")
    assert "evil\\x1b[2J" in leporid("queues", "list", "--quiet")
    leporid("queues", "delete", "evil\x1b[2J", "--yes")
