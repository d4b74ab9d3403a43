"""Numbers and names: complete, without two of the same."""

from leporid.amqp import constants
from leporid.amqp.constants import CHANNEL_REPLY_CODES, METHOD_IDS, ReplyCode


def test_reply_codes_have_rabbitmqs_names():
    assert ReplyCode(404).name == "NOT_FOUND"
    assert ReplyCode["SYNTAX_ERROR"] == 502


def test_channel_reply_codes_are_reply_codes():
    assert set(ReplyCode) >= CHANNEL_REPLY_CODES


def test_no_two_methods_share_their_numbers():
    assert len(set(METHOD_IDS.values())) == len(METHOD_IDS)


def test_methods_are_of_the_class_in_their_name():
    for name, (class_id, _) in METHOD_IDS.items():
        assert class_id == getattr(constants, f"CLASS_{name.split('.')[0].upper()}")


def test_property_flags_are_fourteen_different_bits():
    flags = [
        value
        for name, value in vars(constants).items()
        if name.startswith("FLAG_") and name != "FLAG_CONTINUED"
    ]
    assert sorted(flags) == [1 << bit for bit in range(2, 16)]
