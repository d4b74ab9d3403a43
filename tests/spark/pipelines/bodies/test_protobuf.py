import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

pytest.importorskip("google.protobuf")

from google.protobuf import descriptor_pb2
from tests.spark.pipelines.bodies import descriptors as d

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.bodies import protobuf
from leporid.spark.pipelines.bodies.columns import arrow_of
from leporid.spark.pipelines.bodies.protobuf import (
    ProtobufDecoder,
    columns_of,
    message_of,
    path_and_rest,
)
from leporid.spark.pipelines.bodies.schemas import MissingSchemaError

V1 = d.schema(
    d.file(
        d.message("Order", d.field(1, "id", d.INT32), d.field(2, "name", d.STRING)),
        d.message("Refund", d.field(1, "id", d.INT32)),
    )
)


def decoded(reader, *bodies, columns=None, path=(0,)):
    message = message_of(reader, path)
    found, bad = ProtobufDecoder(message, columns or arrow_of(columns_of(message))).decode(bodies)
    return found.to_pylist(), bad


def test_a_message_is_read_by_the_numbers_of_its_fields():
    newer = d.schema(
        d.file(
            d.message("Order", d.field(2, "title", d.STRING), d.field(3, "more", d.INT64)),
        )
    )
    body = d.written(V1, {"id": 7, "name": "n"})
    assert decoded(newer, body, b"") == ([{"title": "n", "more": 0}, {"title": "", "more": 0}], {})


def test_all_types_are_columns():
    entry = d.message(
        "CountsEntry", d.field(1, "key", d.STRING), d.field(2, "value", d.MESSAGE, ".shop.Line"),
        options=descriptor_pb2.MessageOptions(map_entry=True),
    )  # fmt: skip
    line = d.message("Line", d.field(1, "n", d.INT32))
    state = descriptor_pb2.EnumDescriptorProto(
        name="State",
        value=[
            descriptor_pb2.EnumValueDescriptorProto(name=n, number=i) for i, n in enumerate("AB")
        ],
    )
    order = d.message(
        "Order",
        d.field(1, "id", d.UINT64),
        d.field(2, "raw", d.BYTES),
        d.field(3, "state", d.ENUM, ".shop.Order.State"),
        d.field(4, "line", d.MESSAGE, ".shop.Line"),
        d.field(5, "lines", d.MESSAGE, ".shop.Line", repeated=True),
        d.field(6, "tags", d.STRING, repeated=True),
        d.field(7, "counts", d.MESSAGE, ".shop.Order.CountsEntry", repeated=True),
        d.field(8, "at", d.MESSAGE, ".google.protobuf.Timestamp"),
        d.field(9, "maybe", d.INT32, proto3_optional=True, oneof_index=0),
        nested_type=[entry],
        enum_type=[state],
        oneof_decl=[descriptor_pb2.OneofDescriptorProto(name="_maybe")],
    )
    reader = d.schema(d.file(order, line, imports=("google/protobuf/timestamp.proto",)))
    assert columns_of(message_of(reader)) == {
        "id": "decimal(20,0)",
        "raw": "binary",
        "state": "string",
        "line": {"n": "int"},
        "lines": [{"n": "int"}],
        "tags": ["string"],
        "counts": "map<string,struct<`n`: int>>",
        "at": "timestamp",
        "maybe": "int",
    }
    at = dt.datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=dt.UTC)
    value = {
        "id": 2**64 - 1, "raw": b"\0", "state": 1, "line": {"n": 1}, "lines": [{"n": 2}, {}],
        "tags": ["a", "b"], "counts": {"x": {"n": 3}}, "at": at, "maybe": 0,
    }  # fmt: skip
    rows, bad = decoded(reader, d.written(reader, value), b"", d.written(reader, {"state": 7}))
    assert bad == {}
    assert rows[0] == {
        "id": Decimal(2**64 - 1), "raw": b"\0", "state": "B", "line": {"n": 1},
        "lines": [{"n": 2}, {"n": 0}], "tags": ["a", "b"], "counts": [("x", {"n": 3})],
        "at": at, "maybe": 0,
    }  # fmt: skip
    assert rows[1] == {
        "id": 0, "raw": b"", "state": "A", "line": None, "lines": [], "tags": [], "counts": [],
        "at": None, "maybe": None,
    }  # fmt: skip
    assert rows[2]["state"] == "7"


