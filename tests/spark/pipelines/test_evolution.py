import pytest

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.evolution import extended, read


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("id bigint, name string", {"id": "bigint", "name": "string"}),
        ("id LONG,`a, ``b` decimal( 10, 2 )", {"id": "bigint", "a, `b": "decimal(10,2)"}),
        (
            "x: struct<a: int, b: array<struct<c:string>>>",
            {"x": {"a": "int", "b": [{"c": "string"}]}},
        ),
        (
            "m map<string, array<int>>, t timestamp_ltz",
            {"m": "map<string,array<int>>", "t": "timestamp"},
        ),
    ],
)
def test_a_schema_is_read(text, kinds):
    assert read(text) == kinds


@pytest.mark.parametrize("text", ["", "id", "id bigint,", "id bigint, id int", "1"])
def test_what_is_no_schema_is_refused(text):
    with pytest.raises(OptionError, match="is no schema"):
        read(text)


def test_new_fields_come_last_and_those_that_are_there_stay():
    known = "b struct<x: int>, c array<struct<y: int>>, d string"
    asked = "a int, c array<struct<z: string>>, b struct<w: int, x: int>"
    assert extended(known, asked) == (
        "`b` struct<`x`: int, `w`: int>, `c` array<struct<`y`: int, `z`: string>>, "
        "`d` string, `a` int"
    )


def test_a_schema_that_adds_nothing_is_left_as_it_was_written():
    assert (
        extended("id   BIGINT, name string", "name string, id long") == "id   BIGINT, name string"
    )


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("id string", "value.id is bigint in the archive and string in the schema"),
        ("id struct<a: int>", "value.id is bigint in the archive and a struct in the schema"),
        ("in struct<a: string>", "value.in.a is int in the archive and string"),
        ("in struct<a: bigint>", "Delta's library for Python cannot widen a type; .* in Iceberg"),
        ("all array<string>", r"value.all\[\] is int in the archive"),
    ],
)
def test_another_type_is_refused_or_passed_over(asked, told):
    known = "id bigint, in struct<a: int>, all array<int>"
    with pytest.raises(OptionError, match=told):
        extended(known, asked)
    assert extended(known, asked, only_new=True) == known
    assert extended(known, f"{asked}, new int", only_new=True).endswith(", `new` int")


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("int", "bigint"),
        ("float", "double"),
        ("decimal(9,2)", "decimal(12,2)"),
        ("struct<a: array<smallint>>", "struct<a: array<int>>"),
    ],
)
def test_a_type_becomes_wider_and_never_narrower(narrow, wide):
    assert read(extended(f"x {narrow}", f"x {wide}", wider=True)) == read(f"x {wide}")
    # What a narrower schema has fits.
    assert extended(f"x {wide}", f"x {narrow}") == f"x {wide}"


@pytest.mark.parametrize("wide", ["double", "decimal(20,0)", "string", "decimal(12,3)"])
def test_a_type_that_rounds_or_moves_a_point_is_not_wider(wide):
    with pytest.raises(OptionError, match="only new fields and wider types"):
        extended("x decimal(9,2)" if "3" in wide else "x bigint", f"x {wide}", wider=True)
