"""Serializers that each break one promise, all made from one that keeps them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from typing import Any

from ottla.errors import NotPreparedError
from ottla.interfaces import Header

with contextlib.suppress(ModuleNotFoundError):  # only columns need it
    import pyarrow as pa


class Right:
    """JSON of dicts."""

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        if data is None:
            return None
        if not isinstance(data, dict):
            raise TypeError(f"{type(data).__name__} is no dict")
        return json.dumps(data).encode()

    def serialize_column(self, topic: str, column: Any) -> Any:
        if not pa.types.is_struct(column.type):
            raise TypeError(f"{column.type} is no struct")
        return pa.array([self.serialize(topic, cell, ()) for cell in column.to_pylist()], pa.binary())


class HasAnotherName:
    def dumps(self, data: Any) -> bytes:
        return b""


class NullIsAText(Right):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        return b"null" if data is None else super().serialize(topic, data, headers)


class CrashesOnNull(Right):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        return json.dumps(data.copy()).encode()


class ReturnsText(Right):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        return None if data is None else json.dumps(data)


class ReturnsItsBuffer(Right):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        made = super().serialize(topic, data, headers)
        return None if made is None else bytearray(made)


class WritesOtherBytes(Right):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        return None if data is None else json.dumps(data, separators=(",", ":")).encode()


class NeedsAHeader(Right):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        assert headers[0][0]
        return super().serialize(topic, data, headers)


class NeedsATextInEachHeader(Right):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        for _name, content in headers:
            content.decode()  # type: ignore[union-attr]
        return super().serialize(topic, data, headers)


class KnowsItsTopic(Right):
    """By the first one that it sees."""

    topic: str | None = None

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        self.topic = self.topic or topic
        return super().serialize(topic, data, headers) if topic == self.topic else b""


class NumbersRecords(Right):
    count = 0

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        self.count += 1
        return super().serialize(topic, data if data is None else {**data, "number": self.count}, headers)


class StampsWhatItIsGiven(Right):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        made = super().serialize(topic, data, headers)
        if isinstance(data, dict):
            data["sent"] = True
        return made


class TakesEverything(Right):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        return None if data is None else json.dumps(data, default=repr).encode()


class RaisesAttributeError(Right):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        return None if data is None else json.dumps(data.copy()).encode()


class HasNoWords(Right):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        if data is not None and not isinstance(data, dict):
            raise ValueError
        return super().serialize(topic, data, headers)


class NeverRecovers(Right):
    broken = False

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        if self.broken:
            return b""
        try:
            return super().serialize(topic, data, headers)
        except TypeError:
            self.broken = True
            raise


class WaitsABit(Right):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        time.sleep(0.05)  # what is caught is just this
        return super().serialize(topic, data, headers)


class AsksARegistryForEver(Right):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        time.sleep(1.5)  # what is caught is just this
        return super().serialize(topic, data, headers)


class KeepsTheCallInItself(Right):
    """Like TornByThreads, without a wait that makes it likely."""

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        self.data = data
        made = super().serialize(topic, data, headers)
        return made if self.data is data else super().serialize(topic, self.data, headers)


class TornByThreads(Right):
    """Puts the data aside where other threads put theirs."""

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        self.data = data
        time.sleep(0.001)  # what a longer computation does now and then
        return super().serialize(topic, self.data, headers)


class FillsNulls(Right):
    def serialize_column(self, topic: str, column: Any) -> Any:
        return pa.array([self.serialize(topic, cell or {}, ()) for cell in column.to_pylist()], pa.binary())


class ForgetsTheOffset(Right):
    def serialize_column(self, topic: str, column: Any) -> Any:
        """As one that reads the buffers from their start on."""
        cells = [{"a": 1}, None, {"a": 2}, {"a": None}][: len(column)]
        return pa.array([self.serialize(topic, cell, ()) for cell in cells], pa.binary())


class KeepsTheColumnInItself(Right):
    """Puts the column aside where other threads put theirs."""

    def serialize_column(self, topic: str, column: Any) -> Any:
        self.column = column
        made = super().serialize_column(topic, column)
        return made if self.column is column else super().serialize_column(topic, self.column)


class MakesAList(Right):
    def serialize_column(self, topic: str, column: Any) -> Any:
        return super().serialize_column(topic, column).to_pylist()


class MakesNumbers(Right):
    def serialize_column(self, topic: str, column: Any) -> Any:
        return pa.array(range(len(column)))


class LosesARow(Right):
    def serialize_column(self, topic: str, column: Any) -> Any:
        return super().serialize_column(topic, column)[1:]


class FailsWhenEmpty(Right):
    def serialize_column(self, topic: str, column: Any) -> Any:
        self.kind = type(column.to_pylist()[0])
        return super().serialize_column(topic, column)


class RefusesAtTheFirstCell(Right):
    def serialize_column(self, topic: str, column: Any) -> Any:
        return pa.array([self.serialize(topic, cell, ()) for cell in column.to_pylist()], pa.binary())


class RefusesByCrashing(Right):
    def serialize_column(self, topic: str, column: Any) -> Any:
        if not pa.types.is_struct(column.type):
            raise KeyError(str(column.type))
        return super().serialize_column(topic, column)


class RightForColumns(Right):
    """Sets a header for the rows of columns."""

    def column_headers(self, topic: str, column: Any) -> Any:
        return [("schema", b"7")]


class SetsTextsForColumns(RightForColumns):
    def column_headers(self, topic: str, column: Any) -> Any:
        return [("schema", "7")]


class NumbersColumns(RightForColumns):
    number = 0

    def column_headers(self, topic: str, column: Any) -> Any:
        self.number += 1
        return [("schema", b"%d" % self.number)]


class RightWithLookups(Right):
    """Adds a header with the id of each topic's schema, which it has to look up."""

    sets_headers = True

    def __init__(self) -> None:
        self.ids: dict[str, bytes] = {}

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        made = super().serialize(topic, data, headers)
        if data is None:
            return made
        if topic not in self.ids:
            raise NotPreparedError(f"the schema of {topic} is not known")
        if isinstance(headers, list):  # else it is a cell of a column
            headers.append(("schema", self.ids[topic]))
        return made

    def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
        self.ids[topic] = b"%d" % len(topic)


