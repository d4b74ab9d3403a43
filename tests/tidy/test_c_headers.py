"""The engine's C is clean by itself.

Cython's output is compiled without warnings, as nobody here could mend it. The headers are written
by hand, so each is compiled alone: a header also includes what it uses.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[2] / "src" / "leporid" / "engine"
HEADERS = sorted(ENGINE.rglob("*.h"))
FOLDERS = sorted({header.parent for header in HEADERS})
COMPILER = shutil.which("gcc") or shutil.which("cc")


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_a_header_compiles_alone_without_a_warning(header):
    assert COMPILER is not None
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-fsyntax-only"]
    folders = [f"-I{folder}" for folder in FOLDERS]
    # Included from a file of its own: the compiler takes a header for the main file otherwise.
    source = f'#include "{header.name}"\n'
    compiled = subprocess.run(
        [COMPILER, *flags, *folders, "-x", "c", "-"], input=source, capture_output=True, text=True
    )
    assert compiled.returncode == 0, compiled.stderr


def test_every_header_is_found():
    assert {"codec.h", "selector.h"} <= {header.name for header in HEADERS}
