"""Types of text: strings, and the fixed lengths that Spark keeps with `spark.sql.preserveCharVarcharTypeInfo=true`."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import ArrayType, CharType, DataType, MapType, StringType, StructField, StructType, VarcharType

TEXT: Final = (StringType, CharType, VarcharType)
"""In PySpark they have no class in common; Arrow has strings for all of them."""


def as_strings(kind: DataType) -> DataType:
    """Return the type with strings in place of texts of a limited length, for which PySpark knows no Arrow type."""
    match kind:
        case CharType() | VarcharType():
            return StringType()
        case StructType(fields=fields):
            return StructType(
                [
                    StructField(field.name, as_strings(field.dataType), field.nullable, field.metadata)
                    for field in fields
                ]
            )
        case ArrayType(elementType=element, containsNull=nulls):
            return ArrayType(as_strings(element), nulls)
        case MapType(keyType=key, valueType=value, valueContainsNull=nulls):
            return MapType(as_strings(key), as_strings(value), nulls)
    return kind
