"""The engine with sanitizers, in a place of its own, and the environment to run Python on it.

AddressSanitizer, UndefinedBehaviorSanitizer, and the counters that a fuzzer reads.

Must not know targets or tests. Invariant: the engine in src/ stays as it was.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
BUILD: Final = ROOT / "build" / "sanitized"
LIBRARY: Final = BUILD / "lib"

SANITIZERS: Final = "fuzzer-no-link,address,undefined"
# As Debian and others call it; the plain name first, for who has one of their own.
COMPILERS: Final = ("clang", *(f"clang-{version}" for version in range(21, 13, -1)))

# detect_leaks: Python itself keeps what it allocates at its start until the process ends, and so
# does every extension; what the broker leaks is measured by tests that count. The quarantine is
# what freed memory waits in; a large one makes a long run look like a leak.
# allocator_may_return_null: an allocation that fails is a case that the engine handles.
ASAN_OPTIONS: Final = (
    "detect_leaks=0",
    "allocator_may_return_null=1",
    "handle_abort=1",
    "quarantine_size_mb=32",
)


class Missing(Exception):
    """Something that must be installed first; the text says what, and how."""


def compiler() -> str:
    """Return clang; raises Missing."""
    for name in COMPILERS:
        if found := shutil.which(name):
            return found
    raise Missing(
        "clang and its runtime are needed to build with sanitizers; on Debian or Ubuntu: "
        "sudo apt-get install clang libclang-rt-dev (or clang-14 libclang-rt-14-dev)"
    )


def runtime() -> Path:
    """Return clang's AddressSanitizer as a library to preload; raises Missing."""
    for name in (
        "libclang_rt.asan-x86_64.so",
        "libclang_rt.asan-aarch64.so",
        "libclang_rt.asan.so",
    ):
        command = [compiler(), f"-print-file-name={name}"]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        if Path(printed).is_absolute() and Path(printed).exists():
            return Path(printed)
    version = Path(compiler()).name.partition("-")[2]
    package = f"libclang-rt-{version}-dev" if version else "libclang-rt-dev (or -14-dev)"
    raise Missing(
        f"{compiler()} has no AddressSanitizer library; on Debian or Ubuntu: "
        f"sudo apt-get install {package}"
    )


def libfuzzer() -> list[Path]:
    """Return what atheris has preloaded so that the engine's counters count; raises Missing.

    The second gives libFuzzer the mutations of a target: it looks for them when it is loaded.
    """
    found = importlib.util.find_spec("atheris")
    if found is None or found.origin is None:
        raise Missing(f"atheris is needed to fuzz: {sys.executable} -m pip install atheris")
    package = Path(found.origin).parent
    mutator = sorted(package.glob("custom_mutator.*.so"))
    return [package.parent / "asan_with_fuzzer.so", *mutator]


def build() -> None:
    """Build what has changed, the Python modules included; raises Missing."""
    runtime()
    environment = os.environ | {"CC": compiler(), "LEPORID_SANITIZE": SANITIZERS}
    for name in ("LEPORID_TRACE", "LEPORID_SKIP_ENGINE"):
        environment.pop(name, None)
    BUILD.mkdir(parents=True, exist_ok=True)
    log = BUILD / "build.log"
    with log.open("w", encoding="utf-8") as out:
        done = subprocess.run(
            [sys.executable, "setup.py", "--quiet", "build"],
            cwd=ROOT,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        raise Missing(f"the engine with sanitizers does not build; see {log}")


def plain() -> dict[str, str]:
    """Return the environment for Python on the ordinary engine."""
    return os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}


def environment(preload: list[Path], *, symbols: bool, log: Path | None = None) -> dict[str, str]:
    """Return the environment for Python on that engine.

    Args:
        preload: libraries that come before all others.
        symbols: whether a report names functions and lines, which takes seconds.
        log: begins the names of the files that reports go to; None: standard error.
    """
    options = [*ASAN_OPTIONS, f"symbolize={int(symbols)}"]
    if log is not None:
        options.append(f"log_path={log}")
    return os.environ | {
        "LD_PRELOAD": " ".join(map(str, preload)),
        "ASAN_OPTIONS": ":".join(options),
        "UBSAN_OPTIONS": "print_stacktrace=1",
        # So that each object has its own block, with red zones around it.
        "PYTHONMALLOC": "malloc",
        # An input takes the same way each time.
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join((str(LIBRARY), str(ROOT))),
    }
