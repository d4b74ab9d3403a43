"""Access: who gets in, what they may do, and what a refusal tells whom."""

import dataclasses
import logging
from concurrent.futures import ThreadPoolExecutor

import argon2
import pytest
from tests.broker.at_once import authenticate

from leporid.amqp.errors import AccessRefused, NotAllowed, SyntaxFault
from leporid.broker.access.access import Access, Credentials, User, guest
from leporid.broker.access.passwords import (
    Argon2Hash,
    decoy,
    hash_password,
    parse_hash,
    salted_sha256,
)
from leporid.broker.access.permissions import EVERYTHING, Permissions

SECRET = b"0123456789abcdef0123456789abcdef"

SLOW = hash_password("slow", b"s" * 16)
CHEAPER = decoy("$argon2id$v=19$m=64,t=2,p=1")
IMPORTED = parse_hash("kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR")

REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
    "For details see the broker logfile."
)


def plain(name: str, password: str) -> bytes:
    return f"\0{name}\0{password}".encode()


def claim(name: str, password: str) -> Credentials:
    return Credentials("PLAIN", name, password.encode())


@pytest.fixture
def access() -> Access:
    return Access(
        [
            guest(SECRET),
            User("ann", SLOW, permissions={"/": EVERYTHING}),
            User("imported", IMPORTED),
        ],
        SECRET,
    )


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The passwords that argon2 was asked about."""
    asked: list[bytes] = []
    matches = Argon2Hash.matches

    def counted(self: Argon2Hash, password: bytes) -> bool:
        asked.append(password)
        return matches(self, password)

    monkeypatch.setattr(Argon2Hash, "matches", counted)
    return asked


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parameters of the hashes that argon2 made."""
    made: list[str] = []
    verify = argon2.low_level.verify_secret

    def counted(text: bytes, password: bytes, kind: argon2.Type) -> bool:
        made.append(text.decode().rsplit("$", 2)[0])
        return verify(text, password, kind)

    monkeypatch.setattr(argon2.low_level, "verify_secret", counted)
    return made


# ---------------------------------------------------------------- logging in


@pytest.mark.parametrize(
    ("name", "password"), [("guest", "guest"), ("ann", "slow"), ("imported", "test12")]
)
def test_the_right_password_gets_in(access: Access, name: str, password: str):
    user = authenticate(access, "PLAIN", plain(name, password), loopback=True)
    assert user is access.user(name)


@pytest.mark.parametrize("name", ["guest", "ann", "imported", "nobody", "", "gue\udcffst"])
@pytest.mark.parametrize("password", ["", "wrong", "Slow", "guest ", "\0"])
def test_anything_else_is_refused_in_the_same_words(access: Access, name: str, password: str):
    credentials = Credentials("PLAIN", name, password.encode())
    assert access.needs_hashing(credentials, loopback=True)
    assert not access.verify(credentials)
    with pytest.raises(AccessRefused) as refused:
        access.admit(credentials, loopback=True)
    assert refused.value.text == REFUSED
    assert refused.value.code == 403
    assert refused.value.closes_connection


def test_the_words_name_the_mechanism(access: Access):
    with pytest.raises(AccessRefused, match="mechanism AMQPLAIN"):
        access.admit(Credentials("AMQPLAIN", "guest", b"wrong"), loopback=True)


def test_a_malformed_response_is_a_syntax_error(access: Access):
    with pytest.raises(SyntaxFault):
        authenticate(access, "PLAIN", b"guest", loopback=True)


def test_guest_gets_in_from_loopback_only(access: Access, caplog: pytest.LogCaptureFixture):
    with pytest.raises(AccessRefused) as refused:
        authenticate(access, "PLAIN", plain("guest", "guest"), loopback=False)
    assert refused.value.text == REFUSED
    assert "user 'guest' - can only connect via localhost" in caplog.text
    assert authenticate(access, "PLAIN", plain("ann", "slow"), loopback=False).name == "ann"


