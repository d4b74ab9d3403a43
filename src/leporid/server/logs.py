"""The log on standard error: lines for people, or objects of JSON for programs.

Responsible for what a line looks like and how much is written. Must not know who writes, nor how
many lines there may be (`limits.log_lines`). Invariant: what a peer says stays within the line, or
the field, that quotes it.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

logger = logging.getLogger(__name__)

LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class OneLineFormatter(logging.Formatter):
    """Keeps what peers say within the line that quotes them.

    Names and texts in the log come from peers. With line feeds in them a peer could write lines of
    its own, with escape sequences it could move the cursor of whoever reads them: so everything
    that cannot be printed is shown as Python would write it, and only the lines of a traceback,
    which are indented, follow the first one.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the first line."""
        return _printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """Return the first line and, if there is one, the traceback."""
        first, *rest = super().format(record).split("\n")
        return "\n".join([first, *(f"    {_printable(line)}" for line in rest)])


class JsonFormatter(logging.Formatter):
    """Makes of each record one line of ASCII, an object of JSON.

    It has `time` (RFC 3339, UTC), `level`, `logger` and `message`; of a line that a peer caused,
    as far as they are known, `connection`, `vhost` and `user`; of a defect, `traceback`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, Any] = {
            "time": when.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        about = getattr(record, "about", {})
        fields |= {name: value for name, value in about.items() if value is not None}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields)


FORMATTERS: Final = {"console": OneLineFormatter(LOG_FORMAT), "json": JsonFormatter()}


class StandardError(logging.StreamHandler[Any]):
    """Writes the log of this process."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)


def report_unraisable(report: sys.UnraisableHookArgs) -> None:
    """Write of an error that Python cannot raise what it would print past all budgets.

    Not the object, which may be a peer's: the name that a client of TLS asks for (SNI), if that is
    not ASCII.
    """
    logger.error(
        "an error could not be raised: %s", report.exc_type.__name__, exc_info=report.exc_value
    )


def set_up(level: str, style: str = "console") -> None:
    """Write the log to standard error, or change how; where something else keeps it, nothing.

    Args:
        level: the least that is written: "debug", "info", "warning", "error".
        style: "console" or "json".
    """
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(StandardError())
        sys.unraisablehook = report_unraisable
    for handler in root.handlers:
        if isinstance(handler, StandardError):
            handler.setFormatter(FORMATTERS[style])
            root.setLevel(level.upper())


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
