import io

import pyarrow as pa
import pytest
from bench.attacks.tables import null_columns, zero_width


@pytest.mark.parametrize("make", [null_columns, zero_width])
def test_a_table_takes_as_few_bytes_for_many_rows_as_for_one(make):
    data = make(1_000_000_000)
    assert len(data) == len(make(1)) < 400
    with pa.ipc.open_stream(io.BytesIO(data)) as reader:
        (batch,) = reader
    assert batch.num_rows == 1_000_000_000
    assert batch.column("body").null_count == 0
