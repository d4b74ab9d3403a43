"""`leporid publish`."""

import pytest


@pytest.fixture
def queue(leporid, name):
    made = name()
    leporid("queues", "add", made)
    return made


def bodies(channel, queue: str) -> list[bytes]:
    found = []
    while (body := channel.basic_get(queue, auto_ack=True)[2]) is not None:
        found.append(body)
    return found


def test_lines_of_standard_input(leporid, queue, channel):
    said = leporid("publish", "", queue, stdin=b"one\ntwo\r\n\nthree")
    assert said == "4 messages published\n"
    assert bodies(channel, queue) == [b"one", b"two", b"", b"three"]


def test_files_and_options(leporid, queue, channel, tmp_path):
    file = tmp_path / "body"
    file.write_bytes(b"\x00\xff\n\n")
    leporid("publish", "", queue, "-f", str(file))
    leporid("publish", "", queue, "-f", str(file), "--lines")
    leporid("publish", "", queue, "--whole", stdin=b"a\nb\n")
    assert bodies(channel, queue) == [b"\x00\xff\n\n", b"\x00\xff", b"", b"a\nb\n"]
    leporid(
        "publish", "amq.default", queue, "-m", "hi", "--header", "n=1", "--header", "t=x",
        "--property", "priority=5", "--property", "message_id=7", "--transient",
    )  # fmt: skip
    _, properties, body = channel.basic_get(queue, auto_ack=True)
    assert (body, properties.headers) == (b"hi", {"n": 1, "t": "x"})
    assert (properties.priority, properties.message_id) == (5, "7")
    assert properties.delivery_mode is None
    leporid("publish", "", queue, "-m", "kept", "-q")
    assert channel.basic_get(queue, auto_ack=True)[1].delivery_mode == 2


def test_what_goes_nowhere_is_told(leporid, name):
    said = leporid("publish", "amq.direct", name("none"), "-m", "x", code=1)
    assert said == "1 message published, of which 1 went nowhere: no binding leads on\n"
    assert leporid.json("publish", "amq.direct", "none", "-m", "x", code=1) == {
        "published": 1,
        "unroutable": 1,
    }
    none = name("none")
    leporid("publish", none, "-m", "x", code=3)
    assert leporid.error == (
        f"leporid: there is no exchange '{none}' in '/'; to send to a queue of that name: "
        f"leporid publish amq.default '{none}'\n"
    )


def test_wrong_use(leporid, tmp_path):
    leporid("publish", "", "q", "-m", "x", "-f", "y", code=2)
    leporid("publish", "", "q", "-m", "x", "--property", "priority=high", code=2)
    leporid("publish", "", "q", "-m", "x", "--property", "mesage_id=1", code=2)
    assert "there is no property 'mesage_id'; did you mean 'message_id'?" in leporid.error
    leporid("publish", "", "q", "-m", "x", "--property", "headers=1", code=2)
    assert "there is no property 'headers'; headers are given by --header" in leporid.error
    leporid("publish", "", "q", "-f", str(tmp_path / "none"), code=1)
    assert "cannot be read" in leporid.error
