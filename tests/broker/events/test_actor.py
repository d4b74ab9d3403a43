"""Who is acting, in one go and in steps."""

from __future__ import annotations

from leporid.broker.events.actor import acting, acting_steps, actor
from leporid.broker.registry import StepsTo, finished


def test_whoever_acts_does_so_within_the_block():
    assert actor() is None
    with acting("ann"):
        with acting("ben"):
            assert actor() == "ben"
        assert actor() == "ann"
    assert actor() is None


def test_each_step_is_of_its_user_and_what_is_between_is_not():
    seen = []

    def steps() -> StepsTo[str]:
        seen.append(actor())
        yield None
        seen.append(actor())
        return "done"

    work = acting_steps("ann", steps())
    next(work)
    assert actor() is None
    assert finished(work) == "done"
    assert seen == ["ann", "ann"]
    assert actor() is None
