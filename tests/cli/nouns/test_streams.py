"""`leporid streams`, `readers` and `groups` against a broker."""

import pytest


@pytest.fixture
def stream(leporid, name, channel):
    made = name("s")
    assert leporid("streams", "add", made, "-a", "x-max-age=7D").endswith(" added\n")
    again = leporid("streams", "add", made, "-a", "x-max-age=7D")
    assert again.endswith(" was there already, like this\n")
    channel.confirm_delivery()
    for number in range(5):
        channel.basic_publish("", made, str(number).encode())
    return made


def read(channel, stream: str, count: int, **arguments) -> None:
    """Read so many messages of a stream, and acknowledge them."""
    channel.basic_qos(prefetch_count=10)
    for method, _, _ in channel.consume(stream, arguments=arguments):
        channel.basic_ack(method.delivery_tag)
        if method.delivery_tag == count:
            break
    channel.cancel()


def test_streams(leporid, stream):
    (row,) = leporid.rows("streams", "list", "--name", stream)
    assert (row["messages"], row["first"], row["end"]) == ("5", "0", "5")
    assert leporid.json("streams", "show", stream)["partitions"][0]["end"] == 5
    assert f"{stream}\n" in leporid("streams", "list", "-q")
    leporid("streams", "delete", stream, "--yes")
    leporid("streams", "show", stream, code=3)
    assert leporid.error == f"leporid: there is no stream '{stream}' in '/'\n"


def test_partitions(leporid, name, channel):
    stream = name("s")
    leporid("streams", "add", stream, "--partitions", "3")
    assert len(leporid.json("streams", "show", stream)["partitions"]) == 3
    (row,) = leporid.rows("streams", "list", "--name", stream)
    assert (row["name"], row["partitions"]) == (stream, "3")
    channel.confirm_delivery()
    channel.basic_publish("", f"{stream}-1", b"x")
    leporid("readers", "set", stream, "guest.p", "next", "--partition", "1")
    for asked in ([], [stream]):
        rows = [row for row in leporid.rows("readers", "list", *asked) if row["stream"] == stream]
        assert [(row["partition"], row["reader"]) for row in rows] == [("1", "guest.p")]
    leporid("streams", "delete", stream, "--yes")


def test_readers(leporid, stream, channel):
    read(channel, stream, 2, **{"x-reader": "guest.r", "x-stream-offset": "first"})
    (row,) = leporid.rows("readers", "list", stream)
    assert (row["reader"], row["next_offset"], row["lag"]) == ("guest.r", "2", "3")
    for offset, lag in (("first", None), ("3", "2"), ("next", "0"), ("last", "1")):
        code = 2 if lag is None else 0
        leporid("readers", "set", stream, "guest.r", offset, code=code)
        if lag is not None:
            assert leporid.rows("readers", "list", stream)[0]["lag"] == lag
    leporid("readers", "set", stream, "guest.r", "soon", code=2)
    leporid("readers", "set", stream, "guest.r", "1", "--partition", "1", code=2)
    (row,) = [row for row in leporid.rows("readers", "list") if row["stream"] == stream]
    assert (row["reader"], row["lag"]) == ("guest.r", "1")
    assert leporid.rows("readers", "list", "-p", "/")
    leporid("readers", "delete", stream, "guest.r", "--yes")
    leporid("readers", "delete", stream, "guest.r", "--yes", code=3)
    leporid("readers", "delete", stream, "guest.r", "--dry-run", code=3)
    assert leporid.error.startswith("leporid: there is no reader 'guest.r' of stream ")
    assert leporid.rows("readers", "list", stream) == []


def test_groups(leporid, stream, channel):
    channel.basic_qos(prefetch_count=10)
    channel.basic_consume(stream, lambda *_: None, arguments={"x-group": "guest.g"})
    (row,) = leporid.rows("groups", "list", stream)
    assert (row["group"], row["members"], row["partitions"]) == ("guest.g", "1", "1")
    assert leporid.json("groups", "show", stream, "guest.g")["members"][0]["user"] == "guest"
    assert row in leporid.rows("groups", "list")
    leporid("groups", "delete", stream, "guest.g", "--yes", code=1)
    assert leporid.error.count("\n") == 1
    channel.close()
    leporid("groups", "delete", stream, "guest.g", "--yes")
    leporid("groups", "show", stream, "guest.g", code=3)
