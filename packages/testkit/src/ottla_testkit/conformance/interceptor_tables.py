"""The requirements for the rows of tables, for interceptors with `on_send_table`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import attrs

from ottla import InvalidRecordError, PartitionResult, TableDeliveryError, TableResult
from ottla.interfaces import (
    Header,
    Interceptor,
    ProducerRecord,
    ProducerRows,
    SupportsOnSendTable,
    SupportsOnTableAcknowledgement,
)
from ottla.plugins.record_headers import checked_headers
from ottla_testkit.conformance.harness.arrow import pyarrow
from ottla_testkit.conformance.harness.bounded_suite import BoundedSuite
from ottla_testkit.conformance.harness.checked_layer import check, fail, has_ability, needed
from ottla_testkit.conformance.harness.concurrent_calls import together, within

_ALL: Final = TableResult(
    rows=5, acknowledged=5, failed=0, partitions={3: PartitionResult(rows=5, first_offset=0, last_offset=4)}
)
_NONE: Final = TableResult(rows=0, acknowledged=0, failed=0, partitions={})
_SOME: Final = attrs.evolve(_ALL, rows=7, failed=2)
_OUTCOMES: Final[Sequence[tuple[TableResult, Exception | None]]] = (
    (_ALL, None),
    (_NONE, None),
    (attrs.evolve(_ALL, partitions={0: PartitionResult(rows=5, first_offset=-1, last_offset=-1)}), None),
    (_SOME, TableDeliveryError(_SOME, "2 of 7 rows for topic 'orders' were not delivered")),
    (_NONE, InvalidRecordError("value='value': the table has no such column")),
    (_SOME, RuntimeError()),
)

CONTENTS: Final = (
    b'{"name": "Ann", "e-mail": "ann@example.org", "card": "4111 1111 1111 1111", "number": 4111111111111111, '
    b'"iban": "DE89370400440532013000", "phone": "+49 30 123456", "at": "2026-01-02T03:04:05Z", "address": '
    b'"https://example.org/?token=1", "host": "192.0.2.1", "name\xc3\xa4": null}'
)
"""What interceptors look for in values: addresses, numbers and dates."""


class Given(NamedTuple):
    """What a program gives besides key and value."""

    headers: tuple[Header, ...]
    partition: int | None
    timestamp_ms: int | None


GIVEN: Final = Given((("conformance", b"1"), ("conformance", None), ("\u00e9", b"\0")), 2, 1_700_000_000_000)
_COLUMNS: Final = ("keys", "values", "headers", "partitions", "timestamps_ms")
_THREADS: Final = 8
_TIMES: Final = 20


class TableRequirements(BoundedSuite):
    """The requirements of `InterceptorConformance` for an interceptor that takes tables."""

    records: ClassVar[Sequence[tuple[Any, Any]]]
    keeps: ClassVar[Collection[str]] = ("headers", "partition", "timestamp_ms")
    """What it leaves as the program has given it; headers may be added to those that a record has."""
    tables_as_records: ClassVar[bool] = True
    """Whether rows of tables become what `on_send` makes of records: keys, values and names of headers are the same."""

    def test_outcomes_of_tables_are_for_interceptors_that_take_their_rows(self, interceptor: Interceptor) -> None:
        check(
            has_ability(interceptor, SupportsOnSendTable)
            or not has_ability(interceptor, SupportsOnTableAcknowledgement),
            "it has on_table_acknowledgement and no on_send_table, so a producer with it refuses every table",
        )

    def test_rows_of_every_kind_can_be_sent(self, interceptor: Interceptor) -> None:
        for rows in _samples(interceptor):
            _pass(interceptor, rows)

    def test_rows_become_what_records_become(self, interceptor: Interceptor) -> None:
        needed(interceptor, SupportsOnSendTable)
        for records, rows in _tables_of(self.records):
            made = _pass(interceptor, rows)
            if not self.tables_as_records:
                continue
            names = _header_names(made)
            for row, record in enumerate(records):
                once, again = _sent(interceptor, record), _sent(interceptor, record)
                for part, column in (("key", made.keys), ("value", made.values)):
                    expected, became = getattr(once, part), None if column is None else column[row].as_py()
                    check(
                        expected != getattr(again, part) or _bytes(expected) == _bytes(became),
                        f"on_send() makes {expected!r} of the {part} {getattr(record, part)!r}, and on_send_table() "
                        f"makes {became!r} of it; tables_as_records = False allows it",
                    )
                added = {name for name, _content in once.headers} & {name for name, _content in again.headers}
                check(
                    added <= names,
                    f"on_send() adds the header {', '.join(sorted(added - names))}, and on_send_table() does not; "
                    "tables_as_records = False allows it",
                )

    def test_parts_of_rows_besides_keys_and_values_stay(self, interceptor: Interceptor) -> None:
        needed(interceptor, SupportsOnSendTable)
        pa = pyarrow()
        pairs = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
        rows = _rows(
            values=pa.array([b"value"], pa.binary()),
            headers=pa.array([GIVEN.headers], pairs),
            partitions=pa.array([GIVEN.partition], pa.int64()),
            timestamps_ms=pa.array([GIVEN.timestamp_ms], pa.int64()),
        )
        made = _pass(interceptor, rows)
        [headers] = [()] if made.headers is None else _headers_of(made)
        partition, timestamp = (
            None if column is None else column[0].as_py() for column in (made.partitions, made.timestamps_ms)
        )
        self._check_kept("on_send_table()", GIVEN, Given((*headers, *made.added_headers), partition, timestamp))
        for_all = _pass(interceptor, attrs.evolve(_rows(values=rows.values), added_headers=GIVEN.headers))
        headers = () if for_all.headers is None else _headers_of(for_all)[0]
        self._check_kept("on_send_table()", GIVEN, GIVEN._replace(headers=(*headers, *for_all.added_headers)))

    def _check_kept(self, call: str, given: Given, made: Given) -> None:
        """Fail if something that a program has given is lost or changed, and `keeps` has its name."""
        rest = iter(made.headers)
        check(
            "headers" not in self.keeps or all(header in rest for header in given.headers),
            f"{call} of the headers {given.headers!r} returned {made.headers!r}: the program's are lost or in another "
            "order; add to those that the record has; `keeps` without headers allows it",
        )
        for name in ("partition", "timestamp_ms"):
            before, after = getattr(given, name), getattr(made, name)
            check(
                name not in self.keeps or before == after,
                f"{call} of the {name} {before} returned {after}: change a copy of the record, attrs.evolve(record, "
                f"...), or `keeps` without {name} allows it",
            )

    def test_it_accepts_rows_changed_by_another_interceptor(self, interceptor: Interceptor) -> None:
        for rows in _samples(interceptor):
            _pass(interceptor, attrs.evolve(_pass(interceptor, rows), context=None))

    def test_its_context_comes_back_with_later_rows_and_any_outcome(self, interceptor: Interceptor) -> None:
        for rows in _samples(interceptor):
            for result, error in _OUTCOMES:
                context = _pass(interceptor, rows).context
                context = _pass(interceptor, attrs.evolve(rows, context=context)).context
                _report(interceptor, result, error, context)

    def test_every_outcome_of_a_table_is_accepted(self, interceptor: Interceptor) -> None:
        needed(interceptor, SupportsOnTableAcknowledgement)
        for result, error in (*_OUTCOMES, *_OUTCOMES):  # also of tables that it did not get
            _report(interceptor, result, error)

    def test_every_call_for_a_table_returns_at_once(self, interceptor: Interceptor) -> None:
        for rows in _samples(interceptor):
            within(
                self.timeout,
                f"on_send_table() of {rows.count} rows",
                lambda rows=rows: _pass(interceptor, rows),  # type: ignore[misc]
                remedy="the caller of send_table() waits for it",
            )
        within(
            self.timeout,
            "on_table_acknowledgement()",
            lambda: _report(interceptor, _ALL, None),
            remedy="the I/O thread waits for it, and with it all other records",
        )

    def test_tables_of_many_threads_pass_at_once(self, interceptor: Interceptor) -> None:
        samples = [(rows, _constant(interceptor, rows)) for rows in _samples(interceptor)]

        def send(first: int) -> None:
            for turn in range(_TIMES):
                rows, expected = samples[(first + turn) % len(samples)]
                made = _cells(_pass(interceptor, rows))
                check(
                    expected is None or made == expected,
                    f"by many threads at once, on_send_table() of {_cells(rows)!r} made {made!r}, and alone "
                    f"{expected!r}",
                )

        def report() -> None:
            for turn in range(_TIMES):
                _report(interceptor, *_OUTCOMES[turn % len(_OUTCOMES)])

        works: list[Callable[[], object]] = [lambda first=first: send(first) for first in range(_THREADS)]  # type: ignore[misc]
        together(self.timeout * 3, [*works, report], call="on_send_table()")


def _samples(interceptor: Interceptor) -> Iterator[ProducerRows]:
    """Rows of tables, as the core passes them; skips the test if the interceptor takes none."""
    needed(interceptor, SupportsOnSendTable)
    pa = pyarrow()
    pairs = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    values = pa.array([b"value", None, b"", b"x" * 500, b"\xff"], pa.binary())
    everything = _rows(
        keys=pa.array([b"key", b"", None, b"key", b"\xff"], pa.binary()),
        values=values,
        headers=pa.array([[], [("trace", b"1"), ("nothing", None)], [], [("\u00e9", b"\0")], [(None, b"")]], pairs),
        partitions=pa.array([0, None, 7, -1, 2], pa.int64()),
        timestamps_ms=pa.array([0, None, 1_700_000_000_000, -1, 5], pa.int64()),
    )
    yield _rows(values=values)
    yield everything
    for start, stop in ((1, 4), (4, 5), (0, 1)):
        yield _rows(**{name: getattr(everything, name)[start:stop] for name in _COLUMNS})
    yield _rows(keys=values)
    yield _rows(values=pa.array([None, CONTENTS, *CONTENTS.split(b", ")], pa.binary()))
    yield attrs.evolve(_rows(values=values), added_headers=(("trace", b"1"), ("nothing", None)))
    yield _rows(values=values.cast(pa.large_binary()), topic="a.b-c_d" * 30)
    yield _rows(values=pa.array([b"value"] * 10_000, pa.binary()))
    numbers = pa.array([1, None, 3], pa.int64())  # from here on values that a serializer gets
    yield _rows(values=numbers)
    yield _rows(values=pa.StructArray.from_arrays([numbers, numbers.cast(pa.string())], ["id", "name"]))


def _tables_of(records: Sequence[tuple[Any, Any]]) -> Iterator[tuple[Sequence[ProducerRecord], ProducerRows]]:
    """Yield those of these keys and values that are bytes, and those that are texts, as records and as a table."""
    pa = pyarrow()
    for kind, of_arrow in ((bytes, pa.binary()), (str, pa.string())):
        some = [each for each in records if all(isinstance(part, kind | None) for part in each)]
        if some:
            keys, values = (pa.array(column, of_arrow) for column in zip(*some, strict=True))
            yield (
                [
                    ProducerRecord(topic="orders", key=key, value=value, headers=(), partition=None, timestamp_ms=None)
                    for key, value in some
                ],
                _rows(keys=keys, values=values),
            )


def _sent(interceptor: Interceptor, record: ProducerRecord) -> ProducerRecord:
    try:
        made: Any = interceptor.on_send(record)
    except Exception as error:
        fail(f"on_send() of {record!r:.200} raised {error!r}; the record would go on without what it adds", error)
    check(isinstance(made, ProducerRecord), f"on_send() returned {made!r:.60}; it must be a ProducerRecord")
    return made  # type: ignore[no-any-return]


def _headers_of(rows: ProducerRows) -> list[tuple[Any, ...]]:
    """Return the headers that the rows themselves have, as pairs."""
    of_rows = [] if rows.headers is None else rows.headers.to_pylist()
    return [tuple(tuple(each.values() if isinstance(each, dict) else each) for each in row or ()) for row in of_rows]


def _header_names(rows: ProducerRows) -> set[object]:
    """Return the names of the headers that all rows have."""
    pairs = _headers_of(rows)
    common = set.intersection(*({name for name, _content in row} for row in pairs)) if pairs else set()
    return common | {name for name, _content in rows.added_headers}


def _bytes(part: object) -> object:
    return part.encode() if isinstance(part, str) else part


def _rows(*, topic: str = "orders", **columns: Any) -> ProducerRows:
    count = next(len(column) for column in columns.values())
    return ProducerRows(topic=topic, count=count, **{**dict.fromkeys(_COLUMNS), **columns})


def _pass(interceptor: Interceptor, rows: ProducerRows) -> ProducerRows:
    """Return the interceptor's rows for these rows; fails if the core would send the rows without it."""
    from ottla.tables.interception import checked_rows  # it needs pyarrow, which `_samples` has found

    parts = [f"{name} ({column.type})" for name in _COLUMNS if (column := getattr(rows, name)) is not None]
    what = f"on_send_table() of {rows.count} rows with {' and '.join(parts)}"
    before = _cells(rows)
    try:
        made: Any = needed(interceptor, SupportsOnSendTable).on_send_table(rows)
    except Exception as error:
        fail(f"{what} raised {error!r}; the rows would go on without what it adds", error)
    check(isinstance(made, ProducerRows), f"{what} returned {type(made).__name__}; it must be ProducerRows")
    try:
        checked = checked_rows(made, rows, formatted=_is_formatted(rows))
        headers = checked_headers(made.added_headers)
        for name, _content in headers:
            name.encode()
    except Exception as error:
        fail(f"{what}: {error}")
    check(_cells(rows) == before, f"{what} changed the rows that it got; it must return others")
    return attrs.evolve(checked, added_headers=headers)


def _constant(interceptor: Interceptor, rows: ProducerRows) -> object | None:
    """Return the contents of the interceptor's rows, or None if repeated calls differ."""
    once, again = _cells(_pass(interceptor, rows)), _cells(_pass(interceptor, rows))
    return once if once == again else None


def _is_formatted(rows: ProducerRows) -> bool:
    return rows.values is not None and "binary" not in str(rows.values.type)


def _cells(rows: ProducerRows) -> tuple[object, Sequence[Header]]:
    """The contents of rows, to compare them."""
    columns = [None if (column := getattr(rows, name)) is None else column.to_pylist() for name in _COLUMNS]
    return columns, tuple(rows.added_headers)


def _report(interceptor: Interceptor, result: TableResult, error: Exception | None, context: Any = None) -> None:
    if not has_ability(interceptor, SupportsOnTableAcknowledgement):
        return
    try:
        interceptor.on_table_acknowledgement("orders", result, error, context)
    except Exception as raised:
        fail(f"on_table_acknowledgement() of {result} and {error!r} raised {raised!r}", raised)
