import pytest

from leporid.spark.errors import OptionError
from leporid.spark.options import check_all


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("startingOffsets", "first", "must be earliest, latest, stored, or JSON"),
        ("startingOffsets", '{"orders": 3}', "must be JSON such as"),
        ("startingOffsets", '{"orders": {"a": 3}}', "must be JSON such as"),
        ("startingOffsets", '{"orders": {"0": -3}}', "the least is -2"),
        ("startingOffsets", '{"orders": {"0": true}}', "must be JSON such as"),
        ("startingOffsets", "{", "must be JSON such as"),
        ("endingOffsets", "earliest", "must be latest, or JSON"),
        ("endingOffsets", '{"orders": {"0": -2}}', "the least is -1"),
        ("maxOffsetsPerTrigger", "0", "of at least 1"),
        ("maxOffsetsPerTrigger", "1e6", "of at least 1"),
        ("maxBytesPerTrigger", "64 apples", "such as 64m"),
        ("maxTriggerDelay", "15", "such as 500ms"),
        ("failOnDataLoss", "yes", "true or false"),
        ("compression", "snappy", "none, lz4, zstd"),
        ("startingTimestamp", "yesterday", "milliseconds since 1970"),
        ("streams", "a,,b", "commas"),
        ("streams", "a,a", "twice"),
        ("streamPattern", "(", "not a regular expression"),
        ("pollMs", "30001", "from 0 to 30000"),
        ("url", "amqp://host", "http://host:15672"),
        ("url", "http://host:port", "http://host:15672"),
        ("url", "http://host/path", "http://host:15672"),
        ("stream", " ", "must not be empty"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_by_name(name, value, says):
    with pytest.raises(OptionError, match=says) as caught:
        check_all({name: value})
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("maxBytesPerTrigger", "64m", 64 * 2**20),
        ("maxBytesPerTrigger", "1 GiB", 2**30),
        ("maxTriggerDelay", "15m", 900_000),
        ("startingTimestamp", "1767225600000", 1_767_225_600_000),
        ("startingTimestamp", "2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("startingTimestamp", "2026-01-01", 1_767_225_600_000),
        ("startingTimestamp", "2026-01-01T01:00:00.0001+01:00", 1_767_225_600_001),
        ("startingOffsets", '{"a": {"0": -2, "1": 7}}', {"a": {0: -2, 1: 7}}),
        ("streams", "a, b", ("a", "b")),
        ("url", "https://host/", "https://host"),
    ],
)
def test_values_are_read_as_written(name, value, kept):
    assert check_all({name: value}) == {name: kept}
