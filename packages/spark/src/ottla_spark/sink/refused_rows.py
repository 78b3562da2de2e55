"""Rows that cannot be sent: they fail their task or, with `errors.tolerance=all`, are skipped or become dead letters.

A dead letter is a record of another topic, with the row's key, value and headers, and with headers that say why the row
was refused. The options have the names of Kafka Connect's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final, Self

import attrs
import pyarrow as pa

from ottla import DeliveryError, RecordTooLargeError
from ottla.errors import BrokerError, ErrorCode, counted, printable
from ottla.protocol.binary_arrays import nullable_binary_array
from ottla.tables.headers import PAIR, header_rows
from ottla_spark.errors import WriteError
from ottla_spark.options.write_options import ErrorTolerance

_log = logging.getLogger(__name__)

TOPIC_HEADER: Final = "__ottla.errors.topic"
ROW_HEADER: Final = "__ottla.errors.row"
REASON_HEADER: Final = "__ottla.errors.exception.message"

MAX_REASON: Final = 1_000
"""Maximum characters of a reason in a header."""

LETTERS_BYTES: Final = 8 * 1024 * 1024
"""Bytes of refused rows that wait, after which their dead letters are sent."""

ROW_BYTES: Final = 1_000
"""Memory of a refused row besides its cells: some objects of Python."""

LETTER_SCHEMA: Final = pa.schema(
    [("key", pa.large_binary()), ("value", pa.large_binary()), ("headers", pa.list_(PAIR))]
)


@attrs.frozen(kw_only=True)
class RefusedRow:
    """A row that cannot be sent, the *reason*, and what its dead letter has.

    `key` and `value` are None, and there are no headers, if the record is too large: its dead letter would be, too.
    """

    name: str
    topic: str | None
    reason: str
    key: bytes | None = attrs.field(repr=False)
    value: bytes | None = attrs.field(repr=False)
    headers: Sequence[tuple[str, bytes | None]] = attrs.field(repr=False)
    cause: BaseException | None = None

    @classmethod
    def of(
        cls,
        rows: pa.RecordBatch,
        index: int,
        *,
        name: str,
        topic: str | None,
        reason: str,
        cause: BaseException | None = None,
    ) -> Self:
        """Read the cells of a row that was refused for *reason*."""
        cells = {part: rows.column(part)[index] for part in ("key", "value", "headers") if part in rows.schema.names}
        row = cls(
            name=name,
            topic=topic,
            reason=reason,
            key=_bytes(cells.get("key")),
            value=_bytes(cells.get("value")),
            headers=_headers(cells.get("headers")),
            cause=cause,
        )
        return row.emptied() if is_too_large(cause) else row

    @property
    def size(self) -> int:
        """The approximate bytes that the row takes in memory."""
        headers = sum(len(name) + len(value or b"") + ROW_BYTES // 4 for name, value in self.headers)
        return ROW_BYTES + len(self.key or b"") + len(self.value or b"") + headers

    def emptied(self) -> Self:
        """Return the row with the sizes of its key and value in place of these."""
        parts = {"key": self.key, "value": self.value}
        sizes = ", ".join(f"column {name!r}: {len(part)} bytes" for name, part in parts.items() if part is not None)
        reason = f"{self.reason} ({sizes})" if sizes else self.reason
        return attrs.evolve(self, reason=reason, key=None, value=None, headers=())

    def after(self, error: DeliveryError, topic: str) -> Self:
        """Return the row for another dead letter: *error* refused one. Raises WriteError if that would not help."""
        if is_too_large(error.__cause__) and not (self.key is self.value is None and not self.headers):
            return self.emptied()
        raise WriteError(
            f"{self.name} was refused: {self.reason}; its dead letter for topic {topic!r} cannot be sent, either: "
            f"{error}"
        ) from error

    @property
    def letter_headers(self) -> Sequence[tuple[str, bytes | None]]:
        """The headers of the dead letter."""
        added = {TOPIC_HEADER: self.topic, ROW_HEADER: self.name, REASON_HEADER: self.reason[:MAX_REASON]}
        return [
            *self.headers,
            *((key, None if text is None else printable(text).encode()) for key, text in added.items()),
        ]


class RefusedRows:
    """The refused rows of one task. Without a *tolerance*, the first one raises WriteError."""

    def __init__(self, tolerance: ErrorTolerance | None, *, task: str) -> None:
        self._tolerance = tolerance
        self._task = task
        self._first: RefusedRow | None = None
        self._letters: list[RefusedRow] = []
        self._bytes = 0
        self.count = 0
        """The number of refused rows."""

    @property
    def tolerated(self) -> bool:
        """Return whether a refused row leaves the task going."""
        return self._tolerance is not None

    @property
    def dead_letter_topic(self) -> str | None:
        """The topic of dead letters, or None if there are none."""
        return self._tolerance.dead_letter_topic if self._tolerance is not None else None

    @property
    def skipped(self) -> int:
        """The number of refused rows that are in no topic."""
        return self.count if self.dead_letter_topic is None else 0

    def add(self, row: RefusedRow) -> None:
        """Note a refused row. Raises WriteError if such a row fails the task."""
        if self._tolerance is None:
            raise WriteError(f"{row.name} was refused: {row.reason}") from row.cause
        self.count += 1
        self._first = self._first or row
        if self._tolerance.dead_letter_topic is not None:
            self._letters.append(row)
            self._bytes += row.size

    @property
    def are_many(self) -> bool:
        """Return whether so many rows wait to become dead letters that these should be sent."""
        return self._bytes >= LETTERS_BYTES

    def take_letters(self) -> Sequence[RefusedRow]:
        """Return the rows that have to become dead letters, and forget them."""
        letters, self._letters, self._bytes = self._letters, [], 0
        return letters

    def log(self, rows: int) -> None:
        """Log how many of a task's rows were refused, if any."""
        if self._first is not None:
            topic = self.dead_letter_topic
            _log.warning(
                "%s: %s of %d refused and %s; the first, %s: %s",
                self._task,
                counted(self.count, "row"),
                rows,
                "skipped" if topic is None else f"sent to topic {topic!r} as dead letters",
                self._first.name,
                self._first.reason,
            )


def dead_letters(rows: Sequence[RefusedRow]) -> pa.Table:
    """Return the dead letters of these rows."""
    columns = [
        nullable_binary_array([row.key for row in rows], large=True),
        nullable_binary_array([row.value for row in rows], large=True),
        header_rows([row.letter_headers for row in rows]),
    ]
    return pa.Table.from_arrays(columns, schema=LETTER_SCHEMA)


def is_too_large(error: BaseException | None) -> bool:
    """Return whether a record was refused for its size: by the producer, or by every broker that got it."""
    match error:
        case RecordTooLargeError():
            return True
        case DeliveryError(possibly_persisted=False, __cause__=BrokerError(code=ErrorCode.MESSAGE_TOO_LARGE)):
            return True
    return False


def _bytes(cell: Any | None) -> bytes | None:
    if cell is None or not cell.is_valid:
        return None
    return bytes(cell.as_buffer())


def _headers(cell: Any | None) -> Sequence[tuple[str, bytes | None]]:
    """Return the headers that have a name."""
    headers = cell.as_py() if cell is not None else None
    return [(header["key"], header["value"]) for header in headers or () if header and header["key"] is not None]
