"""Rows as JSON by the record encoder, where it has that ability, and by pyarrow where it has not.

The ability is `json_rows(names, columns, *, count, text)`: the offsets and the bytes of so many objects. For a column
of a kind that it does not know it calls *text*, which returns a string column and the quotes to put around its cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from ottla import OttlaError
from ottla.registry import Registry, make_alone
from ottla_spark import json_text


class JsonRows(Protocol):
    """The ability."""

    def __call__(
        self, names: Sequence[str], columns: Sequence[Any], *, count: int, text: Callable[[Any], tuple[Any, str]]
    ) -> tuple[Any, Any]: ...


@cache
def json_rows(encoder: str | None) -> JsonRows | None:
    """What the encoder of this name offers; None for a name: any that is installed."""
    registry = Registry()
    for info in registry.installed("encoder"):
        if encoder is not None and info.name.lower() != encoder.strip().lower():
            continue
        try:
            made = make_alone(registry.plugin("encoder", info.name), {}, registry=registry)
        except OttlaError:  # the producer says what is wrong with it
            continue
        if (found := getattr(made, "json_rows", None)) is not None:
            return found  # type: ignore[no-any-return]  # an ability of somebody's plugin
    return None


@attrs.frozen
class Json:
    """What `json_text` does, with objects made by *rows* where there is such an ability."""

    rows: JsonRows | None

    def texts(self, column: Any) -> Any:
        """The JSON of each row, null where the row is."""
        kind = column.type
        if self.rows is None or not pa.types.is_struct(kind):
            return json_text.texts(column)
        names = [kind.field(place).name for place in range(kind.num_fields)]
        made = self.objects(names, column.flatten(), count=len(column))
        return pc.if_else(column.is_valid(), made, pa.scalar(None, pa.string())) if column.null_count else made

    def objects(self, names: Sequence[str], columns: Sequence[Any], *, count: int) -> Any:
        """Objects of these fields, those that are null left out."""
        if self.rows is None:
            return json_text.objects(names, columns, count=count)
        offsets, content = self.rows(names, columns, count=count, text=self._text)
        return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(content))

    def _text(self, column: Any) -> tuple[Any, str]:
        return self.texts(column), ""
