"""The fast tests on an engine with sanitizers. Arguments: pytest's.

Responsible for the environment, and for saying what the sanitizers found: a worker of pytest that
is ended by one takes its report along, so reports go to files. Exit code: pytest's, 1 if there is a
report, 2 if something must be installed first.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from fuzz import build  # noqa: E402 - found once the root is in the path

REPORTS: Final = build.BUILD / "reports"
FAST: Final = "not slow and not crash and not conformance and not memory"
# Pages of the documentation start shells, curl and pip, each of which would be preloaded, too.
LEFT_OUT: Final = ("--ignore", "tests/examples")


def main() -> int:
    """Build, run, report."""
    try:
        build.build()
    except build.Missing as missing:
        sys.stderr.write(f"{missing}\n")
        return 2
    REPORTS.mkdir(exist_ok=True)
    for path in REPORTS.iterdir():
        path.unlink()
    environment = build.environment([build.runtime()], symbols=True, log=REPORTS / "report")
    command = [sys.executable, "-m", "pytest", "--dist", "loadscope", "-q", "-m", FAST, *LEFT_OUT]
    done = subprocess.run([*command, *sys.argv[1:]], cwd=ROOT, env=environment, check=False)
    reports = sorted(REPORTS.iterdir())
    for path in reports:
        sys.stderr.write(path.read_text(encoding="utf-8", errors="replace"))
    return done.returncode or int(bool(reports))


if __name__ == "__main__":
    sys.exit(main())
