"""The process of one filter class: load it, then give verdicts until there is no more to read.

Started by `host`, which says how much memory and how much time there is. What a filter prints goes
nowhere: the pipes to the broker are moved away from where it would print. This keeps mistakes from
doing harm; it is no prison for code that wants to (docs/filter-classes.md).

Invariant: for each frame that comes in, one goes out, or the process ends; whatever a filter does
but give True or False for each message is a failure, and is never taken for an answer.
"""

from __future__ import annotations

import ctypes
import itertools
import linecache
import os
import resource
import signal
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO, Final

from leporid.filterserver import frames
from leporid.filterserver.message import Message, messages_of

Judge = Callable[[Iterable[Message]], Sequence[bool]]

FILE_NAME: Final = "<filter class>"
"""What tracebacks say of the source."""

MODULE: Final = "filter_class"
"""The module that the source becomes."""

NICENESS: Final = 5
"""When both want the processor, the broker has three times as much of it."""

DESCRIPTORS_MAX: Final = 256

INHERITED_MAX: Final = 1 << 16
"""Descriptors below are closed, whoever left them open."""

ASYNC_FLAGS: Final = 0x80 | 0x200
"""Of code that is a coroutine or an asynchronous generator; `inspect` takes long to import."""

PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Serve what comes through standard input; arguments: bytes, seconds, the broker's pid."""
    memory_bytes, batch_seconds = int(sys.argv[1]), float(sys.argv[2])
    requests, answers = _pipes()
    _confine(memory_bytes, int(sys.argv[3]))
    try:
        serve(requests, answers, batch_seconds)
    except BrokenPipeError:
        pass
    # Threads that a filter started, and what it registered for the end, do not count.
    os._exit(0)


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Move both pipes away from descriptors 0 and 1, where whoever prints would write."""
    requests = os.fdopen(os.dup(0), "rb", buffering=1 << 20)
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    # The broker's loop hands on what the broker itself was left by whoever started it.
    kept = sorted((2, requests.fileno(), answers.fileno(), INHERITED_MAX))
    for low, high in itertools.pairwise(kept):
        os.closerange(low + 1, high)
    return requests, answers


def _confine(memory_bytes: int, broker: int) -> None:
    """Limit what a mistake can cost the machine."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if sys.platform == "linux":
        # A broker that is killed takes its filters along, in whatever they are.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != broker:
            os._exit(0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS_MAX, DESCRIPTORS_MAX))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    os.nice(NICENESS)


def serve(requests: BinaryIO, answers: BinaryIO, batch_seconds: float) -> None:
    """Answer each request until there are none."""
    judge: Judge | None = None
    this, number = os.getpid(), 0
    while head := requests.read(frames.HEAD.size):
        kind, size = frames.HEAD.unpack(head)
        payload = requests.read(size)
        # Its end by SIGALRM needs neither the interpreter nor the broker.
        signal.setitimer(signal.ITIMER_REAL, batch_seconds)
        try:
            if kind == frames.LOAD:
                judge = load(*frames.loaded(payload))
                answer = frames.answer_frame(frames.READY, number)
            else:
                assert judge is not None
                answer = frames.answer_frame(frames.VERDICTS, number, verdicts(judge, payload))
        except BaseException as error:  # noqa: BLE001 - sys.exit() is no answer, nor is Ctrl-C
            answer = frames.answer_frame(frames.FAILED, number, _said(error))
        if os.getpid() != this:
            os._exit(0)  # a copy that the filter made of itself: the question was not for it
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(answer)
        answers.flush()
        number += 1


class WrongAnswerError(Exception):
    """What a filter gave is no verdict."""


def load(class_name: str, source: bytes) -> Judge:
    """Make the filter; returns what gives a verdict for each of some messages, in order."""
    # Where dataclasses, pickles and tracebacks look for what belongs to a class.
    module = sys.modules[MODULE] = types.ModuleType(MODULE)
    lines = source.decode("utf-8", "replace").splitlines(keepends=True)
    linecache.cache[FILE_NAME] = len(source), None, lines, FILE_NAME
    exec(compile(source, FILE_NAME, "exec"), module.__dict__)  # noqa: S102 - what this is for
    if not hasattr(module, class_name):
        raise WrongAnswerError(f"there is no class {class_name} in the source")
    made = getattr(module, class_name)()
    whole, single = getattr(made, "match_batch", None), getattr(made, "match", None)
    for name, function in (("match_batch", whole), ("match", single)):
        if getattr(getattr(function, "__code__", None), "co_flags", 0) & ASYNC_FLAGS:
            raise WrongAnswerError(f"{name} must give its answer at once: def, and not async def")
    if callable(whole):
        return lambda messages: _of_batch(whole, list(messages))
    if callable(single):
        return lambda messages: _one_by_one(single, messages)
    raise WrongAnswerError(f"{class_name} has neither a method match nor match_batch")


def _of_batch(match_batch: Callable[[list[Message]], Any], given: list[Message]) -> list[bool]:
    found = list(match_batch(given))
    if len(found) != len(given):
        raise WrongAnswerError(
            f"match_batch gave {len(found)} verdicts for {len(given)} messages, not one for each"
        )
    return found


def _one_by_one(match: Callable[[Message], Any], messages: Iterable[Message]) -> list[bool]:
    found: list[bool] = []
    for message in messages:
        try:
            found.append(match(message))
        except BaseException as error:
            error.add_note(f"It was asked about message {len(found)} of its batch: {message!r}")
            raise
    return found


def verdicts(judge: Judge, payload: bytes) -> bytes:
    """Return 1 or 0 for each message of a batch; raises what the filter raises."""
    found = judge(messages_of(payload))
    for kind in set(map(type, found)) - {bool}:
        name = kind.__name__
        if kind.__module__ != "builtins":
            name = f"{kind.__module__}.{name}"  # as numpy.bool
        raise WrongAnswerError(
            f"a verdict is True or False, and this filter gave {name}; bool(…) makes one"
        )
    return bytes(found)


def _said(error: BaseException) -> bytes:
    """Tell what went wrong, without the lines that are ours."""
    try:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        text = "".join(traceback.format_exception(type(error), error, trace))
        if isinstance(error, WrongAnswerError):
            text = str(error)  # which is ours, and says it all
    except Exception:  # noqa: BLE001 - its own text is a filter's, too
        text = type(error).__name__
    return text.strip().encode("utf-8", "replace")[-frames.ERROR_BYTES_MAX :]
