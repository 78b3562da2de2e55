"""Which columns of Spark's can be JSON; `ottla.plugins.serializers.json_columns` makes it of their Arrow form."""

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
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_PLAIN: Final = (
    BinaryType,
    BooleanType,
    DateType,
    NullType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)


def fits(kind: DataType) -> bool:
    """Whether a column of this type can be JSON; the keys of a map are text or numbers."""
    match kind:
        case StructType(fields=fields):
            return all(fits(field.dataType) for field in fields)
        case ArrayType(elementType=element):
            return fits(element)
        case MapType(keyType=key, valueType=value):
            return isinstance(key, _PLAIN) and not isinstance(key, BinaryType) and fits(value)
        case _:
            return isinstance(kind, _PLAIN)
