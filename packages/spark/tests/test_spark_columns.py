"""The DataFrames that can be written, and the errors for the others."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    DayTimeIntervalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from ottla_spark.options.column_formats import JSON, Formats
from ottla_spark.sink.columns import ColumnPositions, find_columns, other_columns
from ottla_spark.sink.text_types import as_strings

TEXT, BYTES, INT, LONG, DOUBLE, TIME = (
    StringType(),
    BinaryType(),
    IntegerType(),
    LongType(),
    DoubleType(),
    TimestampType(),
)
HEADERS = ArrayType(StructType().add("key", TEXT).add("value", BYTES))


def schema(**columns: DataType) -> StructType:
    made = StructType()
    for name, found in columns.items():
        made.add(name, found)
    return made


def found(topic: str | None = "t", **columns: DataType) -> tuple[ColumnPositions, list[str]]:
    """The columns that are sent of a DataFrame with these, and the problems."""
    problems: list[str] = []
    return find_columns(schema(**columns), topic=topic, problems=problems), problems


@pytest.mark.parametrize("value", [TEXT, BYTES], ids=str)
@pytest.mark.parametrize("key", [TEXT, BYTES], ids=str)
def test_all_columns_are_found_at_any_position(key: DataType, value: DataType) -> None:
    problems: list[str] = []
    columns = schema(id=LONG, headers=HEADERS, partition=INT, topic=TEXT, timestamp=TIME, key=key, value=value)
    positions = find_columns(columns, topic=None, problems=problems)

    assert problems == []
    assert positions == {"headers": 1, "partition": 2, "topic": 3, "timestamp": 4, "key": 5, "value": 6}


@pytest.mark.parametrize("text", [CharType(3), VarcharType(9)], ids=str)
def test_texts_of_a_limited_length_are_texts(text: DataType) -> None:
    headers = ArrayType(StructType().add("key", text).add("value", BYTES))
    assert found(value=text, key=text, headers=headers)[1] == []
    problems: list[str] = []
    columns = schema(topic=text, id=text, texts=ArrayType(text), pairs=MapType(text, text))
    find_columns(columns, topic=None, problems=problems, formats=Formats(value=JSON))
    assert problems == []
    assert as_strings(columns) == schema(topic=TEXT, id=TEXT, texts=ArrayType(TEXT), pairs=MapType(TEXT, TEXT))


def test_a_value_is_the_only_required_column_with_a_topic_option() -> None:
    assert found(value=BYTES) == ({"value": 0}, [])


def test_columns_of_other_names_are_ignored_whatever_their_type() -> None:
    assert found(offset=MapType(INT, INT), value=TEXT, Key=DOUBLE) == ({"value": 1}, [])


def test_the_topic_option_makes_the_topic_column_meaningless() -> None:
    problems: list[str] = []
    positions = find_columns(schema(topic=DOUBLE, value=TEXT), topic="t", problems=problems)

    assert (positions, problems) == ({"value": 1}, [])


def test_without_a_topic_both_ways_to_name_one_are_reported() -> None:
    _, problems = found(None, value=TEXT)

    assert problems == ["there is no topic: set option 'topic', or add a column 'topic' of type string"]


def test_a_format_of_keys_without_a_column_for_them_is_reported() -> None:
    problems: list[str] = []
    find_columns(schema(Key=LONG, value=TEXT), topic="t", problems=problems, formats=Formats(key=JSON))

    assert problems == [
        "option key.format='json' needs a column 'key', and names are case-sensitive (found: Key, value); add one, "
        "such as struct(...) AS key, or leave the option out"
    ]


def test_a_missing_value_is_reported_with_the_columns_found() -> None:
    _, problems = found(Value=TEXT, key=TEXT)

    assert problems == [
        "required column 'value' not found; it must be string or binary, and names are case-sensitive "
        "(found: Value, key); set option value.format='json' to send all other columns as a JSON object"
    ]


@pytest.mark.parametrize(
    ("column", "type_", "allowed"),
    [
        ("value", StructType().add("a", INT), "string or binary, or set option value.format='json' to send it as JSON"),
        ("key", LONG, "string or binary, or set option key.format='json' to send it as JSON"),
        ("topic", BYTES, "string"),
        ("partition", LONG, "int"),
        ("headers", MapType(TEXT, BYTES), "array<struct<key:string,value:binary>>"),
        ("headers", ArrayType(TEXT), "array<struct<key:string,value:binary>>"),
        (
            "headers",
            ArrayType(StructType().add("key", TEXT).add("value", TEXT)),
            "array<struct<key:string,value:binary>>",
        ),
        (
            "headers",
            ArrayType(StructType().add("name", TEXT).add("value", BYTES)),
            "array<struct<key:string,value:binary>>",
        ),
        ("timestamp", LONG, "timestamp"),
        ("timestamp", TimestampNTZType(), "timestamp"),
    ],
    ids=lambda part: part if isinstance(part, str) else part.simpleString(),
)
def test_a_wrong_type_is_reported_with_column_type_and_allowed_types(
    column: str, type_: DataType, allowed: str
) -> None:
    problems: list[str] = []
    columns = {"topic": TEXT, "value": TEXT, column: type_}
    find_columns(schema(**columns), topic=None, problems=problems)

    assert problems == [f"column {column!r} has the unsupported type {type_.simpleString()}; it must be {allowed}"]


def test_a_duplicate_column_is_refused() -> None:
    problems: list[str] = []
    find_columns(schema(value=TEXT).add("value", BYTES), topic="t", problems=problems)

    assert problems == ["column 'value' occurs 2 times; keep one"]


# Values made of other columns


def found_for_json(columns: StructType) -> tuple[ColumnPositions, list[str]]:
    problems: list[str] = []
    return find_columns(columns, topic="t", problems=problems, formats=Formats(value=JSON)), problems


def test_with_a_format_the_value_may_be_a_struct() -> None:
    assert found_for_json(schema(value=StructType().add("a", MapType(TEXT, DOUBLE)), a=INT)) == ({"value": 0}, [])


def test_with_a_format_and_no_value_all_other_columns_are_the_value() -> None:
    columns = schema(key=TEXT, a=INT, topic=TEXT, timestamp=TIME, b=StructType())

    assert found_for_json(columns) == ({"key": 0, "timestamp": 3}, [])
    assert other_columns(columns.fieldNames()) == [1, 4]


def test_with_a_format_at_least_one_column_is_required() -> None:
    _, [problem] = found_for_json(schema(key=TEXT))

    assert problem.startswith("the value would have no fields")


@pytest.mark.parametrize(
    "type_", [MapType(BYTES, TEXT), MapType(StructType(), TEXT), ArrayType(DayTimeIntervalType())], ids=str
)
def test_a_type_that_json_cannot_represent_is_refused_with_its_column(type_: DataType) -> None:
    said = f"column 'a' has the unsupported type {type_.simpleString()}; in a value it must be text, bytes, a number"
    _, [problem] = found_for_json(schema(a=type_))
    assert problem.startswith(said)

    _, [problem] = found_for_json(schema(value=type_))
    assert problem.startswith("column 'value' has the unsupported type")


def test_duplicate_field_names_are_refused() -> None:
    _, problems = found_for_json(schema(a=INT).add("a", TEXT).add("a", TEXT))

    assert problems == ["column 'a' occurs more than once, but a value has each field once; rename one of them"]


def test_all_problems_are_reported_at_once() -> None:
    _, problems = found(None, key=INT, partition=TEXT)

    assert len(problems) == 4
