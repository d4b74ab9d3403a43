"""Rows a second of each decoder of bodies: `.venv/bin/python bench/decoders.py`, a few seconds.

One process, no Spark and no broker: a batch of messages as a stream has them, each about 60 bytes
with five fields, into the Arrow column `value`. Shown are rows in a second of processor time, the
best of five runs, since others may use the machine.
"""

import io
import json
import time
from collections.abc import Iterable, Sequence

import fastavro
import pyarrow as pa
from google.protobuf import descriptor_pb2
from google.protobuf.message_factory import GetMessageClass

from leporid.spark.pipelines.bodies.decoder import Body, Decoder, columns_of
from leporid.spark.pipelines.bodies.protobuf import message_of
from leporid.spark.pipelines.bodies.schemas import AVRO, JSON, PROTOBUF, Schema, Schemas
from leporid.spark.pipelines.decoding import fields
from leporid.spark.schema import COLUMNS

ROWS = 100_000
RUNS = 5

RECORD = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "price", "type": "double"},
        {"name": "city", "type": ["null", "string"], "default": None},
        {"name": "paid", "type": "boolean"},
    ],
}
NEWER = {**RECORD, "fields": [*RECORD["fields"], {"name": "more", "type": "int", "default": 1}]}
OBJECT = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer", "minimum": 0},
        "customer": {"type": "string"},
        "price": {"type": "number"},
        "city": {"type": ["string", "null"]},
        "paid": {"type": "boolean"},
    },
}
COLUMNS_OF_ALL = "id bigint, customer string, price double, city string, paid boolean"


def descriptor() -> bytes:
    """Return the message in Protocol Buffers."""
    kinds = {"id": 3, "customer": 9, "price": 1, "city": 9, "paid": 8}
    made = [
        descriptor_pb2.FieldDescriptorProto(name=name, number=at + 1, type=kind, label=1)
        for at, (name, kind) in enumerate(kinds.items())
    ]
    message = descriptor_pb2.DescriptorProto(name="Order", field=made)
    file = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="shop", syntax="proto3", message_type=[message]
    )
    return bytes(file.SerializeToString())


def batch(bodies: Iterable[bytes], headers: Sequence[tuple[str, str]] = ()) -> pa.RecordBatch:
    """Return messages as a stream has them."""
    rows = [{"body": body, "headers": list(headers), "properties": {}} for body in bodies]
    return pa.RecordBatch.from_pylist(rows, schema=COLUMNS)


def measure(name: str, decoder: Decoder, rows: pa.RecordBatch) -> None:
    """Print how fast bodies are decoded."""
    best = 1e9
    for _ in range(RUNS):
        begun = time.process_time()
        _, reasons = decoder.decode(rows)
        best = min(best, time.process_time() - begun)
        assert reasons.null_count == rows.num_rows
    size = sum(map(len, rows.column("body").to_pylist())) / rows.num_rows
    print(f"{name:<28} {rows.num_rows / best:>10,.0f} rows/s  {size:3.0f} bytes each")


def main() -> None:
    """Measure all decoders."""
    values = [
        {
            "id": at,
            "customer": f"c-{at % 1000}",
            "price": at * 0.25,
            "city": "Bern",
            "paid": True,
        }
        for at in range(ROWS)
    ]
    written = Schema(AVRO, json.dumps(RECORD).encode(), "1")
    newer = Schema(AVRO, json.dumps(NEWER).encode(), "2")
    parsed = fastavro.parse_schema(RECORD)
    avro = []
    for value in values:
        file = io.BytesIO()
        fastavro.schemaless_writer(file, parsed, value)
        avro.append(file.getvalue())
    proto = Schema(PROTOBUF, descriptor(), "3")
    order = GetMessageClass(message_of(proto))
    protobuf = [order(**value).SerializeToString() for value in values]
    texts = [json.dumps(value).encode() for value in values]
    lines = [",".join(map(str, value.values())).lower().encode() for value in values]
    checked = Schema(JSON, json.dumps(OBJECT).encode(), "4")

    def of(format_: str, schema: Schema) -> Body:
        return Body(format_, fields(columns_of(schema)), reader=schema)

    measure("avro, the reader's schema", Decoder(of("avro", written)), batch(avro))
    older = batch(avro, [("schema.id", "1")])
    measure("avro, resolved", Decoder(of("avro", newer), _One(written)), older)
    measure("protobuf", Decoder(of("protobuf", proto)), batch(protobuf))
    measure("json (not in Spark)", Decoder(Body("json", COLUMNS_OF_ALL)), batch(texts))
    measure("json-schema", Decoder(of("json-schema", checked)), batch(texts))
    measure("csv", Decoder(Body("csv", COLUMNS_OF_ALL)), batch(lines))
    measure("text", Decoder(Body("text", "text string")), batch(texts))


class _One(Schemas):
    """A place with one schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def named(self, name: str) -> Schema:
        """Return the schema."""
        return self._schema

    def latest(self, subject: str) -> Schema:
        """Return the schema."""
        return self._schema


if __name__ == "__main__":
    main()
