"""Descriptors of Protocol Buffers without protoc: what the tests decode."""

from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.message_factory import GetMessageClass

from leporid.spark.pipelines.bodies.protobuf import message_of
from leporid.spark.pipelines.bodies.schemas import PROTOBUF, Schema

D = descriptor_pb2.FieldDescriptorProto
INT32, INT64, UINT64, STRING, BYTES = D.TYPE_INT32, D.TYPE_INT64, D.TYPE_UINT64, 9, D.TYPE_BYTES
MESSAGE, ENUM, DOUBLE = D.TYPE_MESSAGE, D.TYPE_ENUM, D.TYPE_DOUBLE


def field(number: int, name: str, kind: int, type_name: str = "", **more: Any) -> Any:
    label = D.LABEL_REPEATED if more.pop("repeated", False) else D.LABEL_OPTIONAL
    made = D(name=name, number=number, type=kind, label=label, **more)
    if type_name:
        made.type_name = type_name
    return made


def file(*messages: Any, name: str = "orders.proto", imports: tuple[str, ...] = ()) -> Any:
    return descriptor_pb2.FileDescriptorProto(
        name=name, package="shop", syntax="proto3", message_type=messages, dependency=imports
    )


def message(name: str, *fields: Any, **more: Any) -> Any:
    return descriptor_pb2.DescriptorProto(name=name, field=fields, **more)


def schema(made: Any, name: str = "1", references: Any = ()) -> Schema:
    return Schema(PROTOBUF, made.SerializeToString(), name, tuple(references))


def written(made: Schema, value: dict[str, Any], path: tuple[int, ...] = (0,)) -> bytes:
    body: bytes = GetMessageClass(message_of(made, path))(**value).SerializeToString()
    return body
