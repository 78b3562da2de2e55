"""The plugin: an encoder, which makes the columns of batches."""

from __future__ import annotations

from ottla.hookspecs import hookimpl
from ottla.interfaces import Columns, ColumnsKind, RecordEncoder

from ottla_encoder_plain.columns import RECORD_COST, PlainColumns


class PlainEncoder:
    """Many threads call it at once; a batch's columns are called by one thread at a time."""

    priority = 0  # means nothing for an encoder that is not released with the core
    record_cost = RECORD_COST

    def columns(self, kind: ColumnsKind, limit: int) -> Columns | None:
        """Return the columns of a batch of `send`; None for tables, which the core encodes itself."""
        return PlainColumns(limit) if kind is ColumnsKind.OBJECTS else None


@hookimpl
def ottla_encoder() -> RecordEncoder:
    """The encoder named `plain`."""
    return PlainEncoder()
