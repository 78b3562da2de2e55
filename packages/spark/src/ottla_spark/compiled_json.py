"""Who writes rows as JSON faster than pyarrow does: the record encoder, where it has that ability.

`json_rows(names, columns, *, count, text)` gives the offsets and the bytes of so many objects. For a column of a kind
that it does not know it calls *text*, which returns a string column and the quotes to put around its cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

import pyarrow as pa

from ottla import OttlaError
from ottla.registry import Registry, make_alone


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


def compiled_objects(
    rows: JsonRows,
    names: Sequence[str],
    columns: Sequence[Any],
    *,
    count: int,
    text: Callable[[Any], tuple[Any, str]],
) -> Any:
    """The objects as a string column."""
    offsets, content = rows(names, columns, count=count, text=text)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(content))
