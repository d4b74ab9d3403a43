"""Bodies that are text, and bodies that are a line of CSV.

CSV is that of RFC 4180: a body is one record, with as many fields as there are columns, in their
order. An empty field is null. The types are cast as Arrow casts text, all rows of a column at once.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.bodies.columns import exact, said

# The only column of a text.
TEXT = "text string"

FIELD_CHARACTERS_MAX = 2**30

NOT_TEXT = "not text in UTF-8"


class TextDecoder:
    """Decodes bodies as text in UTF-8."""

    def __init__(self, columns: pa.StructType) -> None:
        self._columns = columns
        if columns.get_field_index("text") < 0:
            raise OptionError(f"bodies of text have the column `{TEXT}`")

    def decode(self, bodies: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
        """Return the column of bodies, and which are bad, with the reason."""
        texts, bad = texts_of(bodies)
        found = pa.array(texts, pa.string())
        arrays = [
            found if each.name == "text" else pa.nulls(len(bodies), each.type)
            for each in self._columns
        ]
        mask = pc.is_null(found)
        return pa.StructArray.from_arrays(arrays, fields=list(self._columns), mask=mask), bad


class CsvDecoder:
    """Decodes bodies as records of CSV."""

    def __init__(self, columns: pa.StructType, delimiter: str = ",") -> None:
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise OptionError(f"{delimiter!r} cannot divide the fields of CSV: give one character")
        for each in columns:
            if pa.types.is_nested(each.type):
                raise OptionError(f"CSV has no {each.type} for the column {each.name!r}")
        self._columns = columns
        self._delimiter = delimiter
        # Of the whole process, and 131,072 before: a body is bounded by the broker.
        csv.field_size_limit(max(csv.field_size_limit(), FIELD_CHARACTERS_MAX))

    def decode(self, bodies: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
        """Return the columns of bodies, and which are bad, with the reason."""
        texts, bad = texts_of(bodies)
        width = self._columns.num_fields
        rows: list[list[str] | None] = []
        for at, text in enumerate(texts):
            row = None
            if text is not None:
                row = self._record(text)
                if row is None or len(row) != width:
                    found = "not one record" if row is None else f"{len(row)} fields"
                    bad[at] = f"not CSV of {width} columns: {found}"
                    row = None
            rows.append(row)
        arrays = []
        for number, column in enumerate(self._columns):
            values = [None if row is None else row[number] or None for row in rows]
            arrays.append(_cast(values, column, bad))
        mask = pa.array([at in bad for at in range(len(bodies))], pa.bool_())
        return pa.StructArray.from_arrays(arrays, fields=list(self._columns), mask=mask), bad

    def _record(self, text: str) -> list[str] | None:
        # Only these end a record, and no other characters that Python takes for the end of a line.
        lines = io.StringIO(text, newline="")
        try:
            reader = csv.reader(lines, delimiter=self._delimiter, strict=True)
            records = list(itertools.islice(reader, 2))
        except csv.Error:
            return None
        return records[0] if len(records) == 1 else None


def texts_of(bodies: Sequence[bytes]) -> tuple[list[str | None], dict[int, str]]:
    """Return bodies as text, and which are none."""
    texts: list[str | None] = []
    bad: dict[int, str] = {}
    for at, body in enumerate(bodies):
        try:
            texts.append(body.decode())
        except UnicodeDecodeError:
            texts.append(None)
            bad[at] = NOT_TEXT
    return texts, bad


def _cast(values: list[str | None], column: pa.Field, bad: dict[int, str]) -> pa.Array:
    """Return a column; a value that is none of it makes its row bad."""
    try:
        return _typed(pa.array(values, pa.string()), column.type)
    except (pa.ArrowException, ValueError):
        pass
    found = []
    for at, value in enumerate(values):
        one = pa.array([value], pa.string())
        try:
            found.append(_typed(one, column.type))
        except (pa.ArrowException, ValueError) as error:
            found.append(pa.nulls(1, column.type))
            bad.setdefault(at, f"column {column.name}: {said(error)}")
    return pa.concat_arrays(found)


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # With a zone in the text, or without one and then in UTC; Arrow asks which of both it is.
        zoned = pc.match_substring_regex(values, r"[Tt ].*([Zz]|[+-]\d\d:?\d\d)$")
        with_zone = pc.if_else(zoned, values, None).cast(kind)
        without = pc.if_else(zoned, None, values).cast(pa.timestamp("us"))
        return pc.coalesce(with_zone, pc.assume_timezone(without, "UTC").cast(kind))
    if pa.types.is_decimal(kind):
        texts = values.to_pylist()
        return pa.array([None if text is None else exact(text) for text in texts], kind)
    return values.cast(kind)
