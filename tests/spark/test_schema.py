import pyarrow as pa
import pytest

from leporid.spark.errors import OptionError
from leporid.spark.schema import (
    COLUMNS,
    PROPERTIES,
    cast_batch,
    ddl,
    default_schema,
    nearest,
    project,
    projection,
    publishing,
    spark_type,
)


def test_the_columns_are_those_of_the_agreement_with_the_broker():
    assert COLUMNS.names == [
        "stream", "partition", "offset", "timestamp", "exchange", "routing_key", "properties",
        "headers", "body",
    ]  # fmt: skip
    assert default_schema(headers_json=True).names[-1] == "headers_json"


def test_types_as_spark_names_them():
    assert ddl(pa.schema([COLUMNS.field("offset"), COLUMNS.field("headers")])) == (
        "`offset` bigint, `headers` map<string,string>"
    )
    assert spark_type(PROPERTIES).startswith("struct<content_type:string,content_encoding:string")


def test_a_users_schema_chooses_columns_and_their_order():
    found = projection([("body", "binary", True), ("offset", "bigint", True)])
    assert found == pa.schema([COLUMNS.field("body"), COLUMNS.field("offset")])


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("ofset", "bigint", True), "no column 'ofset'; did you mean \"offset\""),
        (("offset", "int", True), "'offset' is bigint, not int"),
        (("offset", "bigint", False), "leave NOT NULL out"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused_by_column(asked, says):
    with pytest.raises(OptionError, match=says):
        projection([asked])


def test_a_schema_names_each_column_once_and_at_least_one():
    with pytest.raises(OptionError, match="named twice"):
        projection([("body", "binary", True)] * 2)
    with pytest.raises(OptionError, match="names no column"):
        projection([])


def test_another_type_than_agreed_is_not_passed_on():
    batch = pa.RecordBatch.from_pydict({"offset": pa.array([1], pa.int32())})
    with pytest.raises(OptionError, match="sent int32 for column 'offset', expected int64"):
        project(batch, pa.schema([COLUMNS.field("offset")]))
    with pytest.raises(OptionError, match="sent nothing for column 'body'"):
        project(batch, pa.schema([COLUMNS.field("body")]))


def test_what_can_be_published():
    found = publishing(
        {"body": "string", "delay_ms": "int", "properties": "struct<type:string,priority:int>",
         "n": "bigint"},
        extra=["n"],
    )  # fmt: skip
    assert found.names == ["body", "delay_ms", "properties"]
    assert found.field("properties").type == pa.struct(
        [("type", pa.string()), ("priority", pa.int32())]
    )


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"bdy": "binary"}, "no column 'body' to publish; did you mean \"bdy\""),
        ({"body": "int"}, "'body' is int; .* string or binary"),
        ({"body": "binary", "routingkey": "string"}, r'did you mean "routing_key"\?; drop it'),
        ({"body": "binary", "offset": "bigint"}, "'offset' cannot be published"),
        ({"body": "binary", "headers": "map<string,int>"}, "must be map<string,string>"),
        ({"body": "binary", "properties": "string"}, "must be a struct"),
        ({"body": "binary", "properties": "struct<typ:string>"}, "named 'typ'; did you mean"),
        ({"body": "binary", "properties": "struct<type:int>"}, "'type' is int; it must be string"),
    ],
)
def test_what_cannot_be_published_is_refused_by_column(asked, says):
    with pytest.raises(OptionError, match=says):
        publishing(asked)


def test_not_null_and_time_zones_of_spark_are_adapted():
    spark = pa.schema(
        [
            pa.field("deliver_at", pa.timestamp("us", tz="Etc/UTC"), nullable=False),
            pa.field("body", pa.string(), nullable=False),
        ]
    )
    batch = pa.RecordBatch.from_arrays([pa.array([5], spark.field(0).type), ["x"]], schema=spark)
    wanted = publishing({"deliver_at": "timestamp", "body": "string"})
    assert cast_batch(batch, wanted).schema == wanted


def test_the_nearest_name_is_found_in_any_case():
    assert (
        nearest("STARTINGOFFSET", ["startingOffsets", "x"]) == '; did you mean "startingOffsets"?'
    )
    assert nearest("zzz", ["startingOffsets"]) == ""
