"""Encoders that each break one promise, all made from the core's own."""

from __future__ import annotations

import json
import time
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import attrs

from ottla.errors import InvalidRecordError, UnsupportedVersionError
from ottla.interfaces import Columns, ColumnsKind, Cut, Encoded, Facts, Header, TableRows
from ottla.plugins.partitioners.murmur2 import partition_for_key
from ottla.plugins.partitioners.murmur2_hash import murmur2
from ottla.recordbatch.arrow import cut_rows
from ottla.recordbatch.objects import ObjectColumns, ObjectEncoder


class Right(ObjectColumns):
    """Keeps all promises."""


class WrongEncoder(ObjectEncoder):
    """Makes wrong columns."""

    def __init__(self, columns: type[Right] = Right) -> None:
        self._make = columns

    def columns(self, kind: ColumnsKind, limit: int) -> Columns | None:
        return self._make(limit) if kind is ColumnsKind.OBJECTS else None


class ForTablesOnly(WrongEncoder):
    def columns(self, kind: ColumnsKind, limit: int) -> Columns | None:
        return self._make(limit) if kind is ColumnsKind.ARROW else None


class FirstOfAll(WrongEncoder):
    priority = "highest"  # type: ignore[assignment]


class CheaperThanItIs(WrongEncoder):
    record_cost = 50


class OneForAll(WrongEncoder):
    """The same columns for every batch."""

    def __init__(self) -> None:
        super().__init__()
        self._one = Right(1 << 40)

    def columns(self, kind: ColumnsKind, limit: int) -> Columns | None:
        return self._one


class TornByThreads(WrongEncoder):
    """Puts the columns aside where other threads put theirs."""

    _last: Right | None = None

    def columns(self, kind: ColumnsKind, limit: int) -> Columns | None:
        self._last = self._make(limit)
        time.sleep(0.001)  # what a longer computation does now and then
        return self._last


