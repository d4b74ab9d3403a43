"""Builds the engine: every `.pyx` in `src/leporid/engine` becomes one extension module.

Everything else about the package is in pyproject.toml. Two variables of the environment matter:

LEPORID_TRACE=1        build with line tracing, so that coverage and profilers see into the engine
LEPORID_SKIP_ENGINE=1  do not build the engine (the Makefile does, in a step of its own)
"""

import os
from pathlib import Path

from setuptools import Extension, setup

ENGINE = Path("src/leporid/engine")
TRACE = os.environ.get("LEPORID_TRACE", "") not in ("", "0")
SKIP = os.environ.get("LEPORID_SKIP_ENGINE", "") not in ("", "0")

BUILD = Path("build", "traced" if TRACE else "plain")

DIRECTIVES = {
    "language_level": "3",
    "boundscheck": False,  # every index is checked against a named limit by hand,
    "wraparound": False,  # and none is negative
    "initializedcheck": False,
    "cdivision": True,  # C's division: no test for zero, truncation
    "linetrace": TRACE,
}


def engine_modules() -> list[Extension]:
    from Cython.Build import cythonize

    headers = sorted(ENGINE.rglob("*.h"))
    extensions = [
        Extension(
            ".".join(source.relative_to("src").with_suffix("").parts),
            [str(source)],
            depends=[str(header) for header in headers],
            include_dirs=sorted({str(header.parent) for header in headers}),
            # What a compiler says of generated C is nothing that anybody here could mend.
            extra_compile_args=["-O3", "-w"],
            define_macros=[("CYTHON_TRACE", "1"), ("CYTHON_TRACE_NOGIL", "1")] if TRACE else [],
        )
        for source in sorted(ENGINE.rglob("*.pyx"))
    ]
    return cythonize(
        extensions,
        build_dir=str(BUILD / "cython"),
        compiler_directives=DIRECTIVES,
        nthreads=os.cpu_count() or 1,
        quiet=True,
    )


setup(
    ext_modules=[] if SKIP else engine_modules(),
    options={
        "build": {"build_base": str(BUILD)},
        "build_ext": {"parallel": os.cpu_count() or 1},
    },
)
