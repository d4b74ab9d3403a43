"""Says what this machine lacks before `make install` fails half-way for want of it.

Runs under the system's Python, so it keeps to what every Python 3 understands. Exit code 0:
everything is there. Exit code 1: one message with the missing parts and the command that installs
them on Debian.
"""

import importlib.util
import os
import shutil
import sys
import sysconfig
from pathlib import Path

PYTHON_MIN = (3, 11)


def main() -> int:
    """Print what is missing, if anything, and return the exit code."""
    if sys.version_info < PYTHON_MIN:
        version = sys.version.split()[0]
        sys.stderr.write(f"\nLeporid needs Python 3.11 or newer; {sys.executable} is {version}.\n")
        sys.stderr.write("Name another one: make install PYTHON=/path/to/python3\n\n")
        return 1
    missing = missing_parts()
    if not missing:
        return 0
    sys.stderr.write("\nLeporid cannot be installed yet. Missing on this machine:\n")
    for part in missing:
        sys.stderr.write(f"  - {part}\n")
    sys.stderr.write("On Debian or Ubuntu, this installs what is missing:\n")
    sys.stderr.write(f"  sudo apt-get install {' '.join(missing.values())}\n\n")
    return 1


def missing_parts() -> "dict[str, str]":
    """Map what is missing to the Debian packages that bring it."""
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    missing = {}
    if importlib.util.find_spec("ensurepip") is None:
        missing["Python's venv module with ensurepip"] = f"{python}-venv"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        missing["Python's C headers (Python.h)"] = f"{python}-dev"
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        missing[f"a C compiler ({compiler})"] = "gcc libc6-dev"
    return missing


sys.exit(main())
