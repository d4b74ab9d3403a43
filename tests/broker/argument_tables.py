"""The tables of docs/queue-arguments.md, for tests that hold them against code and brokers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from leporid.amqp.tables import Int32, Value

PAGE = Path(__file__).parents[2] / "docs" / "queue-arguments.md"


@dataclass(frozen=True)
class Row:
    """One argument of a table.

    Attributes:
        types: the queue types or exchanges that the second column names.
        bounds: the least and the greatest number, where the third column names both.
        refused: wrong values, each with its text.
        rabbitmq: the last column.
    """

    argument: str
    types: tuple[str, ...]
    bounds: tuple[int, int] | None
    refused: tuple[tuple[Value, str], ...]
    rabbitmq: str

    @property
    def ours_alone(self) -> bool:
        """Whether RabbitMQ 3.10 does not know it, or not on all of these queues."""
        return self.rabbitmq.startswith("Leporid only")


def as_sent(value: Value) -> Value:
    """Whole numbers go in 32 bits where they can, as pika sends them."""
    small = type(value) is int and -(2**31) <= value < 2**31
    return Int32(value) if small else value  # type: ignore[arg-type]


def section(title: str) -> list[list[str]]:
    """The cells of the rows of the table under a title."""
    text = PAGE.read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows]


def names(cell: str) -> list[str]:
    """What stands in code marks."""
    return re.findall(r"`([^`]+)`", cell)


def rows(title: str) -> list[Row]:
    """One row for each argument of the tables on queues and consumers."""
    found = []
    for arguments, types, value, refused, _, rabbitmq in section(title):
        numbers = re.match(r"(\d+) to (\d+)\b(?! bytes)", value)
        for number, argument in enumerate(names(arguments)):
            of_this = types.partition(";")[0]
            if number and ";" in types:
                of_this = types.replace("; the second ", ", ").removesuffix(" too")
            found.append(
                Row(
                    argument,
                    tuple(each.strip() for each in of_this.split(",")),
                    (int(numbers[1]), int(numbers[2])) if numbers else None,
                    tuple(
                        (as_sent(json.loads(wrong)), text)
                        for wrong, text in re.findall(r"`([^`]+)`: `([^`]+)`", refused)
                    ),
                    rabbitmq,
                )
            )
    return found