def test_a_loopback_only_user_with_a_wrong_password_is_told_nothing_else(
    access: Access, caplog: pytest.LogCaptureFixture
):
    with pytest.raises(AccessRefused):
        authenticate(access, "PLAIN", plain("guest", "wrong"), loopback=False)
    assert "invalid credentials" in caplog.text


def test_a_blank_password_is_never_right():
    blank = User("blank", salted_sha256("", SECRET))
    access = Access([blank], SECRET)
    with pytest.raises(AccessRefused):
        authenticate(access, "PLAIN", plain("blank", ""), loopback=True)


def test_the_log_says_why_and_never_the_password(access: Access, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    name = "evil\n2026-01-01 INFO all is well\x1b[2J" + "x" * 5000
    with pytest.raises(AccessRefused):
        authenticate(access, "PLAIN", plain(name, "hunter2"), loopback=True)
    assert "PLAIN login refused: user 'evil\\n2026-01-01 INFO" in caplog.text
    assert len(caplog.messages) == 1
    assert "\n" not in caplog.messages[0]
    assert "\x1b" not in caplog.messages[0]
    assert len(caplog.messages[0]) < 400
    assert "hunter2" not in caplog.text


# ---------------------------------------------------------------- hashing


def refused(access: Access, name: str, password: str, *, loopback: bool = True) -> None:
    with pytest.raises(AccessRefused):
        authenticate(access, "PLAIN", plain(name, password), loopback)


def test_a_clear_password_that_is_right_is_not_hashed(access: Access, hashed: list[bytes]):
    for name, password in [("guest", "guest"), ("imported", "test12")]:
        authenticate(access, "PLAIN", plain(name, password), loopback=True)
    assert hashed == []


@pytest.mark.parametrize("name", ["guest", "ann", "imported", "nobody", "", "gue\udcffst"])
@pytest.mark.parametrize("password", ["", "wrong"])
def test_whoever_is_refused_has_cost_one_hash(
    access: Access, hashed: list[bytes], costs: list[str], name: str, password: str
):
    response = b"\0".join((b"", name.encode("utf-8", "surrogateescape"), password.encode()))
    with pytest.raises(AccessRefused):
        authenticate(access, "PLAIN", response, loopback=True)
    assert hashed == [password.encode()]
    assert costs == [SLOW.cost]


@pytest.mark.parametrize("password", ["guest", "wrong"])
def test_from_elsewhere_a_loopback_only_user_costs_the_same(
    access: Access, hashed: list[bytes], password: str
):
    refused(access, "guest", password, loopback=False)
    assert hashed == [password.encode()]


def test_a_verified_password_of_a_loopback_only_user_costs_the_same_from_elsewhere(
    hashed: list[bytes],
):
    access = Access([User("ann", SLOW, loopback_only=True)], SECRET)
    authenticate(access, "PLAIN", plain("ann", "slow"), loopback=True)
    refused(access, "ann", "slow", loopback=False)
    refused(access, "ann", "wrong", loopback=False)
    assert hashed == [b"slow", b"slow", b"wrong"]


def test_users_with_hashes_of_several_costs_cannot_be_told_apart(
    costs: list[str], caplog: pytest.LogCaptureFixture
):
    access = Access([User("ann", SLOW), User("bob", CHEAPER), guest(SECRET)], SECRET)
    for name in ("ann", "bob", "guest", "nobody"):
        del costs[:]
        refused(access, name, "wrong")
        assert sorted(costs) == sorted([SLOW.cost, CHEAPER.cost])
    assert "2 different sets of parameters" in caplog.text
    # Who had the other cost has it no more.
    access.put_user(User("bob", IMPORTED))
    del costs[:]
    refused(access, "bob", "wrong")
    assert costs == [SLOW.cost]


def test_without_argon2_users_a_refusal_costs_our_own_hash(costs: list[str]):
    access = Access([guest(SECRET)], SECRET)
    refused(access, "nobody", "x")
    refused(access, "guest", "x")
    assert costs == [hash_password("x", b"s" * 16).cost] * 2


def test_a_password_found_right_is_not_hashed_again(access: Access, hashed: list[bytes]):
    for _ in range(3):
        authenticate(access, "PLAIN", plain("ann", "slow"), loopback=True)
    assert hashed == [b"slow"]
    # A wrong one is, and it does not push the right one out.
    refused(access, "ann", "wrong")
    assert hashed == [b"slow", b"wrong"]
    assert not access.needs_hashing(claim("ann", "slow"), loopback=True)


def test_nobody_gets_in_before_verify_has_said_so(access: Access):
    credentials = claim("ann", "slow")
    assert access.needs_hashing(credentials, loopback=True)
    with pytest.raises(AccessRefused):
        access.admit(credentials, loopback=True)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(access.verify, credentials).result()
    assert access.admit(credentials, loopback=True).name == "ann"


def test_a_password_changed_while_it_was_hashed_is_wrong(
    access: Access, monkeypatch: pytest.MonkeyPatch
):
    user = access.user("ann")
    assert user is not None
    changed = dataclasses.replace(user, password=hash_password("new", b"t" * 16))
    matches = Argon2Hash.matches

    def change_meanwhile(self: Argon2Hash, password: bytes) -> bool:
        access.put_user(changed)
        return matches(self, password)

    monkeypatch.setattr(Argon2Hash, "matches", change_meanwhile)
    assert access.verify(claim("ann", "slow"))
    with pytest.raises(AccessRefused):
        access.admit(claim("ann", "slow"), loopback=True)
    assert access.needs_hashing(claim("ann", "slow"), loopback=True)


def test_not_even_the_password_of_another_user_is_right(access: Access):
    assert not access.verify(claim("nobody", "slow"))
    assert not access.verify(claim("imported", "slow"))


def test_verify_answers_for_fast_passwords_too(access: Access):
    assert access.verify(claim("guest", "guest"))
    assert not access.verify(claim("guest", "wrong"))
    assert not access.verify(claim("guest", ""))


# ---------------------------------------------------------------- users


def test_users_are_listed(access: Access):
    assert [user.name for user in access] == ["guest", "ann", "imported"]
    assert repr(access) == "<Access users=3>"


def test_a_user_given_out_stays_as_it_was(access: Access):
    user = authenticate(access, "PLAIN", plain("guest", "guest"), loopback=True)
    access.put_user(dataclasses.replace(user, permissions={}))
    assert user.may("read", "queue", "q", "/")
    now = access.user("guest")
    assert now is not None
    assert not now.may("read", "queue", "q", "/")


# ---------------------------------------------------------------- permissions


def test_permissions_are_per_vhost():
    user = User("u", IMPORTED, permissions={"a": Permissions.of(read=".*"), "b": Permissions.of()})
    assert user.may("read", "queue", "q", "a")
    assert not user.may("write", "queue", "q", "a")
    assert not user.may("read", "queue", "q", "b")
    assert not user.may("read", "queue", "q", "c")
    user.check_vhost("a")
    # Empty permissions are permissions: the vhost may be entered.
    user.check_vhost("b")
    with pytest.raises(NotAllowed) as refused:
        user.check_vhost("c")
    assert refused.value.text == "NOT_ALLOWED - access to vhost 'c' refused for user 'u'"


def test_refusals_have_rabbitmqs_words():
    user = User("u", IMPORTED, permissions={"/": Permissions.of(read=".*")})
    user.check("read", "queue", "q", "/")
    with pytest.raises(AccessRefused) as refused:
        user.check("configure", "queue", "q", "/")
    assert refused.value.text == (
        "ACCESS_REFUSED - configure access to queue 'q' in vhost '/' refused for user 'u'"
    )
    assert not refused.value.closes_connection
    with pytest.raises(AccessRefused) as refused:
        user.check("write", "exchange", "", "/")
    assert refused.value.text == (
        "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'u'"
    )
