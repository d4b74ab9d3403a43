import io
import json
import struct
from dataclasses import replace

import pyarrow as pa
import pytest

pytest.importorskip("fastavro")
pytest.importorskip("google.protobuf")

import fastavro
from tests.spark.pipelines.bodies import descriptors as d

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.bodies.decoder import (
    Body,
    Decoder,
    body_of,
    format_of,
    planned,
    settings_of,
    with_reader,
)
from leporid.spark.pipelines.bodies.registry import RegistryError
from leporid.spark.schema import COLUMNS

V1 = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
V2 = {**V1, "fields": [{"name": "id", "type": "long"}, {"name": "n", "type": "int", "default": 5}]}
OBJECT = {"type": "object", "properties": {"id": {"type": "integer", "minimum": 1}}}


def avro(value, schema=V1):
    file = io.BytesIO()
    fastavro.schemaless_writer(file, schema, value)
    return file.getvalue()


def framed(number, body):
    return struct.pack(">bI", 0, number) + body


def batch(*rows):
    """Rows of body, content type and headers."""
    made = [
        {"body": body, "properties": {"content_type": kind}, "headers": list(headers.items())}
        for body, kind, headers in rows
    ]
    return pa.RecordBatch.from_pylist(made, schema=COLUMNS)


def decoded(body, *rows):
    values, reasons = Decoder(body).decode(batch(*rows))
    assert [value is None for value in values.to_pylist()] == [
        reason is not None for reason in reasons.to_pylist()
    ]
    return values.to_pylist(), reasons.to_pylist()


def test_a_message_says_its_schema_by_header_or_before_its_body(registry):
    one = registry.register("s-value", V1)
    registry.register("s-value", V2)
    body = with_reader(planned(Body("avro", schemas=registry.url), {}, "s"))
    assert body.columns == "`id` bigint, `n` int"
    values, reasons = decoded(
        body,
        (framed(one, avro({"id": 1})), None, {}),
        (avro({"id": 2, "n": 3}, V2), None, {"schema.id": "2"}),
        (avro({"id": 3}), None, {"schema.id": "1"}),
        (framed(9, b""), None, {}),
        (b"\x02", None, {}),
        (None, None, {}),
        (avro({"id": 3}), None, {"schema.id": "../x"}),
    )
    assert values[:3] == [{"id": 1, "n": 5}, {"id": 2, "n": 3}, {"id": 3, "n": 5}]
    assert reasons[3] == f"{registry.url} has no schema 9"
    assert reasons[4] == reasons[5]
    assert reasons[4].startswith("the message names no schema: neither a header schema.id")
    assert reasons[6] == "'../x' is no id of a schema"


def test_content_types_choose_among_formats_and_the_kind_of_a_schema_does(registry):
    registry.register("s-value", OBJECT, "JSON")
    number = registry.register("avro", V1)
    body = with_reader(planned(Body("auto", schemas=registry.url), {}, "s"))
    rows = [
        (b'{"id": 0}', "application/json; charset=utf-8", {}),
        (b'{"id": 0}', "application/vnd.shop.order.v1+json", {}),
        (b'{"id": 0}', "application/json", {"schema.id": "1"}),
        (framed(1, b'{"id": 4}'), None, {}),
        (framed(number, avro({"id": 5})), "application/octet-stream", {}),
        (b"6", "text/csv", {}),
        (b"x", "image/png", {}),
        (b"x", None, {}),
    ]
    values, reasons = decoded(body, *rows)
    assert [value and value["id"] for value in values] == [0, 0, None, 4, 5, 6, None, None]
    assert reasons[2].startswith("does not fit the schema: id: ")
    assert reasons[6] == "no decoder is known for image/png"
    assert reasons[7] == "no decoder is known for a missing content type"
    # Who names a format gets that one only.
    _, reasons = decoded(with_reader(planned(Body("json", schemas=registry.url), {}, "s")), rows[4])
    assert reasons == ["schema 2 is of avro, not of json"]


def test_messages_of_protobuf_say_which_they_are(registry):
    made = d.schema(
        d.file(
            d.message("Order", d.field(1, "id", d.INT32)),
            d.message("Refund", d.field(1, "id", d.INT32)),
        )
    )
    number = registry.register("s-value", made.content, "PROTOBUF")
    body = with_reader(planned(Body("protobuf", schemas=registry.url), {}, "s"))
    order, refund = d.written(made, {"id": 1}), d.written(made, {"id": 2}, (1,))
    values, reasons = decoded(
        body,
        (framed(number, b"\0" + order), None, {}),
        (framed(number, b"\x02\x02" + refund), None, {}),
        (framed(number, b"\x02"), None, {}),
        (framed(number, b"\x02\x08"), None, {}),
        (framed(number, b"\0\xff"), None, {}),
        (order, None, {"schema.id": str(number)}),
    )
    assert values == [{"id": 1}, None, None, None, None, {"id": 1}]
    assert reasons[1] == "a shop.Refund, and not a shop.Order"
    assert reasons[2] == "the path to the message is cut"
    assert reasons[3].endswith("has no message of number 4")
    assert reasons[4].startswith("not Protobuf")
    other = with_reader(
        planned(Body("protobuf", schemas=registry.url, message="shop.Refund"), {}, "s")
    )
    values, _ = decoded(other, (framed(number, b"\x02\x02" + refund), None, {}))
    assert values == [{"id": 2}]


