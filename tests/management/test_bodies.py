"""Bodies of requests: counted before they are read, and ended when they do not come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from starlette.requests import Request

from leporid.limits.refusals import Refusals
from leporid.management import bodies as module
from leporid.management.admission import Admission
from leporid.management.bodies import body_in
from leporid.management.refusals import Refusal

MOST = 100


class Sender:
    """Sends a body piece by piece; None: it waits until the test is over."""

    def __init__(self, *pieces: bytes | None, declared: int | None = None) -> None:
        self.pieces: Sequence[bytes | None] = pieces
        self.asked = 0
        headers = [] if declared is None else [(b"content-length", b"%d" % declared)]
        self.request = Request({"type": "http", "headers": headers}, self.receive)

    async def receive(self) -> dict[str, object]:
        if self.asked == len(self.pieces):
            return {"type": "http.disconnect"}
        piece = self.pieces[self.asked]
        self.asked += 1
        if piece is None:
            await asyncio.Event().wait()
        more = self.asked < len(self.pieces)
        return {"type": "http.request", "body": piece, "more_body": more}


@pytest.fixture
def refusals() -> Refusals:
    return Refusals()


@pytest.fixture
def admission(refusals: Refusals) -> Admission:
    return Admission(refusals, body_bytes=120)


async def read(admission: Admission, sender: Sender, user: str = "ann") -> bytes:
    async with body_in(admission, sender.request, user, "bytes_of_this", MOST) as data:
        return bytes(data)


async def refused(admission: Admission, sender: Sender, user: str = "ann") -> tuple[int, object]:
    with pytest.raises(Refusal) as caught:
        await read(admission, sender, user)
    return caught.value.status, caught.value.facts.get("limit")


async def test_bytes_are_counted_as_long_as_they_are_there(admission: Admission):
    room = admission.shares.body_bytes
    for declared in (6, None):
        sender = Sender(b"one", b"two", declared=declared)
        async with body_in(admission, sender.request, "ann", "x", MOST) as data:
            assert (bytes(data), room.held("ann")) == (b"onetwo", 6)
            assert admission.shares.uploads.used == 0
        assert room.used == 0


async def test_what_says_that_it_is_too_large_is_not_read(admission: Admission, refusals: Refusals):
    sender = Sender(b"x", declared=MOST + 1)
    assert await refused(admission, sender) == (413, "bytes_of_this")
    assert sender.asked == 0
    assert refusals.by_kind["bytes_of_this"] == 1


async def test_what_is_too_large_is_not_read_to_its_end(admission: Admission, refusals: Refusals):
    sender = Sender(b"x" * 60, b"x" * 60, b"x")
    admission.shares.body_bytes.slots = 1000
    assert await refused(admission, sender) == (413, "bytes_of_this")
    assert sender.asked == 2
    assert refusals.by_kind["bytes_of_this"] == 1
    assert admission.shares.body_bytes.used == 0


async def test_there_is_room_for_so_much_of_all_and_half_of_it_for_one(admission: Admission):
    sender = Sender(b"x", declared=60)
    async with body_in(admission, Sender(b"x", declared=50).request, "ann", "x", MOST):
        assert await refused(admission, sender) == (429, "http_body_bytes")
        assert sender.asked == 0
        assert await read(admission, Sender(b"x", declared=60), "ben") == b"x"


async def test_without_a_length_bytes_are_counted_as_they_come(admission: Admission):
    room = admission.shares.body_bytes
    other = room.take("ben", 60)
    sender = Sender(b"x" * 40, b"x" * 40, b"x")
    assert await refused(admission, sender) == (503, "http_body_bytes")
    assert (sender.asked, room.used) == (2, 60)
    other.release()
    # A length that is too small is not believed.
    room.slots = 10
    assert await refused(admission, Sender(b"x" * 40, declared=1)) == (503, "http_body_bytes")
    assert room.used == 0


@pytest.mark.parametrize(
    ("constant", "value"), [("PROGRESS_SECONDS", 0.01), ("BODY_SECONDS", 0.01)]
)
async def test_a_body_that_does_not_come(
    admission: Admission,
    refusals: Refusals,
    monkeypatch: pytest.MonkeyPatch,
    constant: str,
    value: float,
):
    monkeypatch.setattr(module, constant, value)
    assert await refused(admission, Sender(b"x", None)) == (408, "http_body_time")
    assert refusals.by_kind["http_body_time"] == 1
    assert admission.shares.uploads.used == admission.shares.body_bytes.used == 0


class Cut(Sender):
    def __init__(self) -> None:
        super().__init__(b"x")

    async def receive(self) -> dict[str, object]:
        if self.asked:
            return {"type": "http.disconnect"}
        self.asked += 1
        return {"type": "http.request", "body": b"x", "more_body": True}


async def test_a_body_that_is_cut_off(admission: Admission):
    assert await refused(admission, Cut()) == (400, None)
    assert admission.shares.body_bytes.used == 0


async def test_bodies_wait_for_their_turn_to_be_received(admission: Admission):
    uploads = admission.shares.uploads
    uploads.slots = 1
    other = uploads.take("ben")
    sender = Sender(b"x")
    reading = asyncio.create_task(read(admission, sender))
    while not uploads.waiting:
        await asyncio.sleep(0)
    assert sender.asked == 0
    other.release()
    assert await reading == b"x"
