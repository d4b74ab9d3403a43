"""Errors as HTTP answers: a status, a word for programs, a sentence for people.

Responsible for turning what handlers and the broker's rules raise into JSON, in one place. Must not
know routes. Invariant: every error of this interface is `{"error": word, "reason": sentence, …}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from leporid.amqp.errors import (
    AccessRefused,
    Fault,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)

# What the rules' faults are over HTTP; what is not named is a bad request.
_STATUS: Final[Mapping[type[Fault], tuple[int, str]]] = {
    AccessRefused: (403, "forbidden"),
    NotAllowed: (403, "forbidden"),
    NotFound: (404, "not-found"),
    PreconditionFailed: (409, "conflict"),
    ResourceLocked: (409, "conflict"),
}


class Refusal(Exception):
    """A request that is not granted.

    Attributes:
        status: the HTTP status.
        word: what programs look at.
        facts: what else the answer holds.
    """

    def __init__(
        self,
        status: int,
        word: str,
        reason: str,
        *,
        headers: Mapping[str, str] | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.word = word
        self.reason = reason
        self.headers = dict(headers or {})
        self.facts = facts

    def answer(self) -> Response:
        """Return it as JSON."""
        content = {"error": self.word, "reason": self.reason, **self.facts}
        return JSONResponse(content, status_code=self.status, headers=self.headers)


def of_fault(fault: Fault) -> Refusal:
    """Say over HTTP what a fault says over AMQP."""
    status, word = _STATUS.get(type(fault), (400, "bad-request"))
    # The name of the reply code in front says nothing here.
    return Refusal(status, word, fault.text.partition(" - ")[2] or fault.text)


def bad(parameter: str, reason: str, **facts: Any) -> Refusal:
    """Refuse a parameter, a member of the body or a header."""
    return Refusal(400, "bad-request", f"{parameter}: {reason}", parameter=parameter, **facts)


def busy(reason: str) -> Refusal:
    """Ask to come back later."""
    return Refusal(503, "busy", reason, headers={"retry-after": "1"})
