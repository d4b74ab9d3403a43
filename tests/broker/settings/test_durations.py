"""Which texts RabbitMQ takes for a length of time, asked of 3.10.8."""

from __future__ import annotations

import pytest

from leporid.broker.settings.durations import milliseconds

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7D", 7 * DAY_MS),
        ("1Y", 365 * DAY_MS),
        ("2M", 60 * DAY_MS),
        ("1h", 3_600_000),
        ("3m", 180_000),
        ("4s", 4_000),
        ("01D", DAY_MS),
        ("99999999999999D", 99999999999999 * DAY_MS),
    ],
)
def test_a_number_and_a_unit(text: str, expected: int):
    assert milliseconds(text) == expected


NOT_DURATIONS = ["h", "7", "0s", "7d", "7H", "7S", "-1D", "+1D", "1.5D", "1DD", "1D2h", "٣D"]


@pytest.mark.parametrize("text", [*NOT_DURATIONS, "", " 1D", "1D ", "1D\n", "9" * 100_000 + "D"])
def test_anything_else_is_none(text: str):
    assert milliseconds(text) is None
