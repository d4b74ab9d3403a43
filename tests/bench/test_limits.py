import struct

import pytest
from bench.limits import Lives, mortal

from leporid.amqp.properties import decode_properties

# Published between 0 and 1 s; they end after 10, 20 and 30 s.
LIVES = Lives(earliest=[10.0, 20.0, 30.0], latest=[11.0, 21.0, 31.0])


@pytest.mark.parametrize(
    ("asked", "count", "off"),
    [
        (9.0, 3, 0),
        (9.0, 4, 1),
        (9.0, 1, 2),
        # The first may be there, or gone.
        (10.5, 3, 0),
        (10.5, 2, 0),
        (10.5, 1, 1),
        (11.5, 3, 1),
        (11.5, 2, 0),
        (35.0, 0, 0),
        (35.0, 2, 2),
    ],
)
def test_counts_what_should_not_be_there_or_should(asked: float, count: int, off: int):
    assert LIVES.off(count, asked, asked) == off


def test_what_expires_between_question_and_answer_may_be_counted_or_not():
    assert [LIVES.off(count, 15.0, 25.0) for count in (3, 2, 1, 0)] == [1, 0, 0, 1]


def test_a_mortal_message_says_how_long_it_lives():
    data = mortal("q", 1234, 5)
    header = data[data.index(b"\x02\0\x01") :]
    (size,) = struct.unpack_from(">I", header, 3)
    assert decode_properties(header[7 + 12 : 7 + size]).expiration == "1234"
