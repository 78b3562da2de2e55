"""Interceptors that each break one promise, all made from one that keeps them."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import attrs

from ottla import RecordMetadata, TableResult
from ottla.interfaces import Header, ProducerRecord, ProducerRows

with contextlib.suppress(ModuleNotFoundError):  # only tables need it
    import pyarrow as pa


class Right:
    """Adds a header, and gets back when it saw the record. Others change what is made of the record's parts."""

    def on_send(self, record: ProducerRecord) -> Any:
        made = self.made_of(record.topic, record.key, record.value, record.headers)
        if not isinstance(made, tuple) or len(made) != 3:
            return made
        key, value, headers = made
        return attrs.evolve(record, key=key, value=value, headers=headers, context=0.0)

    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return key, value, (*headers, ("seen", b"1"))

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None: ...


class WaitsABit(Right):
    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        time.sleep(0.05)  # what is caught is just this
        return super().made_of(topic, key, value, headers)


class WaitsABitForOutcomes(Right):
    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        time.sleep(0.05)


class HasAnotherName:
    def before_send(self, record: Any) -> Any:
        return record


class CannotBeClosed(Right):
    close = "soon"


class CrashesOnATombstone(Right):
    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return key, value + b"!", headers


class ReturnsNothing(Right):
    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return None


class ForgetsTheHeaders(Right):
    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return key, value


class GivesADictOfHeaders(Right):
    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return key, value, dict(headers)


class WritesATextHeader(Right):
    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return key, value, [*headers, ("seen", "yes")]


class MakesTextOfValues(Right):
    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return key, None if value is None else value.decode(), headers


class SendsItElsewhere(Right):
    def on_send(self, record: ProducerRecord) -> Any:
        return attrs.evolve(record, topic="audit")


class CountsPartitionsFromTheEnd(Right):
    def on_send(self, record: ProducerRecord) -> Any:
        return attrs.evolve(record, partition=-1)


class TimesInSeconds(Right):
    def on_send(self, record: ProducerRecord) -> Any:
        return attrs.evolve(record, timestamp_ms=time.time())  # type: ignore[arg-type]  # the fault


class NeedsItsContext(Right):
    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        assert context < 1.0


class ForgetsItsContext(Right):
    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        assert context is None


class AppendsToTheTuple(Right):
    def made_of(self, topic: str, key: Any, value: Any, headers: Any) -> Any:
        headers.append(("seen", b"1"))
        return key, value, headers


class RefusesItsOwnHeader(Right):
    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        assert "seen" not in dict(headers)
        return super().made_of(topic, key, value, headers)


class StampsWhatItIsGiven(Right):
    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        if isinstance(value, dict):
            value["seen"] = True
        return key, value, headers


class AsksAServerFirst(Right):
    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        time.sleep(1.5)  # what is caught is just this
        return key, value, headers


class ReportsSlowly(Right):
    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        time.sleep(1.5)


class ExpectsWhatItHasSent(Right):
    def __init__(self) -> None:
        self._open = {"orders": 3}

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        self._open.pop(metadata.topic)


class ExpectsWordsInErrors(Right):
    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        if error is not None:
            assert str(error).split()[0]


class TornByThreads(Right):
    """Puts the value aside where other threads put theirs."""

    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        self.value = value
        time.sleep(0.001)  # what a longer computation does now and then
        return key, self.value, headers


class RaisesAtItsEnd(Right):
    def close(self) -> None:
        raise OSError("no such file")


class LeavesItsThread(Right):
    def __init__(self) -> None:
        self._over = threading.Event()

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        threading.Thread(target=self._over.wait, name="audit", daemon=True).start()


class KeepsTheProgram(LeavesItsThread):
    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: Any) -> None:
        threading.Thread(target=self._over.wait, args=(5,), name="audit", daemon=False).start()


class DropsTheHeaders(Right):
    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return key, value, (("seen", b"1"),)


class DropsTheTimestamp(Right):
    def on_send(self, record: ProducerRecord) -> Any:
        return attrs.evolve(super().on_send(record), timestamp_ms=None)


class PutsAllOnOnePartition(Right):
    def on_send(self, record: ProducerRecord) -> Any:
        return attrs.evolve(super().on_send(record), partition=0)


class KeepsTheRecordAside(Right):
    """Another thread may put its own there between the two lines."""

    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        self.key = key
        return self.key, value, headers


class KeepsTheSpanAside(Right):
    def on_send(self, record: ProducerRecord) -> Any:
        self.span = object()
        span = self.span
        return attrs.evolve(record, context=span)


class RightForTables(Right):
    """Adds a header to all rows, and counts its calls for a table."""

    def on_send_table(self, rows: ProducerRows) -> Any:
        changes = {"added_headers": (*rows.added_headers, ("seen", b"1")), "context": (rows.context or 0) + 1}
        return attrs.evolve(rows, **{**changes, **self.changes_of(rows)})

    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        return {}

    def on_table_acknowledgement(
        self, topic: str, result: TableResult, error: Exception | None, context: Any
    ) -> None: ...


class ForgetsTheRows(RightForTables):
    on_send_table = None  # type: ignore[assignment]  # the fault


class ReturnsNoRows(RightForTables):
    def on_send_table(self, rows: ProducerRows) -> Any:
        return None


