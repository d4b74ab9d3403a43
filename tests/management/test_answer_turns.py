"""Turns: one piece of work in each round of the loop."""

import asyncio

from leporid.management.answer_turns import AnswerTurns


async def test_one_turn_a_round_in_the_order_of_asking():
    turns = AnswerTurns()
    log: list[str] = []

    async def work(name: str) -> None:
        for _ in range(2):
            await turns.next("ann")
            log.append(name)

    async def other() -> None:
        for _ in range(8):
            await asyncio.sleep(0)
            log.append("-")

    await asyncio.gather(work("a"), work("b"), other())
    busy = "".join(log)
    assert [each for each in log if each != "-"] == ["a", "b", "a", "b"]
    # Never two pieces of work in the same round.
    assert not any(pair in busy for pair in ("ab", "ba", "aa", "bb"))


async def test_who_goes_away_leaves_the_turn_to_the_next():
    turns = AnswerTurns()
    gone = asyncio.create_task(turns.next("ann"))
    stays = asyncio.create_task(turns.next("ann"))
    await asyncio.sleep(0)
    gone.cancel()
    async with asyncio.timeout(5):
        await stays


async def test_keys_take_turns_however_many_each_has_waiting():
    turns = AnswerTurns()
    log: list[str] = []

    async def work(key: str) -> None:
        await turns.next(key)
        log.append(key)

    await asyncio.gather(*map(work, ["a", "a", "a", "b", "b", "c"]))
    assert "".join(log) == "abcaba"
