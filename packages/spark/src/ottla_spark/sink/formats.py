"""Serializers of columns: the driver prepares them while a write is planned, and the tasks use them.

A serializer that looks something up, such as the id of a schema, does so on the driver, and goes to the executors by
pickle. They need not reach what it asked.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ottla import OttlaError
from ottla.errors import InvalidPluginError, NotPreparedError, RowSerializationError
from ottla.errors.plugin_origin import described, faults
from ottla.interfaces import (
    Header,
    Serializer,
    SupportsPrepare,
    SupportsSerializeColumn,
    SupportsUseEncoder,
    supports,
)
from ottla.plugins.column_headers import column_headers
from ottla.plugins.registry import Registry, make_alone
from ottla.plugins.serializer_failures import serialization_failure
from ottla.plugins.serializers import json_columns
from ottla.protocol.binary_arrays import flags, null, number
from ottla_spark.errors import WriteError
from ottla_spark.options.column_formats import JSON, ColumnFormat, Formats
from ottla_spark.options.formats import OPTION_OF
from ottla_spark.options.known_defaults import max_block_seconds
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.columns import ColumnPositions, other_columns
from ottla_spark.sink.encoders import first_encoder, json_rows
from ottla_spark.sink.text_types import as_strings
from ottla_spark.sink.valid_text import with_valid_text

_log = logging.getLogger(__name__)

MAX_LOOKUPS: Final = 5
"""Lookups for one column, as in the core; then the serializer is called once more."""

MAX_KNOWN: Final = 64
"""Prepared serializers that a driver keeps."""

_ZONE: Final[dict[str, Any]] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
)
"""PySpark 4.1 and later need a time zone for timestamps; which one makes no difference to what fits."""


def prepare_formats(
    options: WriteOptions, schema: StructType, columns: ColumnPositions, *, problems: list[str]
) -> WriteOptions:
    """Return the options for the tasks, with serializers that need no more lookups. Adds problems to *problems*.

    Blocks for `kafka.max.block.ms` at most for each lookup.
    """
    formats = options.formats
    for part, found in (("value", formats.value), ("key", formats.key)):
        if found is None or found == JSON or (part == "key" and "key" not in columns):
            continue
        try:
            with _as_reasons():
                made = _prepared(found, part, options, _column_type(schema, columns, part))
        except _UnpreparedError as error:
            problems.append(f"{_option(part, found)}: {error}")
        else:
            formats = attrs.evolve(formats, key=made) if part == "key" else attrs.evolve(formats, value=made)
    return attrs.evolve(options, formats=Formats(value=formats.value, key=formats.key))


class _UnpreparedError(Exception):
    """Why a format cannot be used."""


def _prepared(found: ColumnFormat, part: str, options: WriteOptions, kind: pa.DataType) -> ColumnFormat:
    if options.topic is None:
        raise _UnpreparedError("it needs option topic, because the serializer is prepared for it")
    registry = Registry()
    plugin = registry.plugin("serializer", found.name)
    serializer = make_alone(plugin, options.formats.settings, registry=registry, is_key=part == "key")
    if not supports(serializer, SupportsSerializeColumn):
        raise _UnpreparedError("this serializer makes one value at a time, because it has no serialize_column")
    settings = tuple(sorted(options.formats.settings.items()))
    pickled, headers = _pickled(serializer, options, kind, (found.name, part, options.topic, kind, settings))
    return attrs.evolve(found, prepared=pickled, headers=headers)


_Prepared: TypeAlias = tuple[bytes, tuple[Header, ...]]
"""A pickled serializer, and the headers of its rows."""

_known: Final[dict[Any, _Prepared]] = {}
"""The prepared serializers of this process, by what they depend on; the oldest first."""

_changing: Final = threading.Lock()
"""For `_known`: a driver plans the micro-batches of several queries, in a thread each."""


def _pickled(serializer: SupportsSerializeColumn, options: WriteOptions, kind: pa.DataType, place: Any) -> _Prepared:
    """The prepared serializer. While what it asks does not answer, it is the one of an earlier micro-batch or write."""
    try:
        headers = _look_up(serializer, str(options.topic), pa.array([], kind), max_block_seconds(options.producer))
    except TimeoutError as error:
        known = _known.get(place)
        if known is None:
            raise
        _log.warning("the schema of %s is still the known one: %s", options.topic, error)
        return known
    pickled: bytes = cloudpickle.dumps(serializer)  # type: ignore[no-untyped-call]
    with _changing:
        _known.pop(place, None)
        _known[place] = pickled, headers
        while len(_known) > MAX_KNOWN:
            _known.pop(next(iter(_known)))
    return pickled, headers


def _look_up(serializer: SupportsSerializeColumn, topic: str, empty: pa.Array, seconds: float) -> tuple[Header, ...]:
    lookups = 0
    while True:
        try:
            serializer.serialize_column(topic, empty)
            return column_headers(serializer, topic, empty)
        except InvalidPluginError:
            raise
        except NotPreparedError as error:
            if not supports(serializer, SupportsPrepare):
                raise _UnpreparedError(str(error)) from error
            if lookups == MAX_LOOKUPS:
                raise _UnpreparedError(f"{MAX_LOOKUPS} lookups did not prepare it") from error
            lookups += 1
            serializer.prepare(topic, empty, (), timeout=seconds)
        except faults() as error:
            raise _UnpreparedError(serialization_failure(serializer, error)) from error


@contextlib.contextmanager
def _as_reasons() -> Iterator[None]:
    """Errors of a plugin, as the reason why its format cannot be used."""
    try:
        yield
    except (_UnpreparedError, KeyboardInterrupt):
        raise
    except OttlaError as error:
        raise _UnpreparedError(str(error)) from error
    except faults() as error:
        raise _UnpreparedError(described(error)) from error


def _column_type(schema: StructType, columns: ColumnPositions, part: str) -> pa.DataType:
    """The Arrow type of what a part of the records is made of. Raises PySpark's error for a type without one."""
    positions = [columns[part]] if part in columns else other_columns(schema.names)
    chosen = as_strings(StructType([schema.fields[at] for at in positions]))
    assert isinstance(chosen, StructType)
    made = to_arrow_schema(chosen, **_ZONE)
    return made.field(0).type if part in columns else pa.struct(made)


