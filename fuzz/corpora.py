"""The inputs that are kept: for each target a minimised corpus, and what it once failed for.

    fuzz/corpora/TARGET.tar.xz        inputs that reach, together, all that a fuzzer has reached
    fuzz/regressions/TARGET/NAME      inputs that once were a defect; NAME says which

Must not know fuzzers or targets. Invariant: an archive of the same inputs has the same bytes, so
that git keeps one version of it.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent
CORPORA: Final = ROOT / "corpora"
REGRESSIONS: Final = ROOT / "regressions"


def name_of(data: bytes) -> str:
    """What an input is called; as libFuzzer names it."""
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def corpus(target: str) -> Iterator[bytes]:
    """The inputs in a target's archive; none if there is no archive."""
    archive = CORPORA / f"{target}.tar.xz"
    if not archive.exists():
        return
    with tarfile.open(archive) as opened:
        for member in opened:
            content = opened.extractfile(member)
            assert content is not None
            yield content.read()


def regressions(target: str) -> Iterator[tuple[str, bytes]]:
    """The inputs that a target once failed for, by name."""
    for path in sorted((REGRESSIONS / target).glob("*")):
        yield path.name, path.read_bytes()


def write(target: str, inputs: Iterable[bytes]) -> Path:
    """Replace a target's archive; returns it."""
    CORPORA.mkdir(exist_ok=True)
    archive = CORPORA / f"{target}.tar.xz"
    # Like beside like: it compresses better than by name.
    ordered = sorted(set(inputs), key=lambda data: (data[:8], data))
    with tarfile.open(archive, "w:xz", preset=9) as opened:
        for number, data in enumerate(ordered):
            # Their hashes would be a third of an archive.
            member = tarfile.TarInfo(f"{number}")
            member.size = len(data)
            opened.addfile(member, io.BytesIO(data))
    return archive
