"""What has each process of Spark start faster: an archive of Java's classes, and a home of Spark.

Loading, verifying and linking Spark's classes takes most of the processor time of a start, and the
tests start some twenty of them: sessions, and the processes of a cluster. Java can keep the result
in a file, which the next ones map (class data sharing). Making it takes as long as four starts, so
it is made once, under `build/`, and only by a run that has many such tests.

Java itself checks that an archive suits it and its class path, and starts without it otherwise.

Spark has its Pythons import PySpark from a zip file in its home, if there is one. What comes out
of a zip file is compiled again by each process, which takes half a second, and the tests start
hundreds. So Spark gets a home that is like PySpark's own, without that file: then Python finds the
same modules where they are installed, compiled. Python looks at the place of that file in any case,
so a folder is there, with a module that loads what workers need before they are forked.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
# Half a minute of a processor that has nothing else to do.
SECONDS: Final = 300.0
# Java's optimizing compiler does not pay within a test run: it took 40 % of Spark's processor time.
OPTIONS: Final = "-XX:TieredStopAtLevel=1"


PYTHON_PATH: Final = Path(__file__).with_name("python_path")
HOME_VARIABLE: Final = "SPARK_HOME"


def archive_path() -> Path:
    """Return where the archive is, or would be: another one for each Java and each home."""
    from leporid.spark.java import find_java

    return _path(f"{find_java()} {os.environ[HOME_VARIABLE]}").with_suffix(".jsa")


def _path(facts: str) -> Path:
    """Return a name under `build/`, another one for each PySpark."""
    import pyspark

    facts += f" {pyspark.__version__} {pyspark.__file__}"
    return ROOT / "build" / f"spark-{hashlib.sha256(facts.encode()).hexdigest()[:16]}"


def use_home() -> None:
    """Have every Spark that starts from now on live where there is no zip file of PySpark."""
    if HOME_VARIABLE in os.environ:
        return
    import pyspark

    path = _path(f"home {PYTHON_PATH}")
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        new = Path(tempfile.mkdtemp(dir=path.parent))
        _link(Path(pyspark.__file__).parent, new, besides="python")
        _link(Path(pyspark.__file__).parent / "python", new / "python", besides="lib")
        (new / "python" / "lib").mkdir()
        (new / "python" / "lib" / "pyspark.zip").symlink_to(PYTHON_PATH)
        try:
            new.rename(path)
        except OSError:
            # Another process of the tests was faster.
            shutil.rmtree(new)
    os.environ[HOME_VARIABLE] = str(path)


def _link(folder: Path, new: Path, besides: str) -> None:
    """Fill a new folder with links to what another one has."""
    new.mkdir(exist_ok=True)
    for each in folder.iterdir():
        if each.name != besides:
            (new / each.name).symlink_to(each)


def use_archive() -> None:
    """Have every Java that Spark starts from now on use the archive."""
    # Java says on its standard output if an archive does not suit it. It does not ask TMPDIR, and
    # Spark leaves files there whenever its Java is killed.
    os.environ["SPARK_SUBMIT_OPTS"] = (
        f"{OPTIONS} -Djava.io.tmpdir={tempfile.gettempdir()}"
        f" -XX:SharedArchiveFile={archive_path()} -Xlog:disable -Xlog:all=error:stderr"
    )


def make_archive() -> None:
    """Make the archive, unless it is there; a failure costs time and nothing else."""
    path = archive_path()
    if path.exists():
        return
    path.parent.mkdir(exist_ok=True)
    new = path.with_suffix(f".{os.getpid()}.new")
    # Not every Java can make one.
    with contextlib.suppress(subprocess.SubprocessError, FileNotFoundError):
        subprocess.run(
            [sys.executable, "-m", "tests.spark.java_classes"],
            cwd=ROOT,
            env=os.environ | {"SPARK_SUBMIT_OPTS": f"{OPTIONS} -XX:ArchiveClassesAtExit={new}"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=True,
        )
        new.replace(path)
    # Half an archive is of no use.
    new.unlink(missing_ok=True)


def main() -> None:
    """Start Spark, have it do what most tests do, and end it so that Java writes the archive."""
    from pyspark import SparkContext

    from leporid.spark.session import session

    spark = session("classes", master="local[1]")
    rows = spark.createDataFrame([(1, "a")], "number int, text string")
    rows.mapInArrow(lambda batches: batches, rows.schema).groupBy("text").count().collect()
    gateway = SparkContext._gateway
    spark.stop()
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    assert gateway.proc.wait() == 0, "Java did not write all of it"


if __name__ == "__main__":
    main()
