import pytest

from leporid.broker.exchange.types.phash2 import phash2_of_binaries
from leporid.broker.registry import finished


# What Erlang/OTP 25 says, erlang:phash2([<<...>>, ...], 134217728).
@pytest.mark.parametrize(
    ("binaries", "expected"),
    [
        ([b""], 38220213),
        ([b"a"], 53691870),
        ([b"hello"], 106084785),
        ([b"orders.eu.2026.0001"], 3631048),
        ([b"\xc3\xbc\xff"], 119205280),
        pytest.param([b"0123456789ab"], 119280432, id="one block"),
        pytest.param([b"hello world!"], 124688779, id="one block too"),
        pytest.param([b"0123456789abcdefghijklmnopqrstuvwxyz"], 56094720, id="three blocks"),
        pytest.param([b"a", b"b"], 3094894, id="two"),
        pytest.param([b"ab", b"", b"c"], 39966655, id="an empty one between"),
        pytest.param([b"x", b"y", b"z", b"x"], 15834078, id="four"),
    ],
)
def test_is_what_erlang_says(binaries: list[bytes], expected: int):
    assert finished(phash2_of_binaries(binaries)) == expected


def test_every_length_of_the_last_block_counts():
    text = b"0123456789abcdefghijklmn"
    assert len({finished(phash2_of_binaries([text[:length]])) for length in range(25)}) == 25
