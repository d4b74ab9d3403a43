import re
from pathlib import Path
from typing import Any

import pytest

from leporid.spark import options
from leporid.spark.checks import EARLIEST, LATEST
from leporid.spark.errors import OptionError
from leporid.spark.options import (
    CONNECTION,
    QUEUE_READING,
    READING,
    WRITING,
    Start,
    check_all,
    connection,
    queue_reading,
    reading,
    writing,
)

GUIDE = Path(__file__).parents[2] / "docs" / "spark.md"


def read(**given: str) -> options.Reading:
    return reading(check_all({"stream": "orders", **given}))


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("startingOffset", "startingOffsets"),
        ("STREEM", "stream"),
        ("max_offsets_per_trigger", "maxOffsetsPerTrigger"),
        ("failondatalos", "failOnDataLoss"),
        ("routing_key", "routingKey"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_known(given, nearest):
    with pytest.raises(OptionError, match=f'{given}.*did you mean "{nearest}"'):
        check_all({given: "x"})


@pytest.mark.parametrize(
    ("given", "ours"), [("kafka.bootstrap.servers", "url"), ("subscribePattern", "streamPattern")]
)
def test_an_option_of_kafkas_connector_is_refused_with_ours(given, ours):
    with pytest.raises(OptionError, match=f"'{given}': Kafka's; here it is {ours}"):
        check_all({given: "x"})


def test_option_names_are_taken_in_any_case():
    assert check_all({"startingoffsets": "EARLIEST"}) == {"startingOffsets": EARLIEST}


def test_what_spark_itself_puts_among_the_options_is_left_alone():
    own = {
        "path": "file:/x",
        "owner": "me",
        "provider": "leporid",
        "option.stream": "x",
        "checkpointLocation": "/c",
        "queryName": "q",
    }
    assert check_all(own) == {}


def test_a_path_names_a_stream():
    assert check_all({"path": "orders"}) == {"stream": "orders"}
    for name in ("stream", "queue", "exchange"):
        with pytest.raises(OptionError, match=f"path = 'orders'.*option {name} = 'x' does as well"):
            check_all({"path": "orders", name: "x"})


def test_a_stream_must_be_named_in_one_way():
    with pytest.raises(OptionError, match="stream, streams, streamPattern"):
        reading(check_all({}))
    with pytest.raises(OptionError, match="stream and streamPattern say the same"):
        reading(check_all({"stream": "a", "streamPattern": "b"}))


def test_a_place_is_said_in_one_way():
    assert read().start is None
    assert read(startingOffsets="latest").start == Start(at=LATEST)
    assert read(startingTimestamp="5").start == Start(moment_ms=5)
    with pytest.raises(OptionError, match="startingOffsets and startingTimestamp"):
        read(startingOffsets="latest", startingTimestamp="5")
    with pytest.raises(OptionError, match="Strategy needs startingTimestamp"):
        read(startingOffsetsByTimestampStrategy="latest")


def test_limits_that_contradict_each_other_are_refused():
    with pytest.raises(OptionError, match=r"minOffsetsPerTrigger \(5\) is above"):
        read(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="4")
    with pytest.raises(OptionError, match="maxTriggerDelay needs minOffsetsPerTrigger"):
        read(maxTriggerDelay="1s")


def test_options_of_the_other_direction_are_refused():
    with pytest.raises(OptionError, match="exchange has no meaning in reading"):
        read(exchange="e")
    with pytest.raises(OptionError, match="startingOffsets has no meaning in writing"):
        write(exchange="e", startingOffsets="latest")


def write(*, has_exchange: bool = False, streaming: bool = False, **given: str) -> options.Writing:
    return writing(check_all(given), has_exchange=has_exchange, streaming=streaming)


def test_a_writer_must_know_where_to():
    with pytest.raises(OptionError, match="not said where to publish"):
        write()
    assert write(has_exchange=True).exchange is None
    assert write(exchange="e", routingKey="").routing_key == ""
    with pytest.raises(OptionError, match="already says"):
        write(stream="s", exchange="e")


def test_a_batch_has_producer_and_sequence_or_neither():
    assert write(exchange="e", producer="p", sequenceColumn="n").producer == "p"
    with pytest.raises(OptionError, match="both or not at all"):
        write(exchange="e", producer="p")
    with pytest.raises(OptionError, match="has an identity already"):
        write(exchange="e", producer="p", sequenceColumn="n", streaming=True)
    with pytest.raises(OptionError, match="at most 255 bytes"):
        write(exchange="e", producer="p" * 256, sequenceColumn="n")


def test_credentials_come_from_options_environment_or_file(tmp_path):
    assert connection({}, {}).password == "guest"
    assert connection({}, {"LEPORID_PASSWORD": "x", "LEPORID_USER": "u"}).user == "u"
    assert connection({"passwordEnv": "P"}, {"P": "y"}).password == "y"
    (tmp_path / "secret").write_text("z\n")
    assert connection({"passwordFile": str(tmp_path / "secret")}, {}).password == "z"
    with pytest.raises(OptionError, match="no such environment variable"):
        connection({"passwordEnv": "P"}, {})
    with pytest.raises(OptionError, match="No such file"):
        connection({"passwordFile": str(tmp_path / "none")}, {})
    with pytest.raises(OptionError, match="password and passwordEnv"):
        connection({"password": "a", "passwordEnv": "P"}, {})


def test_a_password_is_never_shown():
    with pytest.raises(OptionError) as caught:
        check_all({"url": "http://me:hidden@host:1"})
    assert "hidden" not in str(caught.value)
    assert "hidden" not in repr(connection({"password": "hidden"}, {}))


def test_filters_of_messages():
    found = read(filter="n > 5", filterTags="a || b")
    assert (found.filter, found.filter_dialect, found.filter_tags) == ("n > 5", "jms", "a || b")
    assert read(filter="TAGS = 'a'", filterDialect="rocketmq").filter_dialect == "rocketmq"
    assert read().filter is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"filter": "n >"}, "option filter: character 4: "),
        ({"filter": "n LIKE 'a'", "filterDialect": "rocketmq"}, "option filter: character "),
        ({"filterDialect": "rocketmq"}, "option filterDialect needs filter"),
        ({"filter": "n", "filterDialect": "sql"}, "must be one of jms, rocketmq"),
        ({"filterTags": "a || *"}, r"option filterTags = 'a \|\| \*': character 6"),
    ],
)
def test_filters_that_are_none(options, says):
    with pytest.raises(OptionError, match=says):
        read(**options)


