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
from leporid.broker.access.backends import EXPIRED
from leporid.limits.shares import NoSlot

RETRY_AFTER: Final[Mapping[str, str]] = {"retry-after": "1"}
"""In seconds. Slots are held for moments, or for long; who comes too early is told so again."""

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
        reason: a sentence, or what RabbitMQ has in its place.
        facts: what else the answer holds; of a limit, its name and value as `limit`, `value`.
    """

    def __init__(
        self,
        status: int,
        word: str,
        reason: Any,
        *,
        headers: Mapping[str, str] | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(str(reason))
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


def bad_request(reason: str) -> Refusal:
    """Refuse a body as RabbitMQ does."""
    return Refusal(400, "bad_request", reason)


def busy(reason: str, **facts: Any) -> Refusal:
    """Ask to come back later."""
    return Refusal(503, "busy", reason, headers=RETRY_AFTER, **facts)


def token_refused(reason: str) -> Refusal:
    """Refuse a token (RFC 6750, 3.1)."""
    challenge = f'Bearer realm="Leporid", error="invalid_token", error_description="{reason}"'
    return Refusal(401, "not_authorized", reason, headers={"www-authenticate": challenge})


def expired() -> Refusal:
    """Say that the token of a request has ended, maybe during the request."""
    return token_refused(EXPIRED)


def of_no_slot(none: NoSlot) -> Refusal:
    """Say that a limited resource is used up, by the client itself or by all together."""
    facts = {"limit": none.limit, "value": none.value}
    if none.own:
        return Refusal(429, "too-many", str(none), headers=RETRY_AFTER, **facts)
    return busy(str(none), **facts)


def blocked(alarm: str, limit: str, value: int | None) -> Refusal:
    """Say that nothing may grow while an alarm is on."""
    than = "" if value is None else f" ({limit}: {value} bytes)"
    reason = f"the broker is low on {alarm}{than}: until it is not, it takes nothing that it keeps"
    return busy(reason, limit=limit, value=value)


def too_large(limit: str, value: int, reason: str) -> Refusal:
    """Say that something is larger than a limit allows."""
    return Refusal(413, "too-large", reason, limit=limit, value=value)
