"""Column types of Spark that JSON can represent; `ottla.plugins.serializers.json_columns` encodes their Arrow form."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NullType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ottla_spark.sink.text_types import TEXT

_PLAIN: Final = (
    BinaryType,
    BooleanType,
    DateType,
    NullType,
    NumericType,
    TimestampNTZType,
    TimestampType,
    *TEXT,
)


def fits(kind: DataType) -> bool:
    """Return whether JSON can represent a column of this type; map keys are text or numbers."""
    match kind:
        case StructType(fields=fields):
            return all(fits(field.dataType) for field in fields)
        case ArrayType(elementType=element):
            return fits(element)
        case MapType(keyType=key, valueType=value):
            return isinstance(key, _PLAIN) and not isinstance(key, BinaryType) and fits(value)
        case _:
            return isinstance(kind, _PLAIN)