class SecondsForMilliseconds(Right):
    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        return super().append(key, value, headers, timestamp_ms // 1000 * 1000)


class NullIsEmpty(Right):
    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        return super().append(key, value or b"", headers, timestamp_ms)


class LosesHeaders(Right):
    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        return super().append(key, value, [header for header in headers if header[1] is not None], timestamp_ms)


class CountsFromOne(Right):
    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        index = super().append(key, value, headers, timestamp_ms)
        return None if index is None else index + 1


class LastIsHighest(Right):
    def encode(self, magic: int) -> Encoded:
        last = self.facts().timestamps_ms[-1]
        return attrs.evolve(super().encode(magic), max_timestamp=last)


class HasNoOldFormats(Right):
    def encode(self, magic: int) -> Encoded:
        return super().encode(2)


class DropsHeadersInOldFormats(Right):
    def _refuse_headers(self, magic: int) -> None:
        pass


class RaisesValueErrorForHeaders(Right):
    def _refuse_headers(self, magic: int) -> None:
        raise ValueError("headers")


class ReusesItsMemory(Right):
    memory_of_all = bytearray(1 << 24)

    def encode(self, magic: int) -> Encoded:
        encoded = super().encode(magic)
        section = b"".join(encoded.chunks)
        self.memory_of_all[: len(section)] = section
        return attrs.evolve(encoded, chunks=[memoryview(self.memory_of_all)[: len(section)]])


class NeedsRoomForTheFirst(Right):
    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        if len(key or b"") + len(value or b"") > self._limit:
            return None
        return super().append(key, value, headers, timestamp_ms)


class TakesOneTooMany(Right):
    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        before, self._limit = self._limit, self._limit + 100
        try:
            return super().append(key, value, headers, timestamp_ms)
        finally:
            self._limit = before


class ChargesForWhatItRefuses(Right):
    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        index = super().append(key, value, headers, timestamp_ms)
        if index is None:
            self._used += 1
        return index


class AllowsNothing(Right):
    def allow(self, memory: int) -> None:
        pass


class AllowsOnlyMore(Right):
    def allow(self, memory: int) -> None:
        super().allow(max(memory, self._limit))


class StaysBelowItsLimit(Right):
    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        self.allow(self._limit - 1)
        try:
            return super().append(key, value, headers, timestamp_ms)
        finally:
            self.allow(self._limit + 1)


class KeepsItsRecords(Right):
    """Whatever happens to them."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.kept: list[bytes | None] = []

    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        self.kept.append(value)
        return super().append(key, value, headers, timestamp_ms)


class EstimatesNearTimes(Right):
    def size_estimate(self) -> int:
        return super().size_estimate() - 6 * len(self)


class CountsAThirdOfItsMemory(Right):
    def memory(self) -> int:
        return super().memory() // 3


class OpensAgain(Right):
    def allow(self, memory: int) -> None:
        self._limit, self._closed = memory, False


class KeepsTheBad(Right):
    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        try:
            return super().append(key, value, headers, timestamp_ms)
        except InvalidRecordError:
            super().append(key, value, (), 0)
            raise


class RaisesWhatUnicodeRaises(Right):
    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        for name, _content in headers:
            name.encode()
        return super().append(key, value, headers, timestamp_ms)


class ReplacesWhatUtf8CannotHold(Right):
    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        readable = [(name.encode(errors="replace").decode(), content) for name, content in headers]
        return super().append(key, value, readable, timestamp_ms)


class HasNoTimeBefore1970(Right):
    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        if timestamp_ms < 0:
            raise InvalidRecordError("no such time")
        return super().append(key, value, headers, timestamp_ms)


class SwapsKeyAndValue(Right):
    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        return super().append(value, key, headers, timestamp_ms)


class OffsetsFromOne(Right):
    """Only the first record's offset is wrong, at a place that depends on its size."""

    def encode(self, magic: int) -> Encoded:
        encoded = super().encode(magic)
        section = bytearray(b"".join(encoded.chunks))
        section[3 if section[0] < 0x80 else 4] = 2
        return attrs.evolve(encoded, chunks=[bytes(section)])


class SortsByKey(Right):
    """As a columnar format would, to compress better."""

    def encode(self, magic: int) -> Encoded:
        keys, values = self._keys, self._values
        if keys is not None:
            order = sorted(range(len(values)), key=lambda index: keys[index] or b"")
            self._keys, self._values = [keys[index] for index in order], [values[index] for index in order]
        return super().encode(magic)


class FirstIsLowest(Right):
    def encode(self, magic: int) -> Encoded:
        lowest = min(self.facts().timestamps_ms)
        return attrs.evolve(super().encode(magic), first_timestamp=lowest)


class ChecksumOfTheValue(Right):
    def encode(self, magic: int) -> Encoded:
        first = self._values[0] or b""
        encoded = super().encode(magic)
        section = bytearray(b"".join(encoded.chunks))
        if magic < 2:
            section[12:16] = zlib.crc32(first).to_bytes(4, "big")
        return attrs.evolve(encoded, chunks=[bytes(section)])


class ReleasesWhatItRefuses(Right):
    def encode(self, magic: int) -> Encoded:
        try:
            return super().encode(magic)
        except UnsupportedVersionError:
            self.release()
            raise


class SizeOfWhatIsLeft(Right):
    def size_estimate(self) -> int:
        return super().size_estimate() if self._values else 0


class EstimatesTooLittle(Right):
    def size_estimate(self) -> int:
        return super().size_estimate() * 9 // 10


class CountsBytesAlone(Right):
    """Says that a record takes what its key and value take."""

    def memory(self) -> int:
        return super().memory() - 176 * len(self)


class LeavesTheLastOut(Right):
    def encode(self, magic: int) -> Encoded:
        encoded = super().encode(magic)
        return attrs.evolve(encoded, count=max(encoded.count - 1, 0))


class ChunksForOneReader(Right):
    def encode(self, magic: int) -> Encoded:
        encoded = super().encode(magic)
        return attrs.evolve(encoded, chunks=iter(encoded.chunks))  # type: ignore[arg-type]


class ChunksOfNumbers(Right):
    def encode(self, magic: int) -> Encoded:
        encoded = super().encode(magic)
        return attrs.evolve(encoded, chunks=[array("B", b"".join(encoded.chunks))])  # type: ignore[list-item]


class TimesWithFractions(Right):
    def encode(self, magic: int) -> Encoded:
        encoded = super().encode(magic)
        return attrs.evolve(encoded, max_timestamp=float(encoded.max_timestamp))  # type: ignore[arg-type]


class BeginsWithOne(Right):
    def __len__(self) -> int:
        return super().__len__() + 1


class MovesNothing(Right):
    def extend(self, other: Columns, indexes: Sequence[int]) -> int:
        return 0


class FactsOfFewer(Right):
    def facts(self) -> Facts:
        times, keys, values = super().facts()
        return Facts(list(times)[:-1], None if keys is None else list(keys)[:-1], list(values)[:-1])


class FactsOfNothing(Right):
    def facts(self) -> Facts:
        return super().facts()._replace(timestamps_ms=None)  # type: ignore[arg-type]


class ForgetsItsNumber(Right):
    def __len__(self) -> int:
        return len(self._values)


class ForgetsItsFacts(Right):
    def facts(self) -> Facts:
        facts = super().facts()
        return facts if self._values else Facts((), None, ())


class ZeroForNull(Right):
    def facts(self) -> Facts:
        facts = super().facts()
        return facts._replace(value_sizes=[max(size, 0) for size in facts.value_sizes])


class KeysWithoutNulls(Right):
    def keys(self) -> Any:
        return list(filter(None, super().keys()))


class MovesTheFirstOnes(Right):
    def extend(self, other: Columns, indexes: Sequence[int]) -> int:
        return super().extend(other, range(len(indexes)))


class MovesAllOrNothing(Right):
    def extend(self, other: Columns, indexes: Sequence[int]) -> int:
        before, self._limit = self._limit, 1 << 40
        taken = super().extend(other, indexes)
        self._limit = before
        return taken


class SaysItMovedAll(Right):
    def extend(self, other: Columns, indexes: Sequence[int]) -> int:
        super().extend(other, indexes)
        return len(indexes)


class BorrowsWhatItMoves(Right):
    """Keeps a list of the other's, which that one lets go of."""

    lender: Right | None = None

    def extend(self, other: Columns, indexes: Sequence[int]) -> int:
        taken = super().extend(other, indexes)
        assert isinstance(other, Right)
        self.lender = other
        return taken

    def encode(self, magic: int) -> Encoded:
        if self.lender is not None and not self.lender._values:
            self._values[-1] = b"gone"
        return super().encode(magic)


class ForgetsTimesInMoves(Right):
    """Its report is wrong; the bytes are right."""

    moved = False

    def extend(self, other: Columns, indexes: Sequence[int]) -> int:
        self.moved = True
        return super().extend(other, indexes)

    def facts(self) -> Facts:
        facts = super().facts()
        return facts._replace(timestamps_ms=[0] * len(facts.timestamps_ms)) if self.moved else facts


class TakesAwayWhatItMoves(Right):
    def extend(self, other: Columns, indexes: Sequence[int]) -> int:
        taken = super().extend(other, indexes)
        assert isinstance(other, Right)
        other._values[indexes[0]] = b""
        return taken


class RightForTables(WrongEncoder):
    """Has every ability for tables, and keeps all promises."""

    def cut_rows(self, rows: TableRows, partitions: Any | None, *, max_bytes: int) -> Iterator[Cut]:
        return cut_rows(rows, partitions, max_bytes=max_bytes)

    def murmur2_partitions(self, keys: Any, partitions: int) -> Any:
        return array("i", [partition_for_key(key, partitions) for key in keys.to_pylist()])

    def json_rows(
        self, names: Sequence[str], columns: Sequence[Any], *, count: int, text: Callable[[Any], tuple[Any, str]]
    ) -> tuple[Any, Any]:
        cells = [self._written(json.dumps(name), *text(column)) for name, column in zip(names, columns, strict=True)]
        rows = [self._row([cell for cell in row if cell]).encode() for row in zip(*cells, strict=True)]
        return array("i", accumulate(map(len, rows), initial=0)), b"".join(rows)

    def _written(self, name: str, cells: Any, quote: str) -> list[str]:
        return ["" if cell is None else f"{name}:{quote}{cell}{quote}" for cell in cells.to_pylist()]

    def _row(self, fields: list[str]) -> str:
        return "{" + ",".join(fields) + "}"


class CutsTooMuch(RightForTables):
    def cut_rows(self, rows: TableRows, partitions: Any | None, *, max_bytes: int) -> Iterator[Cut]:
        return super().cut_rows(rows, partitions, max_bytes=10 * max_bytes)


class LosesTheLastBatch(RightForTables):
    def cut_rows(self, rows: TableRows, partitions: Any | None, *, max_bytes: int) -> Iterator[Cut]:
        return iter([*super().cut_rows(rows, partitions, max_bytes=max_bytes)][:-1])


class MixesPartitions(RightForTables):
    def cut_rows(self, rows: TableRows, partitions: Any | None, *, max_bytes: int) -> Iterator[Cut]:
        return (
            cut._replace(partition=max(cut.partition, 0)) for cut in super().cut_rows(rows, None, max_bytes=max_bytes)
        )


class ForgetsTimesOfRows(RightForTables):
    def cut_rows(self, rows: TableRows, partitions: Any | None, *, max_bytes: int) -> Iterator[Cut]:
        return super().cut_rows(attrs.evolve(rows, timestamps=None), partitions, max_bytes=max_bytes)


class CutsIntoTuples(RightForTables):
    def cut_rows(self, rows: TableRows, partitions: Any | None, *, max_bytes: int) -> Iterator[Cut]:
        return (tuple(cut) for cut in super().cut_rows(rows, partitions, max_bytes=max_bytes))  # type: ignore[misc]


class CutsOpenColumns(RightForTables):
    def cut_rows(self, rows: TableRows, partitions: Any | None, *, max_bytes: int) -> Iterator[Cut]:
        keys, values = rows.keys.to_pylist(), rows.values.to_pylist()  # type: ignore[union-attr]
        columns = self._make(1 << 40)
        for key, value in zip(keys, values, strict=True):
            columns.append(key, value, (), 1)
        yield Cut(-1, range(rows.count), columns)


class KeepsTheSign(RightForTables):
    def murmur2_partitions(self, keys: Any, partitions: int) -> Any:
        hashes = [murmur2(key) for key in keys.to_pylist()]
        return array("i", [abs(each - (1 << 32) if each >> 31 else each) % partitions for each in hashes])


class ReturnsLongs(RightForTables):
    def murmur2_partitions(self, keys: Any, partitions: int) -> Any:
        return array("q", super().murmur2_partitions(keys, partitions))


class WritesNulls(RightForTables):
    def _written(self, name: str, cells: Any, quote: str) -> list[str]:
        return [f"{name}:null" if cell is None else f"{name}:{quote}{cell}{quote}" for cell in cells.to_pylist()]


class ForgetsQuotes(RightForTables):
    def _written(self, name: str, cells: Any, quote: str) -> list[str]:
        return super()._written(name, cells, "")


class ForgetsTheFirstOffset(RightForTables):
    def json_rows(
        self, names: Sequence[str], columns: Sequence[Any], *, count: int, text: Callable[[Any], tuple[Any, str]]
    ) -> tuple[Any, Any]:
        offsets, content = super().json_rows(names, columns, count=count, text=text)
        return offsets[1:], content
