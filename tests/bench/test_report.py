import pytest
from bench.report import as_json, medians, spread, table, title_and_unit

OWN = [
    {"delivered_per_s": 3_000_000.0, "memory_mb": 50.0},
    {"delivered_per_s": 1_000_000.0, "memory_mb": 51.0},
    {"delivered_per_s": 2_000_000.0, "memory_mb": 52.25},
]
OTHER = [{"delivered_per_s": 100_000.0}]


def test_medians_take_each_figure_by_itself():
    assert medians(OWN) == {"delivered_per_s": 2_000_000.0, "memory_mb": 51.0}


def test_a_figure_that_a_run_lacks_is_taken_from_the_others():
    assert medians([{"memory_mb": 1.0}, {}, {"memory_mb": 3.0}]) == {"memory_mb": 2.0}


def test_spread_is_a_share_of_the_median():
    assert spread(OWN, "delivered_per_s") == 1.0
    assert spread(OTHER, "delivered_per_s") == 0.0


def test_a_figure_says_its_unit():
    assert title_and_unit("memory_above_idle_mb") == ("memory above idle", "MB", 1)
    assert title_and_unit("connections_per_s") == ("connections", "/s", 0)
    assert title_and_unit("recovery_s") == ("recovery", "s", 2)
    with pytest.raises(ValueError, match="no unit"):
        title_and_unit("speed")


def test_table_of_one_broker():
    lines = table({"leporid": {"transient": OWN}}).splitlines()
    assert lines[0].split() == ["workload", "figure", "leporid", "spread"]
    assert lines[2].split() == ["transient", "delivered", "/s", "2,000,000", "100%"]
    assert lines[3].split() == ["memory", "MB", "51.0", "4%"]


def test_table_compares_two_brokers():
    lines = table({"leporid": {"transient": OWN}, "other": {"transient": OTHER}}).splitlines()
    assert lines[2].split()[-3:] == ["100,000", "0%", "20.0"]
    assert lines[3].split()[-2:] == ["–", "–"]


def test_table_has_a_place_for_what_the_other_cannot_do():
    lines = table({"leporid": {"recovery": [{"recovery_s": 1.5}]}, "other": {}}).splitlines()
    assert lines[2].split()[:4] == ["recovery", "recovery", "s", "1.50"]


def test_json_has_medians_and_every_run():
    found = as_json({"leporid": {"transient": OWN}}, {"seconds": 5.0}, [0.01234])
    assert found["medians"]["leporid"]["transient"]["memory_mb"] == 51.0
    assert found["runs"]["leporid"]["transient"] == OWN
    assert found["busy_before"] == [0.012]
    assert {"date", "processor", "cores", "python"} <= found["machine"].keys()
