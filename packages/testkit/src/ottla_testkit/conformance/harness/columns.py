"""Columns of the encoder under test, filled and compared with the core's own columns of the same records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ottla.interfaces import Columns, ColumnsKind, Encoded, Facts, RecordEncoder
from ottla.recordbatch.objects import ObjectColumns
from ottla_testkit.conformance.harness.checked_layer import check, fail
from ottla_testkit.conformance.harness.rows import Row, shown, size

ENOUGH_BYTES: Final = 1 << 40
_BYTES: Final = (bytes, bytearray, memoryview)


def columns_of(encoder: RecordEncoder, limit: int = ENOUGH_BYTES) -> Columns:
    """Return new columns for records of `send`."""
    columns = encoder.columns(ColumnsKind.OBJECTS, limit)
    if columns is None:
        fail("columns(OBJECTS) returned None: no producer asks for any other kind")
    check(
        callable(getattr(columns, "append", None)),
        f"columns(OBJECTS) returned an object of type {type(columns).__name__}, which has no method append()",
    )
    count: object = len(columns)
    check(count == 0, f"columns(OBJECTS) returned columns with {count} records; new ones are empty")
    return columns


def filled(encoder: RecordEncoder, rows: Sequence[Row]) -> Columns:
    """Return new columns with these records."""
    columns = columns_of(encoder)
    for number, row in enumerate(rows):
        index = append(columns, row)
        check(index == number, f"append() returned index {index!r} for record {number}")
    return columns


def append(columns: Columns, row: Row, *, why: str = "there was all the room") -> int:
    """Append a record and return its index; *why* explains in errors that the columns must take it."""
    try:
        index: Any = columns.append(*row)
    except Exception as error:
        fail(f"append() raised {error!r} for {shown(row)}", error)
    check(index is not None, f"append() returned None for {shown(row)}, although {why}")
    check(type(index) is int, f"append() returned {index!r}; it must be the record's index, or None")
    return int(index)


def encode(columns: Columns, magic: int) -> Encoded:
    """Encode all records in this format."""
    try:
        encoded: Any = columns.encode(magic)
    except Exception as error:
        fail(f"encode({magic}) of {len(columns)} records raised {error!r}", error)
    check(isinstance(encoded, Encoded), f"encode() returned {encoded!r}, which is not of type Encoded")
    assert isinstance(encoded, Encoded)
    chunks: Any = encoded.chunks
    check(
        isinstance(chunks, Sequence) and not isinstance(chunks, (str, *_BYTES)),
        f"encode() returned chunks of type {type(chunks).__name__}; they must be a list, which can be read twice",
    )
    for chunk in chunks:
        check(
            isinstance(chunk, _BYTES) and len(chunk) == memoryview(chunk).nbytes,
            f"encode() returned a chunk of type {type(chunk).__name__}, which is not bytes",
        )
    for field in ("first_timestamp", "max_timestamp", "count"):
        number: object = getattr(encoded, field)
        check(type(number) is int, f"encode() returned {number!r} as {field}; it must be an int")
    return encoded


def check_bytes(columns: Columns, rows: Sequence[Row], *, magic: int = 2) -> int:
    """Encode, and compare with the bytes of the core's own columns for the same records; return how many they are."""
    reference = ObjectColumns(ENOUGH_BYTES)
    for row in rows:
        assert reference.append(*row) is not None, "the suite appends nothing that the format cannot hold"
    expected, encoded = reference.encode(magic), encode(columns, magic)
    got, wanted = b"".join(encoded.chunks), b"".join(expected.chunks)
    if got != wanted:
        shorter = min(len(got), len(wanted))
        parted = next((at for at in range(shorter) if got[at] != wanted[at]), shorter)
        fail(
            f"{len(rows)} records became {len(got)} bytes in format v{magic}, and {len(wanted)} by the core's own "
            f"encoder; they part at byte {parted}: {got[parted : parted + 12]!r} for "
            f"{wanted[parted : parted + 12]!r}. First record: {shown(rows[0])}"
        )
    for field in ("first_timestamp", "max_timestamp", "count"):
        mine, theirs = getattr(encoded, field), getattr(expected, field)
        check(mine == theirs, f"{field} of {len(rows)} records in format v{magic} is {mine!r}, for {theirs}")
    return len(got)


def check_facts(columns: Columns, rows: Sequence[Row], when: str) -> None:
    """Check that the reported facts of each record are those of the appended ones."""
    facts: Any = columns.facts()
    check(isinstance(facts, Facts), f"facts() returned {facts!r}, which is not of type Facts")
    times, keys, values = facts
    for numbers in (times, values) if keys is None else (times, keys, values):
        check(isinstance(numbers, Iterable), f"facts() {when} has {numbers!r} where there must be numbers")
    check(
        list(times) == [row.timestamp_ms for row in rows],
        f"facts() {when} has other timestamps than were appended",
    )
    response = [-1] * len(rows) if keys is None else list(keys)
    check(response == [size(row.key) for row in rows], f"facts() {when} has other sizes of keys; null has -1")
    response = list(values)
    check(response == [size(row.value) for row in rows], f"facts() {when} has other sizes of values; null has -1")
