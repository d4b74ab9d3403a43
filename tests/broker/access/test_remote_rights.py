"""What a server says of rights: for how long it counts, how it is renewed, and who waits for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import pytest
from tests.engine.session_fake import make_engine
from tests.engine.slices import MS, steps_of

from leporid.amqp.errors import AccessRefused, NotAllowed
from leporid.broker.access import remote_rights
from leporid.broker.access.access import User
from leporid.broker.access.passwords import NoPassword
from leporid.broker.access.remote_rights import (
    ROUNDS_MAX,
    RemotePermissions,
    RemoteRights,
    RemoteTopics,
    RightPending,
    RightQuery,
    RightsJob,
    decided,
)

ENTER = RightQuery("vhost", "/")
READ = RightQuery("queue", "/", "q", "read")
AGE_S = 10.0


class Server:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.age_s = AGE_S
        self.asked: list[RightQuery] = []
        self.waiting: dict[RightQuery, Callable[[bool | None], None]] = {}
        self.revocations = 0
        self.engine = make_engine()
        self.rights = RemoteRights(
            self.send,
            lambda: self.age_s,
            lambda: self.now_s,
            self.note_revocation,
            self.engine.jobs,
        )
        self.user = User(
            "jo",
            NoPassword(),
            permissions=RemotePermissions(self.rights),
            topics=RemoteTopics(self.rights),
            remote=self.rights,
        )

    def send(self, query: RightQuery, answered: Callable[[bool | None], None]) -> None:
        assert query not in self.waiting
        self.asked.append(query)
        self.waiting[query] = answered

    def note_revocation(self) -> None:
        self.revocations += 1

    def say(self, query: RightQuery, granted: bool | None) -> None:
        self.waiting.pop(query)(granted)

    def decide(self, query: RightQuery, granted: bool | None) -> None:
        """Have a right asked for, and answer."""
        self.rights.ask(query, lambda: None)
        self.say(query, granted)


@pytest.fixture
def server() -> Server:
    return Server()


def nothing() -> None:
    pass


def test_what_is_not_known_is_pending_until_it_is_said(server: Server):
    with pytest.raises(RightPending) as caught:
        server.rights.grants(READ)
    told: list[str] = []
    caught.value.pending.ask(lambda: told.append("a"))
    server.rights.ask(READ, lambda: told.append("b"))
    assert (server.asked, told) == ([READ], [])
    server.say(READ, True)
    assert told == ["a", "b"]
    assert server.rights.grants(READ)
    server.decide(ENTER, False)
    assert not server.rights.grants(ENTER)


def test_an_answer_counts_as_long_as_it_is_young(server: Server):
    server.decide(READ, True)
    server.now_s += AGE_S / 2 - 0.1
    assert server.rights.grants(READ)
    assert server.asked == [READ]
    # From half of that on it is renewed, while it counts.
    server.now_s += 0.2
    assert server.rights.grants(READ)
    assert server.rights.grants(READ)
    assert server.asked == [READ, READ]
    server.now_s += AGE_S / 2
    with pytest.raises(RightPending):
        server.rights.grants(READ)
    server.say(READ, True)
    assert server.rights.grants(READ)


def test_what_is_taken_away_is_told_once(server: Server):
    for granted, revocations in ((True, 0), (False, 1), (False, 1), (True, 1), (False, 2)):
        server.decide(READ, granted)
        assert server.revocations == revocations
        assert server.rights.grants(READ) is granted


def test_an_answer_that_does_not_come_grants_nothing(server: Server):
    server.decide(READ, None)
    assert not server.rights.grants(READ)
    server.now_s += remote_rights.FAILED_S
    with pytest.raises(RightPending):
        server.rights.grants(READ)
    # One that is known counts to its end, and is asked for again meanwhile.
    server.decide(READ, True)
    server.now_s += AGE_S / 2
    assert server.rights.grants(READ)
    server.say(READ, None)
    assert server.rights.grants(READ)
    assert READ not in server.waiting
    server.now_s += remote_rights.FAILED_S
    assert server.rights.grants(READ)
    assert READ in server.waiting
    server.say(READ, None)
    server.now_s += AGE_S / 2
    with pytest.raises(RightPending):
        server.rights.grants(READ)


def test_answers_count_for_a_second_at_least(server: Server):
    server.age_s = 0
    server.decide(READ, True)
    server.now_s += 0.9
    assert server.rights.grants(READ)
    server.now_s += 0.2
    with pytest.raises(RightPending):
        server.rights.grants(READ)
    assert server.rights.recheck_ms == 250
    server.age_s = AGE_S
    assert server.rights.recheck_ms == 2500


def test_the_oldest_answers_are_forgotten(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(remote_rights, "ANSWERS_MAX", 3)
    queries = [RightQuery("queue", "/", f"q{number}", "read") for number in range(4)]
    for query in queries[:3]:
        server.decide(query, True)
    assert server.rights.grants(queries[0])  # used last
    server.decide(queries[3], True)
    assert server.rights.answer_count == 3
    assert server.rights.grants(queries[0])
    with pytest.raises(RightPending):
        server.rights.grants(queries[1])


def test_who_asks_for_too_much_at_once_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(remote_rights, "ASKING_MAX", 2)
    for name in ("a", "b"):
        server.rights.ask(RightQuery("queue", "/", name, "read"), nothing)
    with pytest.raises(AccessRefused):
        server.user.may("read", "queue", "c", "/")
    with pytest.raises(RightPending):
        server.user.may("read", "queue", "a", "/")


def test_nothing_has_a_name_that_amqp_could_not_say(server: Server):
    assert not server.user.may("read", "queue", "q" * 256, "/")
    assert "v" * 256 not in server.user.permissions
    assert server.asked == []


def test_who_leaves_is_not_told(server: Server):
    told: list[str] = []
    leave = server.rights.ask(READ, lambda: told.append("left"))
    server.rights.ask(READ, lambda: told.append("stayed"))
    leave()
    server.say(READ, True)
    leave()
    assert told == ["stayed"]


def test_many_that_wait_for_one_answer_are_told_in_steps(server: Server):
    """Each goes on with what it waited to do."""
    server.engine.clock.monotonic_ns = itertools.count(0, MS).__next__
    told: list[int] = []
    leaves = [server.rights.ask(READ, partial(told.append, at)) for at in range(100)]
    server.say(READ, True)
    assert len(told) <= 3
    assert server.rights.grants(READ)
    leaves[50]()
    steps = steps_of(server.engine, lambda: len(told))
    assert max(steps) <= 3
    assert told == [*range(50), *range(51, 100)]


def test_a_user_asks_for_what_it_does(server: Server):
    user = server.user

    def asked(check: Callable[[], Any]) -> RightQuery:
        with pytest.raises(RightPending) as caught:
            check()
        query = caught.value.pending._query
        server.decide(query, True)
        check()
        server.decide(query, False)
        return query

    assert asked(lambda: user.check_vhost("v")) == RightQuery("vhost", "v")
    with pytest.raises(NotAllowed):
        user.check_vhost("v")
    query = asked(lambda: user.check("write", "exchange", "", "v"))
    assert query == RightQuery("exchange", "v", "amq.default", "write")
    with pytest.raises(AccessRefused, match=r"write access to exchange 'amq.default'"):
        user.check("write", "exchange", "", "v")
    query = asked(lambda: user.check("configure", "queue", "q", "v"))
    assert query == RightQuery("queue", "v", "q", "configure")
    query = asked(lambda: user.check_key("read", "t", "a.b", "v"))
    assert query == RightQuery("topic", "v", "t", "read", "a.b")
    with pytest.raises(AccessRefused, match=r"topic 'a.b' in exchange 't'"):
        user.check_key("read", "t", "a.b", "v")
    # Nothing is listed: whoever shows permissions shows none.
    assert (list(user.permissions), list(user.topics)) == ([], [])
    assert user == user


# ---------------------------------------------------------------- work that waits


def test_a_job_takes_no_turns_while_it_waits(server: Server):
    engine, waiting, ended = make_engine(), dict[RightsJob, None](), list[str]()

    def steps() -> Generator[object, None, str]:
        yield None
        may = yield from decided(lambda: server.user.may("read", "queue", "q", "/"))
        return f"may {may}"

    RightsJob(engine.jobs, steps(), ended.append, None, waiting, nothing)
    assert len(waiting) == 1
    assert engine.jobs.waiting == 0
    assert ended == []
    server.say(READ, True)
    assert (ended, len(waiting), engine.jobs.waiting) == (["may True"], 0, 0)
    # What is known is not waited for.
    RightsJob(engine.jobs, steps(), ended.append, None, waiting, nothing)
    assert ended == ["may True"] * 2


def test_a_job_that_is_left_does_nothing_more(server: Server):
    engine, waiting, said = make_engine(), dict[RightsJob, None](), list[object]()

    def steps() -> Generator[object, None, None]:
        try:
            yield from decided(lambda: server.user.check_vhost("/"))
            said.append("went on")
        finally:
            said.append("closed")

    RightsJob(engine.jobs, steps(), said.append, said.append, waiting, lambda: said.append("left"))
    for job in tuple(waiting):
        job.leave()
    assert (said, waiting) == (["closed", "left"], {})
    server.say(ENTER, True)
    assert said == ["closed", "left"]


def test_what_a_job_raises_is_told(server: Server):
    engine, failed = make_engine(), list[Exception]()

    def steps() -> Generator[object, None, None]:
        yield from decided(lambda: server.user.check_vhost("/"))

    RightsJob(engine.jobs, steps(), nothing, failed.append, {}, nothing)  # type: ignore[arg-type]
    server.say(ENTER, False)
    assert [type(each) for each in failed] == [NotAllowed]


def test_what_needs_one_right_after_another_ends(server: Server):
    engine, failed = make_engine(), list[Exception]()
    numbers = iter(range(1000))

    def steps() -> Generator[object, None, bool]:
        return (
            yield from decided(lambda: server.user.may("read", "queue", f"{next(numbers)}", "/"))
        )

    RightsJob(engine.jobs, steps(), lambda _: None, failed.append, {}, nothing)
    while server.waiting:
        server.say(next(iter(server.waiting)), True)
    assert [type(each) for each in failed] == [AccessRefused]
    assert len(server.asked) == ROUNDS_MAX
