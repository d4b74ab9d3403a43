"""A session that writes every kind of record; run as a program it writes `session-v1.tar.xz`.

    PYTHON tests/golden/write_session_v1.py

PYTHON is that of the version whose bytes are to be kept. It was run with the last version that
wrote zeros where COMMIT says what its transaction is for (292cff7), and again, as the session had
to change, with the last one that cleaned by numbers of entries (bba62f5), with these zeros put in.

Seed and clock are given, so that the same session always writes the same bytes. It is five lives of
a broker; what each leaves is in a directory of its own.
"""

import io
import shutil
import struct
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.server.written_log import PERSISTENT, WALL_MS, Message, Run  # noqa: E402
from tests.storage.format_v1 import used  # noqa: E402

from leporid.amqp.frames import method_frame  # noqa: E402
from leporid.amqp.methods import BasicAck, BasicReject  # noqa: E402
from leporid.amqp.properties import Properties, encode_properties  # noqa: E402

QUEUES, STREAMS = ("a", "b", "dead"), ("s", "t")
LARGE = b"large " * 1000
EVERYTHING = encode_properties(
    Properties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"text": "grün", "number": -7, "x-tag": "red", "nested": {"list": [1, "2", None]}},
        delivery_mode=2,
        priority=3,
        correlation_id="c-1",
        reply_to="answers",
        expiration="100000000",
        message_id="m-1",
        timestamp=1_700_000_000,
        type="kind",
        user_id="guest",
        app_id="golden",
    )
)


def live(directory: Path, seed: int) -> Run:
    """The beginning of a life."""
    run = Run(directory, QUEUES, streams=STREAMS, seed=seed)
    run.engine.clock.wall_ms = WALL_MS + seed * 1_000_000

    def bury(reason: str, exchange: str, key: str, properties: bytes, body: bytes) -> None:
        run.engine.publish([run.queues["dead"]], exchange, key, properties, reason.encode() + body)

    run.queues["a"].dead_letters = bury
    return run


def produce(run: Run, key: str, sequence: int) -> None:
    """A message of a producer that says who it is."""
    to = {**run.queues, **run.streams}[key]
    run.engine.publish([to], "", key, PERSISTENT, b"produced", b"loader", sequence)


def acked_in_transaction(run: Run, queue: str, count: int) -> None:
    """One transaction that settles messages, and has a message for two queues."""
    for _ in range(count):
        assert run.transactions.get(run.queues[queue], False)
    tag = read_tag(run)
    run.connection.feed(method_frame(2, BasicAck(delivery_tag=tag, multiple=True)))
    run.commit(b"instead", key="a,b")


def read_tag(run: Run) -> int:
    """The delivery tag of the last basic.get-ok that is on its way out."""
    output = run._output()
    at = output.rindex(struct.pack(">HH", 60, 71)) + 4
    return int(struct.unpack_from(">Q", output, at)[0])


def first_life(directory: Path) -> None:
    """Messages of all shapes, transactions and producers."""
    run = live(directory, 1)
    run.publish(b"one", b"", b"three", LARGE, key="a")
    run.publish(b"to both", key="a,b")
    run.publish(b"to all", key="a,b,s,t", properties=EVERYTHING)
    run.publish(b"transient", key="a", properties=b"\0\0")
    run.sync()
    for message in run.messages("a")[1:4]:
        run.ack(message)
    run.sync()
    run.commit(b"committed 1", b"committed 2", key="a,b")
    run.commit(LARGE, key="b,s")
    acked_in_transaction(run, "a", 2)
    run.sync()
    for sequence in range(3):
        produce(run, "b", sequence)
        produce(run, "s", sequence)
        run.sync()
    run.messages("b")
    run.stop()


def second_life(directory: Path) -> None:
    """Most messages of many segments are settled, and what is left of the oldest is copied."""
    run = live(directory, 2)
    for number in range(150):
        run.publish(b"%d " % number * 300, key="b" if number % 4 else "b,t")
        if number % 5 == 0:
            run.sync()
    for number, message in enumerate(run.messages("b")):
        if number % 16:
            run.ack(message)
    run.sync()
    run.stop()


def third_life(directory: Path) -> None:
    """Messages are rejected, and become dead letters."""
    run = live(directory, 3)
    first, second, *_ = run.messages("a")
    reject(run, first)
    run.sync()
    reject(run, second)
    run.sync()
    produce(run, "s", 2)  # a repetition
    produce(run, "s", 3)
    produce(run, "b", 3)
    run.stop()


def reject(run: Run, message: Message) -> None:
    run.connection.feed(method_frame(1, BasicReject(delivery_tag=message.tag, requeue=False)))


def fourth_life(directory: Path) -> None:
    """It ends without a word."""
    run = live(directory, 4)
    run.publish(b"after the stop", key="a,s", properties=EVERYTHING)
    run.sync()
    run.messages("dead")
    run.publish(b"never synced", key="a,s")
    run.crash()


def fifth_life(directory: Path) -> None:
    """Nothing happens after a crash."""
    live(directory, 5).stop()


LIVES: tuple[Callable[[Path], None], ...] = (
    first_life,
    second_life,
    third_life,
    fourth_life,
    fifth_life,
)


def session(place: Path) -> dict[str, bytes]:
    """Live all lives; return each segment there was after each, without the zeros at its end."""
    directory = place / "data"
    found = {}
    for number, life in enumerate(LIVES, 1):
        life(directory)
        for path in sorted(directory.rglob("*.segment")):
            data = path.read_bytes()
            end = used(path)
            assert not any(data[end:])
            found[f"{number}/{path.relative_to(directory)}"] = data[:end]
    return found


def main() -> None:
    place = Path(tempfile.mkdtemp())
    found = session(place)
    shutil.rmtree(place)
    with tarfile.open(HERE / "session-v1.tar.xz", "w:xz") as archive:
        for name, data in found.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


if __name__ == "__main__":
    main()