# ---------------------------------------------------------------- the guide's tables

# What `drain` gives, and nobody else.
DRAINS_OWN = {"lease", "leaseMessages"}
# What an option needs beside it.
WITH = {
    "filterDialect": {"filter": "n > 5"},
    "maxTriggerDelay": {"minOffsetsPerTrigger": "5"},
    "startingOffsetsByTimestampStrategy": {"startingTimestamp": "5"},
}


def documented(number: int) -> dict[str, str | None]:
    """The options of a table of the guide, with their defaults."""
    table = re.findall(
        r"^\| Option \| Default \|.*\n((?:\|.*\n)+)", GUIDE.read_text(), re.MULTILINE
    )
    found: dict[str, str | None] = {}
    for line in table[number].splitlines()[1:]:
        names, defaults = (cell.strip() for cell in line.split("|")[1:3])
        if "else" in defaults:
            defaults = defaults.partition("else ")[2]
        given = [each.strip() for each in defaults.split(",")] if defaults else []
        of_rows = re.findall(r"`(\w+)`", names)
        if len(given) == 1:
            given *= len(of_rows)
        given = given or ["–"] * len(of_rows)
        for name, default in zip(of_rows, given, strict=True):
            found[name] = None if default == "–" else default.strip("`")
            assert default == "–" or default.startswith("`")
    return found


def test_the_guide_has_all_options_and_no_others():
    of_queues = QUEUE_READING.keys() - READING.keys() - DRAINS_OWN
    assert documented(0).keys() == CONNECTION.keys() | READING.keys()
    assert documented(1).keys() == of_queues
    assert documented(2).keys() == WRITING.keys()


def taken(name: str, **given: Any) -> object:
    """What the options come to, and with one of them left out."""
    if name in CONNECTION:
        return connection(check_all(given), {})
    if name in READING:
        return read(**WITH.get(name, {}), **given)
    if name in WRITING:
        return write(exchange="e", **given)
    return queue_reading(check_all({"queue": "jobs", **given}))


@pytest.mark.parametrize("number", range(3))
def test_a_default_of_the_guide_is_what_is_taken_if_nothing_is_said(number):
    defaults = {name: value for name, value in documented(number).items() if value is not None}
    # Which end is the default one depends on what is read; the readers' tests show that.
    assert defaults.pop("startingOffsets", "earliest") == "earliest"
    assert defaults.pop("endingOffsets", "latest") == "latest"
    # These name where a password is.
    for name in ("passwordEnv", "passwordFile"):
        assert defaults.pop(name, "guest") == "guest"
    for name, default in defaults.items():
        assert taken(name, **{name: default}) == taken(name), name
