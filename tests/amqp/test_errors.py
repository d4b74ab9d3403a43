"""Faults: their codes, scopes and texts."""

import pytest

from leporid.amqp import errors
from leporid.amqp.constants import CHANNEL_REPLY_CODES, ReplyCode
from leporid.amqp.errors import Fault, NotFound, SyntaxFault
from leporid.amqp.methods import BasicPublish, ConnectionClose, QueueDeclare

FAULTS = [
    (errors.ContentTooLarge, 311, "CONTENT_TOO_LARGE"),
    (errors.ConnectionForced, 320, "CONNECTION_FORCED"),
    (errors.InvalidPath, 402, "INVALID_PATH"),
    (errors.AccessRefused, 403, "ACCESS_REFUSED"),
    (errors.NotFound, 404, "NOT_FOUND"),
    (errors.ResourceLocked, 405, "RESOURCE_LOCKED"),
    (errors.PreconditionFailed, 406, "PRECONDITION_FAILED"),
    (errors.FrameError, 501, "FRAME_ERROR"),
    (errors.SyntaxFault, 502, "SYNTAX_ERROR"),
    (errors.CommandInvalid, 503, "COMMAND_INVALID"),
    (errors.ChannelFault, 504, "CHANNEL_ERROR"),
    (errors.UnexpectedFrame, 505, "UNEXPECTED_FRAME"),
    (errors.ResourceError, 506, "RESOURCE_ERROR"),
    (errors.NotAllowed, 530, "NOT_ALLOWED"),
    (errors.NotImplementedFault, 540, "NOT_IMPLEMENTED"),
    (errors.InternalFault, 541, "INTERNAL_ERROR"),
]


@pytest.mark.parametrize(("cls", "code", "name"), FAULTS)
def test_code_text_and_scope(cls: type[Fault], code: int, name: str):
    fault = cls("so it is")
    assert fault.code == code
    assert fault.text == str(fault) == f"{name} - so it is"
    assert fault.closes_connection == (code not in {311, 403, 404, 405, 406})
    assert (fault.class_id, fault.method_id) == (0, 0)


def test_every_reply_code_of_an_error_has_its_fault():
    no_faults = {ReplyCode.REPLY_SUCCESS, ReplyCode.NO_ROUTE, ReplyCode.NO_CONSUMERS}
    assert {code for _, code, _ in FAULTS} == set(ReplyCode) - no_faults
    assert {312, 313} | {
        cls.CODE for cls, _, _ in FAULTS if not cls("").closes_connection
    } == CHANNEL_REPLY_CODES


def test_scope_can_be_chosen():
    assert NotFound("no vhost", connection=True).closes_connection
    assert not SyntaxFault("only the channel", connection=False).closes_connection


def test_dispatcher_names_the_method():
    fault = NotFound("no queue 'q' in vhost '/'")
    fault.class_id, fault.method_id = 50, 10
    assert (fault.class_id, fault.method_id) == (50, 10)


@pytest.mark.parametrize("reason", ["x" * 300, "é" * 200, "𝄞" * 100])
def test_long_text_is_cut_between_characters(reason: str):
    text = NotFound(reason).text
    assert 250 <= len(text.encode()) <= 255
    assert text.endswith("...")
    assert text.removesuffix("...") in f"NOT_FOUND - {reason}"
    ConnectionClose(reply_text=text).encode()


def test_text_of_255_bytes_is_whole():
    reason = "x" * (255 - len("NOT_FOUND - "))
    assert NotFound(reason).text == f"NOT_FOUND - {reason}"


def test_text_that_quotes_a_surrogate_can_be_sent():
    text = NotFound("no queue '\udcff'").text
    assert text == "NOT_FOUND - no queue '?'"
    ConnectionClose(reply_text=text).encode()


def test_the_log_says_what_is_told_unless_that_quotes():
    assert errors.FrameError("too large").logged == errors.FrameError("too large").text
    fault = errors.FrameError("octets = <<104,117>>", logged="2 octets")
    assert (fault.text, fault.logged) == (
        "FRAME_ERROR - octets = <<104,117>>",
        "FRAME_ERROR - 2 octets",
    )


def test_a_fault_names_the_first_method_that_it_is_blamed_on():
    fault = NotFound("no").blame(BasicPublish)
    assert (fault.class_id, fault.method_id) == (60, 40)
    assert fault.blame(QueueDeclare) is fault
    assert (fault.class_id, fault.method_id) == (60, 40)
