"""Bodies in JSON, with or without a JSON Schema, without Spark.

What a value may be for a column's type is what Spark's `from_json` says of it: a text column takes
any value, as JSON; decimals are rounded, and no other numbers are; a time is text in ISO 8601, UTC
without a zone, or seconds since 1970.

A JSON Schema makes columns of what has one type: what may be several, or says nothing of its
fields, is a text column with JSON in it.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import functools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.bodies.columns import exact, said, shaped
from leporid.spark.pipelines.bodies.schemas import Schema
from leporid.spark.pipelines.decoding import written

Convert = Callable[[Any], Any]

EMPTY = "the body is empty"
NOT_JSON = "not JSON"
DOES_NOT_FIT = "does not fit the schema"
BIGINT_MAX = 2**63 - 1

TYPES = {"string": "string", "integer": "bigint", "number": "double", "boolean": "boolean"}
# `#/$defs/a` to `#/$defs/b` and so on: as deep as columns may be nested, and no circle.
DEPTH_MAX = 50


# Digits enough before the point and behind it for whatever `exact` returns, in any column.
ROUNDED = decimal.Context(prec=80)


class JsonDecoder:
    """Decodes bodies that are JSON objects, and checks them if there is a schema."""

    def __init__(self, columns: pa.StructType, schema: Schema | None = None) -> None:
        self._columns = columns
        self._convert = _struct(columns)
        self._check = None if schema is None else validator(schema)
        exact = any(pa.types.is_decimal(kind) for kind in _inner(columns))
        self._parse_float: Any = Literal if exact else None

    def decode(self, bodies: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
        """Return the columns of bodies, and which are bad, with the reason."""
        rows: list[Any] = []
        bad: dict[int, str] = {}
        for at, body in enumerate(bodies):
            row, reason = self._one(body)
            rows.append(row)
            if reason:
                bad[at] = reason
        found, unfit = shaped(rows, self._columns)
        return found, bad | dict.fromkeys(unfit, DOES_NOT_FIT)

    def _one(self, body: bytes) -> tuple[Any, str]:
        if not body:
            return None, EMPTY
        try:
            value = json.loads(body, parse_float=self._parse_float, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return None, NOT_JSON
        if self._check is not None:
            # The validator knows Python's own numbers only.
            plain = value if self._parse_float is None else json.loads(body)
            try:
                error = next(self._check.iter_errors(plain), None)
            except ValueError as unfit:
                # It is no text in UTF-8, or nested deeper than the validator goes.
                return None, f"{DOES_NOT_FIT}: {said(unfit)}"
            if error is not None:
                where = "/".join(str(each) for each in error.instance_path)
                return None, f"{DOES_NOT_FIT}: {where or 'the body'}: {said(error)}"
        try:
            return self._convert(value), ""
        except (ValueError, TypeError, OverflowError, RecursionError):
            return None, DOES_NOT_FIT


class Literal(float):
    """A number with its digits, which a decimal may need."""

    def __init__(self, text: str) -> None:
        self.text = text


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _inner(kind: pa.DataType) -> list[pa.DataType]:
    """Return a type and those within it."""
    parts = [kind.field(at).type for at in range(kind.num_fields)]
    return [kind, *(each for part in parts for each in _inner(part))]


# ---------------------------------------------------------------- values


def converter(kind: pa.DataType) -> Convert:
    """Return what makes a column's value of one of JSON, and raises if it cannot be one."""
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_list(kind):
        inner = converter(kind.value_type)
        return _only(list, lambda value: [None if each is None else inner(each) for each in value])
    if pa.types.is_map(kind):
        item = converter(kind.item_type)
        return _only(
            dict,
            lambda value: [
                (key, None if each is None else item(each)) for key, each in value.items()
            ],
        )
    if pa.types.is_decimal(kind):
        return functools.partial(_decimal, decimal.Decimal(1).scaleb(-kind.scale))
    for holds, convert in _CONVERTERS:
        if holds(kind):
            return convert
    raise OptionError(f"JSON cannot be made {kind}")


def _struct(kind: pa.StructType) -> Convert:
    parts = [(each.name, converter(each.type)) for each in kind]

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise TypeError("no object")
        get = value.get
        return {name: None if (found := get(name)) is None else part(found) for name, part in parts}

    return convert


def _only(kind: type, convert: Convert) -> Convert:
    def checked(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"no {kind.__name__}")
        return convert(value)

    return checked


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("no whole number")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError("no number")
    if isinstance(value, str):
        if value not in {"NaN", "Infinity", "-Infinity", "+Infinity", "INF", "-INF", "+INF"}:
            raise TypeError("no number")
        return float(value)
    if not isinstance(value, (int, float)):
        raise TypeError("no number")
    return float(value)


def _decimal(unit: decimal.Decimal, value: Any) -> decimal.Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError("no number")
    found = exact(value.text if isinstance(value, Literal) else str(value))
    # As Spark does, and Arrow does not.
    return found.quantize(unit, decimal.ROUND_HALF_UP, ROUNDED)


