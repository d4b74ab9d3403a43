"""Who asks filter classes, without a process: as `leporid.server.judging` does it, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from leporid.engine.engine import Engine
from leporid.filterserver import frames
from leporid.filterserver.message import Message, messages_of

Predicate = Callable[[Message], bool]
ALL = 1000


class Asker(Protocol):
    """Somebody in the engine who has something to ask."""

    @property
    def name(self) -> str: ...
    def batch(self, most: int, bytes_max: int, /) -> tuple[bytes, int] | None: ...
    def judged(self, verdicts: bytes, /) -> None: ...
    def give_back(self) -> None: ...


def messages_in(frame: bytes) -> list[Message]:
    """A batch as a filter sees it."""
    kind, size = frames.HEAD.unpack_from(frame)
    assert (kind, size) == (frames.BATCH, len(frame) - frames.HEAD.size)
    return list(messages_of(frame[frames.HEAD.size :]))


class Judge:
    """Judges what is waiting, when it is told to.

    Attributes:
        classes: what each lets pass; tests replace them.
        waiting: who has something to ask, in turn.
        out: the verdicts for a batch that is out; they are those of the class as it was then.
        asked: the bodies of all messages that were asked about, in order.
    """

    def __init__(self, engine: Engine, **classes: Predicate) -> None:
        self.engine = engine
        self.classes = classes
        self.waiting: dict[Asker, None] = {}
        self.out: dict[Asker, bytes] = {}
        self.asked: list[bytes] = []

    def ask(self, most: int = ALL, bytes_max: int = 2**20) -> bool:
        """Take one batch of whoever is next; returns whether there was one."""
        self.waiting |= dict.fromkeys(self.engine.verdicts.take())
        for asker in list(self.waiting):
            if asker in self.out:
                continue
            del self.waiting[asker]
            batch = asker.batch(most, bytes_max)
            if batch is not None:
                self.waiting[asker] = None
                found = messages_in(batch[0])
                assert len(found) == batch[1]
                self.asked += [each.body for each in found]
                passes = self.classes[asker.name]
                self.out[asker] = bytes(passes(each) for each in found)
                return True
        return False

    def answer(self, asker: Asker | None = None) -> None:
        """The verdicts of a batch that is out come: of the first one, unless it is said which."""
        asker = asker or next(iter(self.out))
        asker.judged(self.out.pop(asker))

    def fail(self, asker: Asker | None = None) -> None:
        """They do not."""
        asker = asker or next(iter(self.out))
        del self.out[asker]
        asker.give_back()

    def renew(self, name: str, passes: Predicate) -> None:
        """Another version of a class counts."""
        self.classes[name] = passes
        self.engine.searches.renew_filter_class(name)

    def work(self) -> None:
        """Judge until there is nothing more to judge."""
        while True:
            settle_down(self.engine)
            while self.ask():
                pass
            if not self.out:
                settle_down(self.engine)
                if not self.engine.busy and not self.ask():
                    return
            while self.out:
                self.answer()


def settle_down(engine: Engine) -> None:
    engine.run()
    for _ in range(5000):
        if not engine.busy:
            return
        engine.run()
    raise AssertionError("the engine finds no end")
