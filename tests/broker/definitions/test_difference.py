"""What is told of an import."""

from __future__ import annotations

from leporid.broker.definitions import difference as module
from leporid.broker.definitions.difference import IDENTITIES, Difference
from leporid.broker.registry import finished


def test_it_is_listed_by_noun_and_counted():
    found = Difference()
    found["queues"].added.append(("/", "q"))
    found["queues"].unchanged = 2
    found["permissions"].conflicting.append((("/", "ann"), "why"))
    assert found.summary() == "1 added, 0 changed, 2 unchanged, 1 conflicting, 0 ignored"
    assert found.is_worth_telling
    shown = found.shown()
    assert shown.keys() == {*IDENTITIES, "ignored", "ignored_count"}
    assert list(shown["queues"]["added"]) == [{"vhost": "/", "name": "q"}]
    assert list(shown["permissions"]["conflicting"]) == [
        {"vhost": "/", "user": "ann", "reason": "why"}
    ]


def test_of_what_is_ignored_so_many_are_listed():
    found = Difference()
    assert not found.is_worth_telling
    for count in range(module.IGNORED_MAX + 5):
        found.ignore(str(count), "why")
    shown = found.shown()
    assert len(list(shown["ignored"])) == module.IGNORED_MAX
    assert shown["ignored_count"] == module.IGNORED_MAX + 5


def test_it_is_freed_in_steps():
    found = Difference()
    found["queues"].added.extend([("/", str(count)) for count in range(5)])
    assert sum(1 for _ in found.forgetting()) == 5
    finished(found.forgetting())
    assert not found["queues"].added
