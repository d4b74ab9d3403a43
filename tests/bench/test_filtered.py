"""Messages and filters of the workload with filtered consumers."""

import struct

from bench.filtered import CONSUMERS, flight

from leporid.amqp.properties import decode_properties


def test_a_message_says_of_which_kind_it_is():
    data = flight("q", 7, b"12345")
    header = data[data.index(b"\x02\0\x01") :]
    (size,) = struct.unpack_from(">I", header, 3)
    headers = decode_properties(header[7 + 12 : 7 + size]).headers
    assert headers is not None
    assert (headers["kind"], headers["number"], len(headers)) == ("k07", 7, 6)


def test_messages_of_all_kinds_have_one_size():
    assert len({len(flight("q", kind, b"")) for kind in range(CONSUMERS)}) == 1
