"""Hearing of the batches of streaming queries when they are done, instead of asking for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener


class Progress(StreamingQueryListener):
    """Tells of each batch that had rows, when it is done.

    Args:
        tell: called with Spark's report of the batch, on a thread of Spark's.
    """

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Be called by Spark; there is nothing to tell."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Tell."""
        if event.progress.numInputRows:
            self._tell(event.progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Be called by Spark; there is nothing to tell."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Be called by Spark; there is nothing to tell."""
