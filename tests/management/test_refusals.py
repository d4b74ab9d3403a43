"""Errors as answers."""

import json

import pytest

from leporid.amqp.errors import (
    AccessRefused,
    Fault,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
    SyntaxFault,
)
from leporid.management.refusals import Refusal, bad, busy, of_fault


@pytest.mark.parametrize(
    ("fault", "status", "word"),
    [
        (AccessRefused("no"), 403, "forbidden"),
        (NotAllowed("no"), 403, "forbidden"),
        (NotFound("no"), 404, "not-found"),
        (PreconditionFailed("no"), 409, "conflict"),
        (ResourceLocked("no"), 409, "conflict"),
        (SyntaxFault("no"), 400, "bad-request"),
    ],
)
def test_faults_have_a_status(fault: Fault, status: int, word: str):
    refusal = of_fault(fault)
    assert (refusal.status, refusal.word, refusal.reason) == (status, word, "no")


def test_answers_are_json():
    answer = Refusal(410, "gone", "too late", headers={"x": "y"}, first=5).answer()
    assert (answer.status_code, answer.headers["x"]) == (410, "y")
    assert json.loads(bytes(answer.body)) == {"error": "gone", "reason": "too late", "first": 5}
    assert bad("from", "is missing").facts == {"parameter": "from"}
    assert busy("later").headers == {"retry-after": "1"}
