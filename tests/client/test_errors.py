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


EACH = [
    errors.LocalProtocolError("why"),
    errors.Timeout("no answer"),
    errors.ApiError(404, "not there"),
    errors.ConsumerCancelled("q", "c1"),
    errors.server_closed(404, "NOT_FOUND", 50, 10, connection=False),
    errors.Returned(Message(b"body", key="k"), "x", 312, "NO_ROUTE"),
]


@pytest.mark.parametrize("error", EACH, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("how", [lambda error: pickle.loads(pickle.dumps(error)), errors.fresh])
def test_an_error_can_be_copied_and_sent_to_another_process(error, how):
    try:
        raise error
    except errors.ClientError:
        pass
    made = how(error)
    assert type(made) is type(error)
    assert str(made) == str(error)
    assert vars(made).keys() == vars(error).keys()
    assert made is not error
    assert made.__traceback__ is None


def test_an_error_of_others_loses_its_traceback():
    error = OSError("broken")
    try:
        raise error
    except OSError:
        pass
    assert errors.fresh(error) is error
    assert error.__traceback__ is None
