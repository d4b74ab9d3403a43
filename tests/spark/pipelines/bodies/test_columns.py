from typing import Any

import pyarrow as pa
import pytest

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.bodies.columns import check_types, shaped, struct_of
from leporid.spark.pipelines.evolution import read


def test_types_of_sql_are_those_of_arrow():
    text = "a bigint, `b c` decimal(10, 2), d array<struct<e: date>>, f map<string, array<int>>"
    assert struct_of(text) == pa.struct(
        [
            ("a", pa.int64()),
            ("b c", pa.decimal128(10, 2)),
            ("d", pa.list_(pa.field("element", pa.struct([("e", pa.date32())])))),
            ("f", pa.map_(pa.string(), pa.list_(pa.field("element", pa.int32())))),
        ]
    )


@pytest.mark.parametrize("text", ["a interval", "a map<string>", "a varchar(10)", "a decimal(x)"])
def test_a_type_that_is_not_known_is_refused(text):
    with pytest.raises(OptionError, match="bodies cannot have the type"):
        struct_of(text)


def test_a_decimal_has_as_many_digits_as_there_are():
    with pytest.raises(OptionError, match="at most 38"):
        struct_of("a decimal(39, 2)")


def test_a_misspelt_type_is_refused_and_sparks_own_are_not():
    check_types(
        read("a bigint not null, b varchar(9), c map<string, int>, d array<struct<e: dec>>")
    )
    with pytest.raises(OptionError, match=r"no type 'bigin'; did you mean \"bigint\"\?"):
        check_types(read("a array<struct<b: bigin>>"))


def test_rows_that_do_not_fit_are_found_among_many():
    rows: list[Any] = [{"a": at, "other": 1} for at in range(1000)]
    rows[3]["a"] = rows[998]["a"] = "text"
    rows[500] = None
    found, bad = shaped(rows, struct_of("a int, b string"))
    assert sorted(bad) == [3, 998]
    assert "does not fit the columns" in bad[3]
    assert found.null_count == 3
    assert found[999].as_py() == {"a": 999, "b": None}