class SetsTexts(RightWithLookups):
    def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
        self.ids[topic] = "7"  # type: ignore[assignment]  # the fault


class NumbersHeaders(RightWithLookups):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        made = super().serialize(topic, data, headers)
        if topic in self.ids:
            self.ids[topic] += b"1"
        return made


class ForgetsItsLookups(RightWithLookups):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        made = super().serialize(topic, data, headers)
        self.ids.pop(topic, None)
        return made


class LearnsNothing(RightWithLookups):
    def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
        """Look up nothing."""


class WaitsTooLong(RightWithLookups):
    def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
        time.sleep(3)
        super().prepare(topic, data, headers, timeout=timeout)


class WaitsInSerialize(RightWithLookups):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        if not self.ids:
            time.sleep(3)
        return super().serialize(topic, data, headers)


class CannotPrepare(RightWithLookups):
    prepare = None  # type: ignore[assignment]


class MakesAChunkedArray(Right):
    def serialize_column(self, topic: str, column: Any) -> Any:
        return pa.chunked_array([super().serialize_column(topic, column)])


class MakesViews(Right):
    def serialize_column(self, topic: str, column: Any) -> Any:
        return super().serialize_column(topic, column).cast(pa.binary_view())


class HasNoTypeWhenEmpty(Right):
    def serialize_column(self, topic: str, column: Any) -> Any:
        return super().serialize_column(topic, column) if len(column) else pa.array([])


class HasTheTypeOfItsRows(Right):
    def serialize_column(self, topic: str, column: Any) -> Any:
        made = super().serialize_column(topic, column)
        return made if len(column) else made.cast(pa.large_binary())


class RecursesForEver(Right):
    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> Any:
        if isinstance(data, list):
            return b"".join(self.serialize(topic, each, headers) for each in data)
        return super().serialize(topic, data, headers)