def test_a_header_that_names_another_message_of_protobuf_puts_it_aside(tmp_path):
    for name, kind in (("orders", "Order"), ("refunds", "Refund")):
        made = d.schema(d.file(d.message(kind, d.field(1, "id", d.INT32)), name=f"{name}.proto"))
        (tmp_path / f"{name}.desc").write_bytes(made.content)
    body = with_reader(planned(Body("protobuf", schemas=str(tmp_path)), {}, "orders"))
    rows = [(b"\x08\x01", None, {"schema.id": name}) for name in ("orders", "refunds")]
    assert decoded(body, *rows, (b"\x08\x02", None, {})) == (
        [{"id": 1}, None, {"id": 2}],
        [None, "a shop.Refund, and not a shop.Order", None],
    )
    named = with_reader(replace(body, message="shop.Order"))
    assert decoded(named, *rows)[1] == [None, "schema refunds.desc has no message 'shop.Order'"]


def test_a_folder_has_the_schemas_and_a_broken_one_is_the_fault_of_who_names_it(tmp_path):
    (tmp_path / "s.avsc").write_text(json.dumps(V2))
    (tmp_path / "older.avsc").write_text(json.dumps(V1))
    (tmp_path / "broken.avsc").write_text("{")
    body = with_reader(planned(Body("avro", schemas=str(tmp_path)), {}, "s"))
    values, reasons = decoded(
        body,
        (avro({"id": 1, "n": 2}, V2), None, {}),
        (avro({"id": 2}), None, {"schema.id": "older"}),
        (b"", None, {"schema.id": "broken"}),
    )
    assert values == [{"id": 1, "n": 2}, {"id": 2, "n": 5}, None]
    assert "broken.avsc is not JSON" in reasons[2]


def test_a_registry_that_is_away_is_an_error_and_no_reason(registry):
    registry.register("s-value", V1)
    body = with_reader(planned(Body("avro", schemas=registry.url), {}, "s"))
    registry.broken["/schemas/ids/7"] = (500, b"out of order")
    with pytest.raises(RegistryError, match="out of order"):
        decoded(body, (framed(7, b""), None, {}))


def test_without_schemas_json_csv_and_text_are_told_by_their_content_types():
    rows: list[tuple[bytes, str, dict[str, str]]]
    rows = [(b'{"text": "a"}', "application/json", {}), (b"b", "text/plain", {})]
    values, _ = decoded(Body("auto", "text string"), *rows, (b"c", "text/csv", {"schema.id": "1"}))
    assert [value["text"] for value in values] == ["a", "b", "c"]
    # A part of a larger batch.
    found, _ = Decoder(Body("auto", "text string")).decode(batch(*rows * 3).slice(1, 4))
    assert [value["text"] for value in found.to_pylist()] == ["b", "a", "b", "a"]
    _, reasons = decoded(Body("auto", "text string"), (b"", "avro/binary", {}))
    assert reasons == ["there is no schema for bodies in avro"]
    found, _ = Decoder(Body("auto", "text string")).decode(batch())
    assert len(found) == 0


def test_an_archive_keeps_how_it_is_decoded_without_the_password(registry):
    url = registry.url.replace("//", "//me:secret@")
    made = planned(Body("avro", schemas=url), {}, "orders")
    kept = settings_of(made)
    assert kept == {"body": "avro", "schemas": registry.url, "subject": "orders-value"}
    assert "secret" not in repr(made)
    assert settings_of(planned(None, kept | {"schema": "id int"}, "orders")) == kept
    assert body_of({"schema": "id int"}) == Body("json", "id int")
    # Credentials are given anew at each run.
    assert planned(Body("avro", schemas=url), kept, "orders").schemas == url


@pytest.mark.parametrize(
    ("asked", "settings", "told"),
    [
        (Body("arvo"), {}, r"no format of bodies 'arvo'; did you mean \"avro\""),
        (Body("avro"), {}, "bodies in avro need their schemas"),
        (Body("csv"), {"stream": "s"}, "its bodies are in json, not in csv"),
    ],
)
def test_what_cannot_be_decoded_is_refused(asked, settings, told):
    with pytest.raises(OptionError, match=told):
        planned(asked, settings, "s")


def test_a_subject_of_another_kind_is_refused(registry):
    registry.register("s-value", OBJECT, "JSON")
    with pytest.raises(OptionError, match="schema 1 is of Json, bodies are in avro"):
        with_reader(planned(Body("avro", schemas=registry.url), {}, "s"))


def test_content_types_have_formats():
    assert format_of("Application/JSON;charset=utf-8") == "json"
    assert format_of("application/vnd.order.v1+avro") == "avro"
    assert format_of("text/x-unknown") == "text/x-unknown"
    assert format_of(None) == ""
