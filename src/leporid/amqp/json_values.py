"""AMQP's tables as JSON has them, and back: RabbitMQ's way.

Responsible for the values of arguments, wherever they stand in JSON. Must not know what a key
means, nor who asks. Invariant: what comes from JSON has an encoding in AMQP, or is refused; what is
no text in AMQP is approximated in JSON.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, NoReturn

from leporid.amqp.errors import SyntaxFault
from leporid.amqp.tables import Value, decode_table, encode_table, octets_of


def finite(text: str) -> float:
    """Read a number of JSON that is not whole, as `parse_float` of Python's reader.

    Raises:
        ValueError: it is too large: it would become infinity, which nobody could write as JSON.
    """
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def no_constant(name: str) -> NoReturn:
    """Refuse NaN and the like, as `parse_constant` of Python's reader; raises ValueError."""
    raise ValueError(f"{name} is not JSON")


def shown(value: Value) -> Any:
    """Return a value as JSON has it; octets that are no text are approximated."""
    if isinstance(value, str):
        # Octets that are no UTF-8 are surrogates here, in names of headers, too.
        return value if value.isascii() else octets_of(value).decode("utf-8", "replace")
    if isinstance(value, dict):
        return {shown(name): shown(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shown(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Decimal):
        return str(value)
    return value


def table_of(given: Any) -> dict[str, Value]:
    """Return the table that JSON has; none is an empty one.

    Raises:
        ValueError: it is no object, or has no encoding; the text says which.
    """
    if given is None or given == []:  # RabbitMQ's own clients write an empty table so
        return {}
    if not isinstance(given, dict):
        raise ValueError("is not a JSON object")
    if not given:
        return {}
    try:
        # There and back: what AMQP does not allow to come is not let in here either.
        return decode_table(encode_table(given))[0]
    except (ValueError, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None
    except SyntaxFault as fault:
        raise ValueError(fault.text.partition(" - ")[2]) from None
