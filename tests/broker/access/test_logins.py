"""Logins that wait: whose password is hashed next, and who is turned away."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import pytest

from leporid.amqp.errors import AccessRefused
from leporid.broker.access.access import Access, Credentials, User, guest
from leporid.broker.access.logins import HASHING_MAX, WAITING_MAX, Login, Logins, TooManyLogins
from leporid.broker.access.passwords import Argon2Hash, hash_password
from leporid.engine.engine import Engine
from leporid.limits.refusals import Refusals
from leporid.limits.shares import NoSlot

SECRET = b"0123456789abcdef0123456789abcdef"
SLOW = hash_password("slow", b"s" * 16)
# By the clock, between two readings: four of them are a slice of the engine.
STEP_NS = 125_000
ATTACKER = "192.0.2.1"
FRIEND = "192.0.2.2"


class World:
    """Logins with a hash that is made when the test says so, and costs nothing."""

    def __init__(self) -> None:
        self.access = Access([guest(SECRET), User("ann", SLOW), User("bob", SLOW)], SECRET)
        self.refusals = Refusals()
        self.engine = Engine()
        self.logins = Logins(self.access, self.offload, self.refusals, self.engine.jobs)
        # What is being hashed: the work, and what follows.
        self.hashing: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.hashed: list[Credentials] = []
        # Who was let in, refused, turned away, in that order.
        self.heard: list[tuple[str, str]] = []

    def offload(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self.hashing.append((work, done))

    def log_in(
        self, name: str, password: str, address: str = ATTACKER, *, loopback: bool = True
    ) -> Login | None:
        credentials = Credentials("PLAIN", name, password.encode())

        def answered(refusal: TooManyLogins | None) -> None:
            if refusal is not None:
                self.heard.append((name, "turned away"))
                return
            try:
                self.access.admit(credentials, loopback)
            except AccessRefused:
                self.heard.append((name, "refused"))
            else:
                self.heard.append((name, "let in"))

        login = self.logins.begin(credentials, address, loopback=loopback, answered=answered)
        if login is None:
            answered(None)
        return login

    def hash_one(self) -> None:
        work, done = self.hashing.pop(0)
        work()
        done()

    def hash_all(self) -> None:
        while self.hashing:
            self.hash_one()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()

    def matches(_: Argon2Hash, password: bytes) -> bool:
        return password == b"slow"

    monkeypatch.setattr(Argon2Hash, "matches", matches)
    verify = world.access.verify

    def counted(credentials: Credentials) -> bool:
        world.hashed.append(credentials)
        return verify(credentials)

    monkeypatch.setattr(world.access, "verify", counted)
    return world


def attempt(world: World, name: str, password: str, address: str = ATTACKER) -> Login | None:
    """A login that may be turned away at once."""
    try:
        return world.log_in(name, password, address)
    except TooManyLogins:
        world.heard.append((name, "turned away"))
        return None


def test_a_login_that_needs_no_hash_waits_for_none(world: World):
    for at in range(600):
        attempt(world, f"nobody{at}", "wrong")
    assert world.log_in("guest", "guest") is None
    assert world.heard[-1] == ("guest", "let in")
    assert world.hashed == []


def test_a_right_password_gets_in_before_600_wrong_ones_of_another_address(world: World):
    for at in range(600):
        attempt(world, "ann", f"wrong{at}")
    world.log_in("ann", "slow", FRIEND)
    world.hash_one()
    world.hash_one()
    assert ("ann", "let in") in world.heard
    assert len(world.hashed) == 2
    world.hash_all()
    assert len(world.heard) == 601
    assert world.logins.waiting == 0
    # Those that were turned away cost no hash, and are counted.
    turned_away = [each for each in world.heard if each[1] == "turned away"]
    assert len(world.hashed) == 601 - len(turned_away)
    assert world.refusals.by_kind == {"password_hashes": len(turned_away)}


def test_an_address_never_has_all_hashes(world: World):
    for at in range(10):
        world.log_in("ann", f"wrong{at}")
    assert len(world.hashing) < HASHING_MAX
    world.log_in("bob", "slow", FRIEND)
    assert len(world.hashing) == HASHING_MAX


def test_addresses_take_turns(world: World):
    for at in range(20):
        world.log_in("ann", f"wrong{at}")
    for at in range(3):
        world.log_in("bob", f"wrong{at}", FRIEND)
    world.log_in("guest", "wrong", "192.0.2.3")
    world.hash_all()
    names = [each.username for each in world.hashed]
    # One of each was hashed before it was the first one's turn for the third time.
    assert names[:7].count("ann") == 3
    assert names[:7].count("bob") == 3
    assert names[:7].count("guest") == 1


def test_at_one_address_names_take_turns(world: World):
    for at in range(100):
        world.log_in("guest", f"wrong{at}")
    world.log_in("ann", "slow")
    world.hash_one()
    world.hash_one()
    world.hash_one()
    assert ("ann", "let in") in world.heard


def test_an_address_that_is_full_makes_room_for_a_name_that_has_less(world: World):
    for at in range(600):
        attempt(world, "guest", f"wrong{at}")
    waiting = world.logins.waiting
    assert waiting <= WAITING_MAX // 2 + 1
    world.log_in("ann", "slow")
    assert world.logins.waiting == waiting
    assert world.heard[-1] == ("guest", "turned away")
    world.hash_all()
    assert ("ann", "let in") in world.heard


def test_a_name_that_has_as_much_as_any_gets_no_room(world: World):
    for at in range(600):
        attempt(world, f"name{at}", "wrong")
    with pytest.raises(TooManyLogins) as refused:
        world.log_in("ann", "slow")
    assert refused.value.text == (
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
        "For details see the broker logfile."
    )
    assert (refused.value.code, refused.value.closes_connection) == (403, True)
    assert refused.value.own
    assert f"password_hashes: at most {WAITING_MAX} may wait" in refused.value.why
    # Elsewhere there is room.
    world.log_in("ann", "slow", FRIEND)
    world.hash_all()
    assert ("ann", "let in") in world.heard


def test_many_addresses_leave_room_for_one_more(world: World):
    """Each has its share of the places, and those that become free are for who has none."""
    names = (f"name{at}" for at in itertools.count())
    addresses = [f"198.51.100.{at}" for at in range(20)]

    def attack(times: int) -> None:
        for _ in range(times):
            for address in addresses:
                attempt(world, next(names), "wrong", address)

    attack(30)
    world.hash_one()
    attack(1)
    world.log_in("ann", "slow", FRIEND)
    for _ in range(len(addresses) + 1 + HASHING_MAX):
        attack(1)
        world.hash_one()
    assert ("ann", "let in") in world.heard


def test_who_is_gone_gives_the_place_up(world: World):
    waiting = [world.log_in("ann", f"wrong{at}") for at in range(50)]
    for login in waiting:
        assert login is not None
        login.leave()
    assert world.logins.waiting == 0
    world.log_in("bob", "slow")
    world.hash_all()
    # What had been begun is finished, and told to nobody.
    assert [each.username for each in world.hashed] == ["ann", "bob"]
    assert world.heard == [("bob", "let in")]


def test_who_is_gone_is_not_told_and_may_say_so_twice(world: World):
    login = world.log_in("ann", "slow")
    assert login is not None
    login.leave()
    login.leave()
    world.hash_all()
    assert world.heard == []
    other = world.log_in("bob", "wrong")
    world.hash_all()
    assert other is not None
    other.leave()
    assert world.heard == [("bob", "refused")]


def test_the_same_claim_is_hashed_once(world: World):
    """As when an application with many connections comes back."""
    for _ in range(500):
        world.log_in("ann", "slow")
    leaving = world.log_in("ann", "slow")
    assert leaving is not None
    leaving.leave()
    world.hash_all()
    assert len(world.hashed) == 1
    assert world.heard == [("ann", "let in")] * 500


def test_the_same_claim_of_many_addresses_is_hashed_until_it_is_known(world: World):
    for at in range(50):
        world.log_in("ann", "slow", f"198.51.100.{at}")
    world.hash_all()
    assert len(world.hashed) <= HASHING_MAX
    assert world.heard == [("ann", "let in")] * 50


def test_the_same_claim_from_elsewhere_is_judged_by_itself(world: World):
    world.access.put_user(User("ann", SLOW, loopback_only=True))
    world.log_in("ann", "slow", loopback=True)
    world.log_in("ann", "slow", loopback=False)
    world.hash_all()
    assert sorted(world.heard) == [("ann", "let in"), ("ann", "refused")]


def test_an_answer_that_fails_does_not_stop_the_others(
    world: World, caplog: pytest.LogCaptureFixture
):
    def fail(_: object) -> None:
        raise RuntimeError

    credentials = Credentials("PLAIN", "ann", b"wrong")
    world.logins.begin(credentials, ATTACKER, loopback=True, answered=fail)
    world.log_in("bob", "slow")
    world.hash_all()
    assert world.heard == [("bob", "let in")]
    assert "the answer to a login failed" in caplog.text


def test_being_turned_away_is_said_once_until_nobody_waits(
    world: World, caplog: pytest.LogCaptureFixture
):
    for _ in range(2):
        for at in range(600):
            attempt(world, "ann", f"wrong{at}")
        world.hash_all()
    said = [each for each in caplog.messages if "logins are turned away" in each]
    assert len(said) == 2


def test_it_says_how_many_wait(world: World):
    world.log_in("ann", "a")
    world.log_in("ann", "b")
    assert repr(world.logins) == "<Logins waiting=1 hashing=1>"


def test_a_password_that_is_set_takes_turns_with_logins(world: World):
    world.log_in("ann", "a")
    done: list[int] = []
    for number in (1, 2):
        world.logins.hash("boss", lambda: None, partial(done.append, number))
    assert len(world.hashing) == 2  # one of each
    world.hash_one()
    assert world.heard == [("ann", "refused")]
    world.hash_all()
    assert done == [1, 2]
    assert world.logins.waiting == 0


def test_whoever_sets_a_password_and_goes_costs_no_hash(world: World):
    first = world.logins.hash("boss", lambda: None, lambda: None)
    second = world.logins.hash("boss", lambda: None, lambda: None)
    second.leave()
    first.leave()  # it is being hashed
    world.hash_all()
    assert world.hashing == []
    assert world.logins.waiting == 0


def test_too_many_passwords_that_are_set_are_refused(world: World):
    for _ in range(1 + WAITING_MAX // 2):
        world.logins.hash("boss", lambda: None, lambda: None)
    with pytest.raises(NoSlot) as refused:
        world.logins.hash("boss", lambda: None, lambda: None)
    assert (refused.value.limit, refused.value.own) == ("password_hashes", True)


def test_peers_who_claim_the_same_are_answered_in_steps(world: World):
    world.engine.clock.monotonic_ns = itertools.count(0, STEP_NS).__next__
    logins = [world.log_in("ann", "wrong") for _ in range(100)]
    world.hash_one()
    assert 1 <= len(world.heard) <= 5
    # Some leave while others are answered, and the same may be claimed again.
    assert logins[-1] is not None
    logins[-1].leave()
    world.log_in("ann", "wrong")
    while world.engine.busy:
        before = len(world.heard)
        world.engine.run()
        assert len(world.heard) - before <= 50
    assert world.heard == 99 * [("ann", "refused")]
    world.hash_one()
    assert len(world.heard) == 100
    assert world.hashing == []


def test_what_was_found_right_for_another_address_is_answered_in_steps(world: World):
    for address in (ATTACKER, FRIEND, "192.0.2.3"):
        for _ in range(100):
            world.log_in("ann", "slow", address)
    world.engine.clock.monotonic_ns = itertools.count(0, STEP_NS).__next__
    world.hash_one()
    assert 2 <= len(world.heard) <= 10
    world.hash_all()
    while world.engine.busy:
        world.engine.run()
    assert world.heard == 300 * [("ann", "let in")]
    assert len(world.hashed) < 3