class ReturnsOnlyHeaders(RightForTables):
    def on_send_table(self, rows: ProducerRows) -> Any:
        return (("seen", b"1"),)


class SendsTablesElsewhere(RightForTables):
    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        return {"topic": "audit"}


class DropsTombstones(RightForTables):
    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        return {} if rows.values is None else {"values": rows.values.drop_null()}


class CountsItsOwnRow(RightForTables):
    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        return {"count": rows.count + 1}


class ReturnsLists(RightForTables):
    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        return {"keys": [b"key"] * rows.count}


class NumbersTheKeys(RightForTables):
    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        return {"keys": pa.array(range(rows.count))}


class WritesTextOfFormattedValues(RightForTables):
    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        return {"values": pa.array(map(str, range(rows.count)))}


class CountsPartitionsOfTablesFromTheEnd(RightForTables):
    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        return {"partitions": pa.array([-1] * rows.count)}


class DropsHeadersForAll(RightForTables):
    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        return {"added_headers": (("seen", b"1"),)}


class DropsHeadersOfRows(RightForTables):
    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        return {"headers": None}


class DropsTimestampsOfRows(RightForTables):
    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        return {"timestamps_ms": None}


class WritesATextHeaderForAll(RightForTables):
    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        return {"added_headers": (*rows.added_headers, ("seen", "yes"))}


class NeedsKeys(RightForTables):
    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        return {"keys": rows.keys.fill_null(b"none")}


class RefusesHeadersOfOthers(RightForTables):
    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        assert "seen" not in dict(rows.added_headers)
        return {}


class RefusesAddressesInTables(RightForTables):
    """Fails where it finds something, which values of tests seldom have."""

    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        if rows.values is not None and "@" in str(rows.values.to_pylist()):
            raise RuntimeError("an address")
        return {}


class LeavesTablesAsTheyAre(RightForTables):
    def on_send_table(self, rows: ProducerRows) -> Any:
        return attrs.evolve(rows, context=1)


class HidesValuesOfRecordsOnly(RightForTables):
    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        hidden = b"****" if isinstance(value, bytes) else value
        return super().made_of(topic, key, hidden, headers)


class HidesKeysOfRecordsOnly(RightForTables):
    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        hidden = b"****" if isinstance(key, bytes) else key
        return super().made_of(topic, hidden, value, headers)


class HidesTextsOfRecordsOnly(RightForTables):
    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        hidden = "****" if isinstance(value, str) else value
        return super().made_of(topic, key, hidden, headers)


class EncodesTextsOfRecords(RightForTables):
    """A text of a table is encoded later."""

    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return super().made_of(topic, key, value.encode() if isinstance(value, str) else value, headers)


class WritesHeadersOfEachRow(RightForTables):
    """Adds the header to the column of headers."""

    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        own = [[]] * rows.count if rows.headers is None else rows.headers.to_pylist()
        seen = [{"key": "seen", "value": b"1"}]
        made = [[*(headers or ()), *(seen if self.marks(row) else ())] for row, headers in enumerate(own)]
        pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        return {"headers": pa.array(made, pairs), "added_headers": rows.added_headers}

    def marks(self, row: int) -> bool:
        return True


class MarksTheFirstRow(WritesHeadersOfEachRow):
    def marks(self, row: int) -> bool:
        return row == 0


class DiffersEachTime(RightForTables):
    """Draws a number for each value, and adds the header to every other record."""

    def __init__(self) -> None:
        self.turns = itertools.count()

    def made_of(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        some = headers if next(self.turns) % 2 else (*headers, ("sampled", b"1"))
        return super().made_of(topic, key, value + os.urandom(8) if isinstance(value, bytes) else value, some)


class ForgetsTheContextOfATable(RightForTables):
    def on_table_acknowledgement(self, topic: str, result: TableResult, error: Exception | None, context: Any) -> None:
        assert context is None


class NeedsTheContextOfATable(RightForTables):
    def on_table_acknowledgement(self, topic: str, result: TableResult, error: Exception | None, context: Any) -> None:
        assert context > 0


class BeginsATableOnce(RightForTables):
    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        assert rows.context is None
        return {}


class ExpectsTableErrors(RightForTables):
    def on_table_acknowledgement(self, topic: str, result: TableResult, error: Any, context: Any) -> None:
        if error is not None:
            error.result.failed  # noqa: B018  # an attribute that other errors lack


class DividesByTheRows(RightForTables):
    def on_table_acknowledgement(self, topic: str, result: TableResult, error: Exception | None, context: Any) -> None:
        self.share = result.acknowledged / result.rows


class WaitsForATable(RightForTables):
    def changes_of(self, rows: ProducerRows) -> dict[str, Any]:
        time.sleep(1.5)
        return {}


class WaitsAfterATable(RightForTables):
    def on_table_acknowledgement(self, topic: str, result: TableResult, error: Exception | None, context: Any) -> None:
        time.sleep(1.5)


class MixesTables(RightForTables):
    """Puts the rows aside where other threads put theirs."""

    def on_send_table(self, rows: ProducerRows) -> Any:
        self.rows = rows
        time.sleep(0.001)
        return attrs.evolve(rows, values=self.rows.values)
