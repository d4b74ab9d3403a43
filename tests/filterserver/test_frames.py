from tests.filterserver.asked import batch_frame

from leporid.filterserver import frames
from leporid.filterserver.message import messages_of


def payload_of(frame: bytes, kind: int) -> bytes:
    got, size = frames.HEAD.unpack_from(frame)
    payload = frame[frames.HEAD.size :]
    assert (got, size) == (kind, len(payload))
    return payload


def test_a_class_comes_back_with_its_name():
    frame = frames.load_frame("Größer", b"class ...\n")
    assert frames.loaded(payload_of(frame, frames.LOAD)) == ("Größer", b"class ...\n")


def test_messages_of_a_batch_come_back_whole_and_in_order():
    given = [(b"\1e\1k", b"\0\0", b"body"), (b"\0\0", b"\0\0", b""), (b"\0\2ab", b"\0\0", b"\xff")]
    payload = payload_of(batch_frame(given), frames.BATCH)
    found = list(messages_of(payload))
    assert [each.body for each in found] == [b"body", b"", b"\xff"]
    assert [each.routing_key for each in found] == ["k", "", "ab"]


def test_a_batch_may_be_empty():
    assert list(messages_of(payload_of(batch_frame([]), frames.BATCH))) == []


def test_errors_are_text_whatever_is_in_them():
    assert frames.error_text(b"no \xff good") == "no \ufffd good"


def test_an_answer_says_how_long_it_is_and_which_one():
    frame = frames.answer_frame(frames.VERDICTS, 7, b"\1\0")
    assert frames.ANSWER_HEAD.unpack_from(frame) == (frames.VERDICTS, 2, 7)
    assert frame[frames.ANSWER_HEAD.size :] == b"\1\0"


def test_a_failure_without_words_has_some():
    assert frames.error_text(b"Traceback") == "Traceback"
    assert frames.error_text(b"") == "it failed, and did not say why"
