"""A column that names the topic of each row: record batches are divided into the rows of each topic.

The rows of a topic keep their order. They are copies, because rows are picked by their places only from columns that
were checked.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from ottla.protocol.arrow_views import decoded, plain
from ottla.tables.conversion import to_bytes
from ottla.tables.private_copy import checked_copy, private_copy
from ottla.tables.slicing import cut

_RAW: Final = ("value", "key")
"""Parts that are sent as they are, unless they are made in a format: their texts need not be valid UTF-8."""


@attrs.frozen(kw_only=True, eq=False)
class TopicRows:
    """Rows of one topic. The topic is None if the column of topics is null in them.

    `places` are their indexes in the piece, in order.
    """

    topic: str | None
    rows: Any
    places: Sequence[int]


@attrs.frozen(kw_only=True, eq=False)
class TopicPiece:
    """Consecutive rows of a table, by topic."""

    count: int
    groups: Sequence[TopicRows]


@attrs.frozen(kw_only=True)
class TopicColumn:
    """The division of a stream by its column `name`. A row without a topic gets `default`, if there is one.

    `columns` are the other parts of a record; those in `formatted` are serialized later, and keep their types.
    """

    name: str
    default: str | None
    columns: Mapping[str, Any]
    formatted: Collection[str]

    def pieces(self, stream: Any, *, min_bytes: Callable[[], int], max_bytes: int) -> Iterator[TopicPiece]:
        """Yield the rows in pieces of at least *min_bytes* bytes, unless the stream ends, and about *max_bytes*."""
        selected, raw = self._selected(stream.schema)
        topic_at = selected.index(stream.schema.get_field_index(self.name))
        gathered: list[Any] = []
        size = 0
        try:
            for batch in stream:
                for part, part_size in cut(batch.select(selected), max_bytes):
                    gathered.append(_copied(part, raw))
                    size += part_size
                    if size >= min_bytes():
                        yield self._piece(_joined(gathered), topic_at)
                        gathered, size = [], 0
        except Exception:  # of the stream: rows read before it are sent
            if gathered:
                yield self._piece(_joined(gathered), topic_at)
            raise
        if gathered:
            yield self._piece(_joined(gathered), topic_at)

    def _selected(self, schema: Any) -> tuple[list[int], set[int]]:
        """The columns that are used, and which of them, counted among these, are sent as they are."""
        named: dict[str, bool] = {self.name: False}
        for part, given in self.columns.items():
            for name in [given] if isinstance(given, str) else given or ():
                named[name] = named.get(name, part not in self.formatted and part in _RAW)
        selected = [place for place, name in enumerate(schema.names) if name in named]
        return selected, {at for at, place in enumerate(selected) if named[schema.names[place]]}

    def _piece(self, rows: Any, topic_at: int) -> TopicPiece:
        names = _texts(rows.column(topic_at))
        if self.default is not None:
            names = pc.fill_null(names, self.default)
        return TopicPiece(count=rows.num_rows, groups=list(_groups(names, rows)))


def _groups(names: Any, rows: Any) -> Iterator[TopicRows]:
    coded = names.dictionary_encode(null_encoding="encode")
    topics = coded.dictionary.to_pylist()
    if len(topics) == 1:
        yield TopicRows(topic=topics[0], rows=rows, places=range(rows.num_rows))
        return
    order = pc.array_sort_indices(coded.indices).cast(pa.int32())  # stable
    sorted_rows = pa.RecordBatch.from_arrays([column.take(order) for column in rows.columns], schema=rows.schema)
    places = array("i")
    places.frombytes(memoryview(order.buffers()[1])[: 4 * len(order)])  # a tenth of the processor time of to_pylist
    start = 0
    for topic, count in zip(topics, _counts(coded.indices, len(topics)), strict=True):
        yield TopicRows(topic=topic, rows=sorted_rows.slice(start, count), places=places[start : start + count])
        start += count


def _counts(codes: Any, number: int) -> Sequence[int]:
    counts = [0] * number
    for counted in pc.value_counts(codes).to_pylist():
        counts[counted["values"]] = counted["counts"]
    return counts


def _texts(column: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        column = decoded(column)
    return column.cast(pa.string())


def _copied(batch: Any, raw: Collection[int]) -> Any:
    columns = [
        plain(_as_bytes(column) if place in raw else checked_copy(column, name=batch.schema.names[place]))
        for place, column in enumerate(batch.columns)
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _as_bytes(column: Any) -> Any:
    return column if pa.types.is_null(column.type) else to_bytes(private_copy(column))


def _joined(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    columns = [pa.concat_arrays([part.column(place) for part in parts]) for place in range(parts[0].num_columns)]
    return pa.RecordBatch.from_arrays(columns, schema=parts[0].schema)
