"""Builds the engine: every `.pyx` in `src/leporid/engine`, and in the client, becomes one module.

Everything else about the package is in pyproject.toml. Three variables of the environment matter:

LEPORID_TRACE=1         build with line tracing, so that coverage and profilers see into the engine
LEPORID_SKIP_ENGINE=1   do not build the engine (the Makefile does, in a step of its own)
LEPORID_SANITIZE=KINDS  build with these sanitizers of the compiler, into build/sanitized/lib; for
                        `make fuzz` and `make sanitize` (fuzz/build.py)
"""

import os
import re
import sys
from pathlib import Path

from setuptools import Extension, setup

ENGINE = Path("src/leporid/engine")
CLIENT = Path("src/leporid/client")
TRACE = os.environ.get("LEPORID_TRACE", "") not in ("", "0")
SANITIZE = os.environ.get("LEPORID_SANITIZE", "")
# What lists files only needs no C.
LISTS_FILES = {"dist_info", "egg_info", "sdist"}
SKIP = os.environ.get("LEPORID_SKIP_ENGINE", "") not in ("", "0") or not LISTS_FILES.isdisjoint(
    sys.argv
)

INCLUDE = re.compile(r'^#include "(.+)"', re.MULTILINE)
BUILD = Path("build", "sanitized" if SANITIZE else "traced" if TRACE else "plain")

# Warnings about generated C cannot be fixed here; tests/tidy compiles the headers with all of them.
# Debug information would be two thirds of a module; tracebacks and profilers find functions and
# lines of Cython without it.
# C throws nothing, so tables for unwinding are of use to debuggers alone; they, and room between
# code and constants, would be a tenth of each module. Padding before functions and
# targets of jumps would be a thirtieth, and executes as instructions that do nothing.
PLAIN_ARGUMENTS = [
    "-O3",
    "-w",
    "-g0",
    "-fno-asynchronous-unwind-tables",
    "-fno-align-functions",
    "-fno-align-jumps",
    "-fno-align-labels",
]
PLAIN_LINK_ARGUMENTS = ["-Wl,-z,noseparate-code"]
# Of these folders the third level of optimisation is a twelfth more code, mostly copies of
# functions, and no instruction less for a message (`bench/engine.py --instructions`).
SECOND_LEVEL = {"bounds", "connection", "internal"}
# What is found ends the process, with a stack that names lines.
SANITIZED_ARGUMENTS = [
    "-O1",
    "-w",
    "-g1",
    "-UNDEBUG",
    "-fno-omit-frame-pointer",
    f"-fsanitize={SANITIZE}",
    "-fno-sanitize-recover=all",
]

DIRECTIVES = {
    "language_level": "3",
    "boundscheck": False,  # every index is checked against a named limit by hand,
    "wraparound": False,  # and none is negative
    "initializedcheck": False,
    "cdivision": True,  # C's division: no test for zero, truncation
    # Nothing compiled is pickled or copied: what it refers to belongs to one process, and once. The
    # code that Cython adds for it would be a tenth of a module.
    "auto_pickle": False,
    # Nothing compiled is asked for its annotations, or becomes a method of another class. The
    # functions that know how would be a seventh of a module. Signatures are text.
    "binding": False,
    "embedsignature": True,
    "embedsignature.format": "clinic",
    "linetrace": TRACE,
}


def compile_arguments(source: Path) -> list[str]:
    if SANITIZE:
        return SANITIZED_ARGUMENTS
    return [*PLAIN_ARGUMENTS, "-O2"] if source.parent.name in SECOND_LEVEL else PLAIN_ARGUMENTS


def engine_modules() -> list[Extension]:
    from Cython.Build import cythonize

    extensions = [
        Extension(
            ".".join(source.relative_to("src").with_suffix("").parts),
            [str(source)],
            include_dirs=[str(ENGINE / "wire")],
            extra_compile_args=compile_arguments(source),
            extra_link_args=[f"-fsanitize={SANITIZE}"] if SANITIZE else PLAIN_LINK_ARGUMENTS,
            define_macros=[("CYTHON_TRACE", "1"), ("CYTHON_TRACE_NOGIL", "1")] if TRACE else [],
        )
        for source in sorted([*ENGINE.rglob("*.pyx"), *CLIENT.glob("*.pyx")])
    ]
    # Cython looks at the times of files alone.
    made, directives = BUILD / "directives", repr(DIRECTIVES)
    modules = cythonize(
        extensions,
        force=not made.exists() or made.read_text() != directives,
        build_dir=str(BUILD / "cython"),
        compiler_directives=DIRECTIVES,
        nthreads=os.cpu_count() or 1,
        quiet=True,
    )
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_text(directives)
    for module in modules:  # Cython has found the headers that it names itself, in any order
        module.include_dirs.sort()
        module.depends = sorted(with_included({Path(name) for name in module.depends}))
    return modules


def with_included(headers: set[Path]) -> set[str]:
    """These headers, and those that they include."""
    found: set[Path] = set()
    while headers:
        header = headers.pop()
        found.add(header)
        named = INCLUDE.findall(header.read_text(encoding="utf-8"))
        headers |= {path for name in named for path in ENGINE.rglob(name)} - found
    return {str(path) for path in found}


setup(
    ext_modules=[] if SKIP else engine_modules(),
    options={
        "build": {"build_base": str(BUILD)}
        | ({"build_lib": str(BUILD / "lib")} if SANITIZE else {}),
        "build_ext": {"parallel": os.cpu_count() or 1},
    },
)
