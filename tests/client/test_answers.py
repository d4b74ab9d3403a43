"""Who gets which answer, without a connection."""

import asyncio

import pytest

from leporid.amqp.methods import (
    BasicCancelOk,
    BasicConsumeOk,
    ExchangeDeclareOk,
    QueueDeclare,
    QueueDeclareOk,
)
from leporid.client.answers import Answers, answer_of, encoded, ids_of
from leporid.client.errors import ConnectionLost, LocalProtocolError, NotFound, Timeout

DECLARE = ids_of(QueueDeclare())


def answer(name):
    return QueueDeclareOk(name, 0, 0)


async def test_answers_come_in_the_order_of_the_questions():
    answers = Answers(asyncio.get_running_loop())
    first = answers.expect(DECLARE, QueueDeclareOk)
    given_up = answers.expect(DECLARE, QueueDeclareOk)
    last = answers.expect(DECLARE, QueueDeclareOk)
    given_up.cancel()
    assert not answers.give(ExchangeDeclareOk())
    for name in ("first", "given up", "last"):
        assert answers.give(answer(name))
    assert (first.result().queue, last.result().queue) == ("first", "last")
    assert not answers.give(answer("nobody's"))


async def test_answers_about_consumers_are_told_by_their_tag():
    answers = Answers(asyncio.get_running_loop())
    begun = answers.expect_tagged(BasicConsumeOk, "c1")
    ended = answers.expect_tagged(BasicCancelOk, "c1")
    assert answers.give(BasicCancelOk("c1"))
    assert not answers.give(BasicConsumeOk("c2"))
    assert ended.done()
    assert not begun.done()


async def test_the_first_who_asked_for_what_is_blamed_gets_the_error():
    answers = Answers(asyncio.get_running_loop())
    futures = [
        answers.expect((10, 10), ExchangeDeclareOk),
        answers.expect(DECLARE, QueueDeclareOk),
        answers.expect(DECLARE, QueueDeclareOk),
        answers.expect_tagged(BasicConsumeOk, "c1"),
    ]
    blamed = NotFound(404, "NOT_FOUND", *DECLARE, connection=False)
    others = ConnectionLost("interrupted")
    answers.fail(blamed, others)
    found = [future.exception() for future in futures]
    assert [type(each) for each in found] == [ConnectionLost, NotFound, *[ConnectionLost] * 2]
    assert len({id(each) for each in found}) == 4


async def test_a_timeout_says_what_was_waited_for():
    with pytest.raises(Timeout, match=r"no answer within 0\.01 s"):
        await answer_of(asyncio.get_running_loop().create_future(), "answer", 0.01)


def test_what_has_no_encoding_is_told():
    with pytest.raises(LocalProtocolError, match=r"queue\.declare cannot be encoded"):
        encoded(QueueDeclare("q" * 256))