def formatted(
    batch: pa.RecordBatch, columns: ColumnPositions, part: str, found: ColumnFormat, options: WriteOptions
) -> tuple[pa.Array, dict[int, str], Sequence[Header]]:
    """Return a part of the records of a batch, why rows have none, and the headers that the others get with it.

    A row without it has its JSON there. Text that is not valid UTF-8 is replaced in values in JSON, and is a reason
    elsewhere.

    Raises WriteError for a fault of the serializer.
    """
    batch, invalid = with_valid_text(batch, _positions(batch, columns, part))
    rows = json_rows(options.encoder)
    if found == JSON:
        # Two keys that differ only in what is replaced would become one.
        return _json(batch, columns, part, rows), _refused(part, invalid) if part == "key" else {}, ()
    topic, column = str(options.topic), _column(batch, columns, part)
    serializer = _serializer(found.prepared or b"", options.encoder)
    try:
        made, reasons = _serialized(serializer, topic, column)
    except InvalidPluginError as error:
        raise WriteError(f"{_option(part, found)}: {error}") from error
    except faults() as error:
        reason = serialization_failure(serializer, error, option=OPTION_OF[part])
        raise WriteError(f"{_option(part, found)}: {reason}") from error
    reasons = {**reasons, **invalid}  # a serializer was given other text, so its reason would be about that
    if not reasons:
        return made, {}, found.headers
    letters = _json(batch, columns, part, rows).cast(made.type)
    return pc.if_else(_rows_without(reasons, len(column)), made, letters), _refused(part, reasons), found.headers


def _refused(part: str, reasons: Mapping[int, str]) -> dict[int, str]:
    return {row: f"the {part} is refused: {why}" for row, why in reasons.items()}


def _option(part: str, found: ColumnFormat) -> str:
    return f"option {OPTION_OF[part]}={found.name!r}"


def _serialized(serializer: SupportsSerializeColumn, topic: str, column: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Serialize the rows; those that the serializer refuses are null, and named with the reason."""
    try:
        return serializer.serialize_column(topic, column), {}
    except RowSerializationError as error:
        reasons = dict(error.rows)
    good = _rows_without(reasons, len(column))
    made = serializer.serialize_column(topic, column.filter(good))
    places = pc.subtract(pc.cumulative_sum(good.cast(pa.int64())), number(1, pa.int64()))
    return made.take(pc.if_else(good, places, null(pa.int64()))), reasons


def _rows_without(reasons: Mapping[int, str], count: int) -> pa.Array:
    return flags([row not in reasons for row in range(count)])


def _positions(batch: pa.RecordBatch, columns: ColumnPositions, part: str) -> Sequence[int]:
    """The columns that a part of the records is made of."""
    return [columns[part]] if part in columns else other_columns(batch.schema.names)


def _json(batch: pa.RecordBatch, columns: ColumnPositions, part: str, rows: json_columns.JsonRows | None) -> pa.Array:
    if part in columns:
        return json_columns.texts(batch.column(columns[part]), rows=rows)
    positions = _positions(batch, columns, part)
    names, fields = [batch.schema.names[at] for at in positions], [batch.column(at) for at in positions]
    return json_columns.objects(names, fields, count=batch.num_rows, rows=rows)


def _column(batch: pa.RecordBatch, columns: ColumnPositions, part: str) -> pa.Array:
    if part in columns:
        return batch.column(columns[part])
    positions = _positions(batch, columns, part)
    fields = [batch.schema.field(at) for at in positions]
    return pa.StructArray.from_arrays([batch.column(at) for at in positions], fields=fields)


@lru_cache(maxsize=16)
def _serializer(prepared: bytes, encoder: str | None) -> Any:
    """The driver's serializer; tasks of one process share it."""
    made: Serializer = cloudpickle.loads(prepared)
    found = first_encoder(encoder)
    if found is not None and supports(made, SupportsUseEncoder):
        made.use_encoder(found)
    return made
