"""`leporid exchanges` and `leporid bindings` against a broker."""


def test_what_is_added_is_listed_shown_and_deleted(leporid, name):
    exchange = name("x")
    assert "added" in leporid("exchanges", "add", exchange, "--type", "topic", "-a", "a=1")
    shown = leporid.json("exchanges", "show", exchange)
    assert (shown["type"], shown["arguments"]) == ("topic", {"a": 1})
    (row,) = leporid.rows("exchanges", "list", "--name", exchange)
    assert (row["name"], row["durable"], row["arguments"]) == (exchange, "yes", "a=1")
    leporid("exchanges", "delete", exchange, code=2)
    leporid("exchanges", "delete", exchange, "--yes")
    leporid("exchanges", "delete", exchange, "--yes", code=3)
    assert leporid.json("exchanges", "show", "")["type"] == "direct"


def test_an_unknown_type_is_refused(leporid, name):
    leporid("exchanges", "add", name("x"), "--type", "sideways", code=1)
    assert "invalid exchange type 'sideways'; there are direct, fanout, topic," in leporid.error
    assert leporid.error.count("\n") == 1


def test_bindings(leporid, name, channel):
    queue = name()
    leporid("queues", "add", queue)
    for key in ("a", "b"):
        leporid("bindings", "add", "amq.direct", queue, "-k", key)
    leporid("bindings", "add", "amq.direct", queue, "-k", "a", "--filter", "n > 1")
    keys = [
        (row["routing_key"], row["arguments"])
        for row in leporid.rows("bindings", "list")
        if row["destination"] == queue and row["source"]
    ]
    assert sorted(keys) == [("a", ""), ("a", "x-filter-sql=n > 1"), ("b", "")]
    delete = ["bindings", "delete", "amq.direct", queue, "--yes", "-k"]
    leporid(*delete, "a", code=2)
    assert "2 such bindings differ in arguments" in leporid.error
    leporid(*delete, "a", "-a", "x-filter-sql=n > 1")
    leporid(*delete, "a")
    leporid(*delete, "a", code=3)
    leporid("bindings", "delete", "amq.direct", queue, "-k", "b", "--dry-run")
    channel.basic_publish("amq.direct", "b", b"routed")
    assert channel.basic_get(queue)[2] == b"routed"


def test_exchanges_are_bound_too(leporid, name, channel):
    exchange, queue = name("x"), name()
    leporid("exchanges", "add", exchange, "--type", "fanout")
    leporid("queues", "add", queue)
    leporid("bindings", "add", exchange, queue)
    leporid("bindings", "add", "amq.topic", exchange, "-k", f"{exchange}.#", "--to-exchange")
    channel.basic_publish("amq.topic", f"{exchange}.a", b"through")
    assert channel.basic_get(queue)[2] == b"through"
    leporid(
        "bindings", "delete", "amq.topic", exchange, "-k", f"{exchange}.#", "--to-exchange", "-y"
    )


def test_a_binding_to_what_is_not_there(leporid, name):
    none = name("none")
    leporid("bindings", "add", "amq.direct", none, code=3)
    said = f"leporid: there is no exchange 'amq.direct' or no queue '{none}' in '/'\n"
    assert leporid.error == said
