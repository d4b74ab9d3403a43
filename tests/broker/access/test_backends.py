"""Back ends are asked in turn, and each login is answered once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leporid.amqp.errors import AccessRefused, NotAllowed
from leporid.broker.access.access import LoginAttempts, User
from leporid.broker.access.backends import BEARER, Answer, Backends, Internal, Leave, LoginRequest
from leporid.broker.access.logins import TooManyLogins
from leporid.broker.access.passwords import NoPassword
from leporid.broker.access.sasl import Credentials

CLAIM = LoginRequest(Credentials("PLAIN", "jo", b"secret"), "here", loopback=True)
JO = User("jo", NoPassword(), backend="second")
Found = User | AccessRefused


def asking(*backends: Asked, attempts: LoginAttempts | None = None) -> Backends:
    made = Backends(backends[0], attempts or LoginAttempts())
    made.use(backends)
    return made


def nothing(*_: object) -> None:
    pass


class Asked:
    """A back end that is answered by the test."""

    def __init__(self, name: str, at_once: User | AccessRefused | str | None = None) -> None:
        self.name = name
        self.at_once = at_once
        self.answers: list[Answer] = []
        self.left = 0

    def log_in(self, _claim: LoginRequest, answer: Answer) -> Leave:
        if self.at_once is not None:
            answer(self.at_once)
        self.answers.append(answer)
        return self.leave

    def renew(self, _user: User, _secret: bytes, answer: Answer) -> Leave:
        return self.log_in(CLAIM, answer)

    def leave(self) -> None:
        self.left += 1


def test_the_first_who_knows_somebody_counts(caplog):
    caplog.set_level("DEBUG")
    first, second, third = Asked("first", "no such token"), Asked("second"), Asked("third")
    found: list[Found] = []
    attempt = asking(first, second, third).log_in(CLAIM, found.append)
    assert repr(found) == "[]"
    second.answers[0](JO)
    assert attempt.ended
    assert found == [JO]
    assert not third.answers
    assert "PLAIN login refused by first: user 'jo' - no such token" in caplog.text
    assert {record.levelname for record in caplog.records} == {"DEBUG"}
    assert "secret" not in caplog.text


@pytest.mark.parametrize("leaves", [False, True])
def test_why_whom_nobody_lets_in_was_refused_is_a_warning(leaves, caplog):
    second = Asked("second", None if leaves else "")
    attempt = asking(Asked("first", "no such token"), second).log_in(CLAIM, nothing)
    if leaves:
        attempt.leave()
    (record,) = caplog.records
    assert (record.levelname, record.args) == (
        "WARNING",
        ("PLAIN", "first", "'jo'", "no such token"),
    )


@pytest.mark.parametrize("later", [False, True])
def test_whom_nobody_knows_is_refused_in_rabbitmqs_words(later):
    backends = [Asked("first", "" if not later else None), Asked("second", "no")]
    found: list[Found] = []
    asking(*backends).log_in(CLAIM, found.append)
    if later:
        backends[0].answers[0]("")
        backends[0].answers[0](JO)  # too late, and answered already
    (refused,) = found
    assert isinstance(refused, AccessRefused)
    assert "Login was refused using authentication mechanism PLAIN" in refused.text


def test_a_refusal_that_is_final_asks_nobody_else():
    full = TooManyLogins(CLAIM.credentials, own=True)
    second = Asked("second", JO)
    found: list[Found] = []
    asking(Asked("first", full), second).log_in(CLAIM, found.append)
    assert found == [full]
    assert not second.answers


def test_a_login_is_counted_once_however_many_were_asked():
    attempts = LoginAttempts()
    for last in (JO, "no", JO):
        asking(Asked("first", "no"), Asked("second", last), attempts=attempts).log_in(
            CLAIM, nothing
        )
    assert (attempts.granted, attempts.refused) == ({"PLAIN": 2}, {"PLAIN": 1})


def test_who_leaves_is_not_answered():
    backend, attempts = Asked("first"), LoginAttempts()
    found: list[Found] = []
    attempt = asking(backend, attempts=attempts).log_in(CLAIM, found.append)
    attempt.leave()
    attempt.leave()
    backend.answers[0](JO)
    assert not found
    assert attempts == LoginAttempts()
    assert backend.left == 1


def test_a_new_secret_is_for_who_has_let_the_user_in():
    first, second = Asked("first", JO), Asked("second")
    found: list[User | NotAllowed] = []
    left: list[None] = []
    backends = asking(first, second)
    renewal = backends.renew(JO, b"new", found.append, lambda: left.append(None))
    assert not first.answers
    second.answers[0](JO)
    assert found == [JO]
    renewal.leave()
    assert not left


def test_a_new_secret_that_is_refused(caplog):
    found: list[User | NotAllowed] = []
    asking(Asked("second", "it is bad")).renew(JO, b"new", found.append, nothing)
    asking(Asked("first")).renew(JO, b"new", found.append, nothing)
    assert all(isinstance(each, NotAllowed) for each in found)
    assert "secret update refused: user 'jo' - it is bad" in caplog.text
    assert "its back end is not asked any more" in caplog.text


def test_a_user_of_the_broker_stays_whoever_let_it_in():
    """A server that decides about passwords alone: the user is still one of ours."""
    ours = Internal(None, None)  # type: ignore[arg-type]
    backends = Backends(ours, LoginAttempts())
    backends.use([Asked("http")])
    found: list[User | NotAllowed] = []
    user = replace(JO, backend="")
    backends.renew(user, b"new", found.append, nothing)
    assert found == [user]


def test_who_leaves_a_renewal_is_told_once():
    backend = Asked("second")
    left: list[None] = []
    renewal = asking(backend).renew(JO, b"new", nothing, lambda: left.append(None))
    renewal.leave()
    renewal.leave()
    backend.answers[0](JO)
    assert len(left) == backend.left == 1


def test_a_token_is_no_password_of_ours():
    internal = Internal(None, None)  # type: ignore[arg-type]
    answers: list[object] = []
    internal.log_in(LoginRequest(Credentials(BEARER, "", b"x"), "", loopback=True), answers.append)
    internal.renew(JO, b"", answers.append)
    assert answers == ["", JO]
