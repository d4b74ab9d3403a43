"""Says what this machine lacks before `make install` fails half-way for want of it.

Runs under the system's Python, of whatever version, so it stays in the language they share.
Exit code 0: everything is there. Exit code 1: one message with the missing parts and the command
that installs them on Debian.
"""

import importlib.util
import os
import shutil
import sys
import sysconfig

PYTHON_MIN = (3, 11)


def missing():
    """Return (what is missing, the Debian package that brings it) pairs."""
    version = "%d.%d" % sys.version_info[:2]
    if sys.version_info < PYTHON_MIN:
        return [("Python 3.11 or newer (%s is %s)" % (sys.executable, version), "python3.11")]
    found = []
    if importlib.util.find_spec("ensurepip") is None:
        found.append(("the venv module with ensurepip", "python%s-venv" % version))
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        found.append(("Python's C headers (Python.h)", "python%s-dev" % version))
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        found.append(("a C compiler (%s)" % compiler, "gcc libc6-dev"))
    return found


def main():
    """Print what is missing, if anything, and return the exit code."""
    parts = missing()
    if not parts:
        return 0
    sys.stderr.write("\nLeporid cannot be installed yet. Missing:\n")
    for what, _ in parts:
        sys.stderr.write("  - %s\n" % what)
    sys.stderr.write("On Debian or Ubuntu:\n")
    sys.stderr.write("  sudo apt-get install %s\n" % " ".join(package for _, package in parts))
    sys.stderr.write("Another Python: make PYTHON=/path/to/python3.12 …\n\n".replace("…", "install"))
    return 1


sys.exit(main())
