import os
import sys
from pathlib import Path

import pytest

import leporid
from leporid.spark import session
from leporid.spark.java import Java
from leporid.spark.session import (
    ARROW_OPTIONS,
    COLLECTOR,
    LOGGING,
    java_options,
    log_options,
    prepare_environment,
)


@pytest.fixture(autouse=True)
def java(monkeypatch, tmp_path):
    found = Java(tmp_path, 17, "PATH")
    monkeypatch.setattr("leporid.spark.session.find_java", lambda _: found)
    return found


def test_workers_find_this_python_and_this_package(java):
    environ = {"PYTHONPATH": "/else"}
    prepare_environment(environ)
    assert environ["JAVA_HOME"] == str(java.home)
    assert environ["PYSPARK_PYTHON"] == sys.executable
    root = str(Path(leporid.__file__).parents[1])
    assert environ["PYTHONPATH"].split(os.pathsep) == [root, "/else"]
    own = {"PYSPARK_PYTHON": "/own/python", "PYSPARK_DRIVER_PYTHON": "/own/driver"}
    prepare_environment(chosen := dict(own))
    assert own.items() <= chosen.items()
    before = dict(environ)
    prepare_environment(environ)
    assert environ == before


def test_one_kind_of_session_at_a_time():
    with pytest.raises(ValueError, match="master or remote"):
        session.session(master="local", remote="sc://x")


def test_java_is_started_with_what_reading_needs():
    for role in ("driver", "executor"):
        options = java_options({}, {})[f"spark.{role}.defaultJavaOptions"]
        assert options == f"{ARROW_OPTIONS} {COLLECTOR}"


@pytest.mark.parametrize(
    ("settings", "environ"),
    [
        ({"spark.driver.extraJavaOptions": "-XX:+UseZGC"}, {}),
        ({}, {"JAVA_TOOL_OPTIONS": "-XX:+UseSerialGC"}),
        ({}, {"SPARK_CONF_DIR": "/etc/spark"}),
    ],
)
def test_the_collector_is_left_to_whoever_chooses_one(settings, environ):
    assert java_options(settings, environ)["spark.driver.defaultJavaOptions"] == ARROW_OPTIONS


def test_logging_is_ours_unless_somebody_else_says_how():
    assert LOGGING.exists()
    assert str(LOGGING) in log_options({}, {})
    own = "-Dlog4j2.configurationFile=mine.properties"
    assert log_options({"spark.driver.extraJavaOptions": own}, {}) == ""
    assert log_options({}, {"JAVA_TOOL_OPTIONS": own}) == ""
    assert log_options({}, {"SPARK_CONF_DIR": "conf"}) == ""
