"""`leporid filters` and `filter-classes` against a broker."""

SOURCE = """
class Filter:
    def judge(self, message):
        return True
"""


def test_filters(leporid, name, channel):
    queue = name()
    leporid("queues", "add", queue)
    leporid("bindings", "add", "amq.fanout", queue, "--filter", "n > 1")
    (row,) = [row for row in leporid.rows("filters", "list") if row["name"] == "amq.fanout"]
    assert (row["kind"], row["filters"]) == ("exchange", "1")
    totals = leporid.rows("filters", "list", "--total")
    assert [one["kind"] for one in totals] == ["bindings", "queues", "streams"]
    leporid("queues", "delete", queue, "--yes")


def test_filter_classes(leporid, tmp_path):
    file = tmp_path / "late.py"
    leporid("filter-classes", "set", "late", str(file), code=1)
    assert "cannot be read" in leporid.error
    file.write_text("class Filter: pass\nraise ValueError")
    leporid("filter-classes", "set", "late", str(file), code=4)
    leporid("filter-classes", "list")
