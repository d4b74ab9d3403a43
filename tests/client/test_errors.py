"""Errors by reply code."""

import pickle

import pytest

from leporid.amqp.constants import ReplyCode
from leporid.client import errors
from leporid.client.message import Message


@pytest.mark.parametrize(
    "code", [code for code in ReplyCode if code is not ReplyCode.REPLY_SUCCESS]
)
def test_each_reply_code_has_a_class(code):
    error = errors.server_closed(code, f"{code.name} - why", 50, 10, connection=False)
    assert type(error) is not errors.ServerClosed
    assert error.CODE == error.code == code
    assert error.method == "queue.declare"
    assert (
        str(error)
        == f"the broker closed the channel: {int(code)} {code.name} - why (for queue.declare)"
    )


def test_a_code_that_amqp_does_not_have():
    error = errors.server_closed(999, "HUH", connection=True)
    assert type(error) is errors.ServerClosed
    assert (error.code, error.method, error.connection) == (999, "", True)
    assert str(error) == "the broker closed the connection: 999 HUH"


def test_errors_of_publishes_carry_the_message():
    message = Message(b"body", key="k")
    returned = errors.Returned(message, "x", 312, "NO_ROUTE")
    assert (returned.message, returned.exchange, returned.code) == (message, "x", 312)
    assert "mandatory=False" in str(returned)
    assert errors.Nacked(message, "x").message is message


def test_all_are_client_errors_and_a_timeout_is_a_timeout():
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert issubclass(kind, errors.ClientError), name
    assert issubclass(errors.Timeout, TimeoutError)
    assert str(errors.ApiError(404, "not there")) == "not there"
    assert errors.ConsumerCancelled("q", "c1").queue == "q"


def test_what_was_raised_in_another_process_can_be_sent_here():
    assert str(pickle.loads(pickle.dumps(errors.LocalProtocolError("why")))) == "why"