def test_many_elements_are_read_so_many_at_a_time(monkeypatch):
    line = d.message("Line", d.field(1, "n", d.INT32))
    order = d.message("Order", d.field(1, "lines", d.MESSAGE, ".shop.Line", repeated=True))
    reader = d.schema(d.file(order, line))
    bodies = [d.written(reader, {"lines": [{"n": n} for n in range(many)]}) for many in (5, 0, 2)]
    lengths = []
    values_of = protobuf._values

    def counted(values, *more):
        lengths.append(len(values))
        return values_of(values, *more)

    monkeypatch.setattr(protobuf, "_values", counted)
    monkeypatch.setattr(protobuf, "ELEMENTS_AT_ONCE", 3)
    rows, bad = decoded(reader, *bodies)
    assert ([[line["n"] for line in row["lines"]] for row in rows], bad) == (
        [[0, 1, 2, 3, 4], [], [0, 1]],
        {},
    )
    assert max(lengths) == 3


def test_a_body_that_is_cut_is_bad_and_one_that_does_not_fit_the_columns():
    good = d.written(V1, {"id": 1, "name": "abc"})
    rows, bad = decoded(V1, good, good[:-1], good)
    assert (rows[1], sorted(bad)) == (None, [1])
    assert bad[1].startswith("not Protobuf: ")
    narrow = pa.struct([("id", pa.int8()), ("else", pa.string())])
    rows, bad = decoded(V1, good, d.written(V1, {"id": 1000}), columns=narrow)
    assert rows == [{"id": 1, "else": None}, None]
    assert bad[1].startswith("does not fit the columns")
    # A single value where the archive has a list.
    rows, bad = decoded(V1, good, columns=pa.struct([("id", pa.list_(pa.int32()))]))
    assert (rows, list(bad)) == ([None], [0])


def test_messages_are_found_by_path_and_by_name():
    assert message_of(V1, (1,)).full_name == "shop.Refund"
    assert message_of(V1, name="shop.Refund").full_name == "shop.Refund"
    with pytest.raises(OptionError, match="has no message of number 2"):
        message_of(V1, (2,))
    with pytest.raises(OptionError, match=r"has no message 'shop.None'"):
        message_of(V1, name="shop.None")


def test_a_set_of_files_and_references_are_joined():
    inner = d.file(d.message("Line", d.field(1, "n", d.INT32)), name="line.proto")
    outer = d.file(
        d.message("Order", d.field(1, "line", d.MESSAGE, ".shop.Line")), imports=("line.proto",)
    )
    both = d.schema(descriptor_pb2.FileDescriptorSet(file=[inner, outer]))
    assert columns_of(message_of(both)) == {"line": {"n": "int"}}
    # A registry does not always know how the file was called.
    inner.name = "default"
    referring = d.schema(outer, references=[("line.proto", d.schema(inner))])
    assert columns_of(message_of(referring)) == {"line": {"n": "int"}}
    with pytest.raises(OptionError, match="is no descriptor"):
        message_of(d.schema(outer))


def test_recursive_messages_and_what_is_no_descriptor_are_refused():
    loop = d.schema(d.file(d.message("Order", d.field(1, "next", d.MESSAGE, ".shop.Order"))))
    with pytest.raises(OptionError, match="recursive"):
        columns_of(message_of(loop))
    for content in (b"\xff", b"nothing"):
        broken = type(V1)(V1.kind, content, "1")
        with pytest.raises(OptionError, match="is no descriptor"):
            message_of(broken)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"\0rest", ((0,), b"rest")),
        (b"\x02\x02rest", ((1,), b"rest")),
        (b"\x04\x00\x06rest", ((0, 3), b"rest")),
        (b"\x02\x80\x02", ((128,), b"")),
    ],
)
def test_a_path_is_read_whole_and_refused_when_it_is_cut(body, found):
    assert path_and_rest(body) == found
    prefix = len(body) - len(found[1])
    for at in range(prefix):
        with pytest.raises(MissingSchemaError):
            path_and_rest(body[:at])


@pytest.mark.parametrize("body", [b"\x01", b"\x22", b"\x02\x01", b"\xff" * 6])
def test_a_path_of_nonsense_is_refused(body):
    with pytest.raises(MissingSchemaError):
        path_and_rest(body)
