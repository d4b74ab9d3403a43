"""Fuzzes targets, one after another, and says what was found.

    python fuzz/run.py frames tables --seconds 60     these
    python fuzz/run.py all --seconds 1800             every one
    python fuzz/run.py frames --replay FILE...        inputs, with a stack that names lines
    python fuzz/run.py all --minimise                 what was reached, into fuzz/corpora/
    python fuzz/run.py http --plain                   on the ordinary engine: faster, for
                                                      what is Python above all

Inputs are kept in build/fuzz/TARGET, so that the next run goes on where this one was. Responsible
for directories and processes; must not know what a target does. Exit code: 0 nothing was found,
1 something was, 2 something must be installed first.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from fuzz import build, corpora  # noqa: E402 - found once the root is in the path

HERE: Final = Path(__file__).parent
WORK: Final = ROOT / "build" / "fuzz"
TARGETS: Final = tuple(sorted(path.stem for path in (HERE / "targets").glob("*.py")))

SECONDS: Final = 60
# Longer inputs cost more than they reach; those of these two are files.
INPUT_BYTES_MAX: Final = 8192
FILE_BYTES_MAX: Final = 16384
FILES: Final = ("arrow", "segments")
# Of the wall: a machine that is busy with something else must not look like an endless loop, which
# this is for; what an input takes of the processor is bounded in `inside`.
HANG_SECONDS: Final = 60
MEMORY_MB_MAX: Final = 3000
# No input may have the broker allocate this much at once.
ALLOCATION_MB_MAX: Final = 512
# After so many findings a target needs mending, not fuzzing.
FINDINGS_MAX: Final = 10

_STAT: Final = re.compile(r"^stat::(\w+):\s+(\d+)", re.MULTILINE)
_COVERED: Final = re.compile(r"^#\d+.*? cov: (\d+) ft: (\d+) corp: (\d+)/", re.MULTILINE)
_KEPT: Final = re.compile(r"Test unit written to (\S+)")


@dataclass(slots=True)
class Outcome:
    """What became of one target."""

    executions: int = 0
    edges: int = 0
    features: int = 0
    inputs: int = 0
    findings: tuple[Path, ...] = ()

    def read(self, log: str) -> None:
        """Add what libFuzzer has said."""
        stats = dict(_STAT.findall(log))
        self.executions += int(stats.get("number_of_executed_units", 0))
        for edges, features, inputs in _COVERED.findall(log):
            self.edges = max(self.edges, int(edges))
            self.features = max(self.features, int(features))
            self.inputs = int(inputs)
        self.findings += tuple(Path(found) for found in _KEPT.findall(log))


def inside(
    target: str,
    arguments: Sequence[str | Path],
    *,
    mutating: bool = False,
    symbols: bool = False,
    plain: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run libFuzzer on a target; what it says goes to a file, and is returned."""
    command = [sys.executable, str(HERE / "inside.py"), target, *map(str, arguments)]
    preload = build.libfuzzer()
    if not mutating and not plain:
        # With the mutator preloaded no other process can be started, nor a symbolizer.
        preload = preload[:1]
        command.insert(3, "-without-mutations")
    done = subprocess.run(
        command,
        env=build.plain() if plain else build.environment(preload, symbols=symbols),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    (WORK / target / "log").write_text(done.stdout, encoding="utf-8")
    return done


def prepare(target: str) -> Path:
    """Lay out a target's seeds and corpus; returns where they are."""
    directory = WORK / target / "corpus"
    directory.mkdir(parents=True, exist_ok=True)
    once = (data for _, data in corpora.regressions(target))
    for data in (*corpora.corpus(target), *once):
        (directory / corpora.name_of(data)).write_bytes(data)
    command = [sys.executable, str(HERE / "seeds.py"), target, str(directory)]
    environment = build.environment([build.runtime()], symbols=False)
    subprocess.run(command, env=environment, check=True)
    return directory


def fuzz(target: str, seconds: int, *, plain: bool) -> Outcome:
    """Fuzz one target for so long, going on after what was found."""
    directory = prepare(target)
    size_max = FILE_BYTES_MAX if target in FILES else INPUT_BYTES_MAX
    outcome = Outcome()
    spent = 0
    while spent < seconds and len(outcome.findings) < FINDINGS_MAX:
        done = inside(
            target,
            [
                f"-max_total_time={seconds - spent}",
                f"-timeout={HANG_SECONDS}",
                f"-rss_limit_mb={MEMORY_MB_MAX}",
                f"-malloc_limit_mb={ALLOCATION_MB_MAX}",
                f"-max_len={size_max}",
                f"-artifact_prefix={WORK / target}/",
                "-print_final_stats=1",
                "-print_funcs=0",
                directory,
            ],
            mutating=True,
            plain=plain,
        )
        before = len(outcome.findings)
        outcome.read(done.stdout)
        if done.returncode == 0:
            break
        if len(outcome.findings) == before:
            raise RuntimeError(f"the fuzzer of {target} did not run: see {WORK / target / 'log'}")
        took = re.search(r"in (\d+) second", done.stdout)
        spent += int(took[1]) if took else seconds // FINDINGS_MAX + 1
    return outcome


def minimise(target: str) -> str:
    """Keep of a target's inputs those that reach something together."""
    directory, least = prepare(target), WORK / target / "least"
    least.mkdir(exist_ok=True)
    for path in least.iterdir():
        path.unlink()
    done = inside(target, ["-merge=1", f"-timeout={HANG_SECONDS}", least, directory])
    if done.returncode:
        raise RuntimeError(f"the corpus of {target} is as it was: see {WORK / target / 'log'}")
    inputs = [path.read_bytes() for path in least.iterdir()]
    archive = corpora.write(target, inputs)
    return f"{len(inputs)} inputs, {archive.stat().st_size} bytes"


def replay(target: str, paths: Sequence[Path]) -> int:
    """Run a target over files; returns how many fail."""
    (WORK / target).mkdir(parents=True, exist_ok=True)
    failed = 0
    for path in paths:
        done = inside(target, [path], symbols=True)
        if done.returncode:
            failed += 1
            sys.stdout.write(done.stdout)
        sys.stdout.write(f"{path}: {'failed' if done.returncode else 'passed'}\n")
    return failed


def main() -> int:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(description="Fuzz the broker.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"all, {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for each target")
    parser.add_argument("--plain", action="store_true", help="without sanitizers")
    parser.add_argument("--minimise", action="store_true", help="renew fuzz/corpora/")
    parser.add_argument("--replay", nargs="+", type=Path, metavar="FILE", help="run these inputs")
    given = parser.parse_args()
    chosen = TARGETS if given.targets in ([], ["all"]) else tuple(given.targets)
    if unknown := set(chosen) - set(TARGETS):
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    if given.replay and len(chosen) != 1:
        parser.error("--replay needs one target")
    try:
        build.libfuzzer()
        build.build()
    except build.Missing as missing:
        sys.stderr.write(f"{missing}\n")
        return 2
    if given.replay:
        return int(replay(chosen[0], given.replay) > 0)
    found = 0
    for target in chosen:
        if given.minimise:
            sys.stdout.write(f"{target:12} {minimise(target)}\n")
            continue
        outcome = fuzz(target, given.seconds, plain=given.plain)
        sys.stdout.write(
            f"{target:12} {outcome.executions} executions, {outcome.edges} edges, "
            f"{outcome.features} features, {outcome.inputs} inputs kept\n"
        )
        for path in outcome.findings:
            sys.stdout.write(f"{target:12} FOUND {path}\n")
        sys.stdout.flush()
        found += len(outcome.findings)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