def _moment(value: Any) -> dt.datetime:
    if type(value) is int:
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=value)
    found = _moment_ntz(value)
    return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found


def _moment_ntz(value: Any) -> dt.datetime:
    if not isinstance(value, str):
        raise TypeError("no time")
    return dt.datetime.fromisoformat(value)


def _local(value: Any) -> dt.datetime:
    found = _moment_ntz(value)
    if found.tzinfo is not None:
        raise ValueError("a time with a zone")
    return found


def _same(value: Any) -> Any:
    return value


_CONVERTERS: tuple[tuple[Callable[[pa.DataType], bool], Convert], ...] = (
    (pa.types.is_string, _text),
    (pa.types.is_integer, _whole),
    (pa.types.is_boolean, _only(bool, _same)),
    (pa.types.is_floating, _number),
    (pa.types.is_date, _only(str, dt.date.fromisoformat)),
    (lambda kind: bool(pa.types.is_timestamp(kind)) and kind.tz is not None, _moment),
    (pa.types.is_timestamp, _local),
    (pa.types.is_binary, _only(str, lambda value: base64.b64decode(value, validate=True))),
)


# ---------------------------------------------------------------- schemas


def validator(schema: Schema) -> Any:
    """Return what checks values against a schema; it loads nothing from anywhere.

    Raises:
        OptionError: it is not a JSON Schema.
    """
    import jsonschema_rs

    def refuse(uri: str) -> Any:
        raise ValueError(f"{uri} is not among the schema's references")

    try:
        found = [(name, json.loads(each.content)) for name, each in _all(schema)]
        registry = jsonschema_rs.Registry(found, retriever=refuse)
        # Patterns that take time without bounds are refused with the schema.
        return jsonschema_rs.validator_for(
            json.loads(schema.content),
            registry=registry,
            retriever=refuse,
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as error:
        raise OptionError(f"schema {schema.name} is not a JSON Schema: {said(error)}") from None


def _all(schema: Schema) -> list[tuple[str, Schema]]:
    return [pair for name, each in schema.references for pair in ((name, each), *_all(each))]


def columns_of(schema: Schema) -> dict[str, Any]:
    """Return the columns that a JSON Schema makes, as `evolution.read` has them.

    Raises:
        OptionError: it is no object with properties.
    """
    validator(schema)
    others = {name: json.loads(each.content) for name, each in _all(schema)}
    kind = _Walk(json.loads(schema.content), others).kind({"$ref": "#"}, 0)
    if not isinstance(kind, dict) or not kind:
        raise OptionError(f"schema {schema.name} is no object with properties: it has no columns")
    return kind


class _Walk:
    """Goes through a schema."""

    def __init__(self, root: Any, others: dict[str, Any]) -> None:
        self._root = root
        self._others = others

    def kind(self, node: Any, depth: int) -> Any:
        """Return the kind of a column; what has no type of its own is text."""
        if not isinstance(node, dict) or depth > DEPTH_MAX:
            return "string"
        if isinstance(node.get("$ref"), str):
            walk, found = self._followed(node["$ref"])
            return "string" if found is None else walk.kind(found, depth + 1)
        for word in ("oneOf", "anyOf"):
            if isinstance(node.get(word), list):
                rest = [each for each in node[word] if not _is_null(each)]
                return self.kind(rest[0], depth + 1) if len(rest) == 1 else "string"
        type_ = node.get("type", "object" if "properties" in node else None)
        if isinstance(type_, list):
            rest = [each for each in type_ if each != "null"]
            type_ = rest[0] if len(rest) == 1 else None
        if type_ == "object":
            return self._object(node, depth)
        if type_ == "array":
            return [self.kind(node.get("items"), depth + 1)]
        if type_ == "integer" and not _in_bigint(node):
            return "string"
        return TYPES.get(type_, "string") if isinstance(type_, str) else "string"

    def _object(self, node: dict[str, Any], depth: int) -> Any:
        properties = node.get("properties")
        if isinstance(properties, dict) and properties:
            return {name: self.kind(each, depth + 1) for name, each in properties.items()}
        if isinstance(node.get("additionalProperties"), dict):
            return f"map<string,{written(self.kind(node['additionalProperties'], depth + 1))}>"
        return "string"

    def _followed(self, reference: str) -> tuple[_Walk, Any]:
        name, _, pointer = reference.partition("#")
        walk = self
        if name:
            if name not in self._others:
                return self, None
            walk = _Walk(self._others[name], self._others)
        found = walk._root
        for escaped in pointer.split("/")[1:]:
            part = escaped.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or part not in found:
                return self, None
            found = found[part]
        return walk, found


def _is_null(node: Any) -> bool:
    return isinstance(node, dict) and node.get("type") == "null"


def _in_bigint(node: dict[str, Any]) -> bool:
    """Whether the numbers that a schema names fit; most schemas name none."""
    given = [node.get("minimum", 0), node.get("maximum", 0)]
    return all(isinstance(each, (int, float)) and math.fabs(each) <= BIGINT_MAX for each in given)
