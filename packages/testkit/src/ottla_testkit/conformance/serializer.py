"""All requirements for a `Serializer`.

```python
class TestMine(SerializerConformance):
    samples = (({"a": 1}, b'{"a": 1}'),)
    refused = (object(),)

    @pytest.fixture
    def serializer(self):
        return MySerializer()
```
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final

import pytest

from ottla.errors import NotPreparedError
from ottla.interfaces import (
    Header,
    Serializer,
    SupportsColumnHeaders,
    SupportsPrepare,
    SupportsSerializeColumn,
    SupportsSetsHeaders,
)
from ottla_testkit.conformance.harness.bounded_suite import check_contract
from ottla_testkit.conformance.harness.checked_layer import check, fail, needed
from ottla_testkit.conformance.harness.concurrent_calls import together, within
from ottla_testkit.conformance.harness.copies import copied
from ottla_testkit.conformance.harness.nonwaiting_calls import check_does_not_wait
from ottla_testkit.conformance.harness.schedules import check_orders
from ottla_testkit.conformance.harness.serializer_calls import A_HEADER, SerializerCalls, is_header, shown
from ottla_testkit.conformance.harness.thread_leaks import StartedThreads

TOPICS: Final = ("orders", "x", "a.b-c_d" * 30)
HEADERS: Final[Sequence[tuple[Header, ...]]] = (
    (),
    (("trace", b"1"), ("nothing", None), ("trace", b""), ("\u00e9", b"\0")),
)

_THREADS: Final = 8
_TIMES: Final = 200
_SCHEDULED: Final = 4
_CALLS: Final = 3
_IN_VARIABLES: Final = "keep what belongs to a call in variables, not in attributes"


class SerializerConformance(SerializerCalls):
    """Tests of a serializer: derive a class `Test...` from it, and override the fixture `serializer`."""

    subject: ClassVar[str] = "serializer"
    contract: ClassVar[type] = Serializer
    samples: ClassVar[Sequence[tuple[Any, bytes]]] = ()
    """Data that the serializer accepts, and the required bytes."""
    refused: ClassVar[Sequence[Any]] = ()
    """Data that the serializer must refuse."""
    columns: ClassVar[Sequence[Any] | Callable[..., Sequence[Any]]] = ()
    """For a serializer with `serialize_column`: Arrow arrays that it accepts, with nulls at every depth.

    A method may return them instead; it is not called where pyarrow is not installed.
    """
    refused_columns: ClassVar[Sequence[Any] | Callable[..., Sequence[Any]]] = ()
    """Arrow arrays of types that the serializer must refuse, or a method that returns them."""
    lookup_timeout: ClassVar[float] = 5.0
    """Seconds that `prepare` may take, of a serializer that needs lookups."""

    @pytest.fixture
    def serializer(self) -> Serializer:
        """The serializer under test; a new one for each test."""
        raise NotImplementedError("give a fixture `serializer` that returns your Serializer")

    @pytest.fixture(autouse=True)
    def samples_of_this_test_alone(self) -> None:
        """Give each test data of its own, which no earlier test has let the serializer change."""
        vars(self)["samples"] = [(copied(data), expected) for data, expected in self.samples]

    def test_it_has_every_method_of_the_contract(self, serializer: Serializer) -> None:
        check_contract(serializer, Serializer)

    def test_null_remains_null(self, serializer: Serializer) -> None:
        for topic in TOPICS:
            for headers in HEADERS:
                made = self._serialize(serializer, None, topic=topic, headers=headers)
                check(
                    made is None,
                    f"None became {made!r}; it must stay None, which deletes a key from a compacted topic",
                )

    def test_samples_become_their_bytes_every_time(self, serializer: Serializer) -> None:
        for topic in TOPICS:
            for headers in HEADERS:
                for data, expected in (*self.samples, *reversed(self.samples)):
                    made = self._serialize(serializer, data, topic=topic, headers=headers)
                    check(
                        made == expected,
                        f"serialize() of {shown(data)} for topic {topic[:12]!r} with {len(headers)} headers "
                        f"became {made!r}, and should be {expected!r}",
                    )

    def test_headers_that_it_sets_can_be_sent(self, serializer: Serializer) -> None:
        if not needed(serializer, SupportsSetsHeaders).sets_headers:
            pytest.skip("sets_headers is False")
        for headers in HEADERS:
            for data in (None, *(data for data, _expected in self.samples)):
                first, again = list(headers), list(headers)
                self._serialize(serializer, data, headers=first)
                self._serialize(serializer, data, headers=again)
                for header in first:
                    check(is_header(header), f"serialize() of {shown(data)} set the header {shown(header)}; {A_HEADER}")
                check(
                    first == again,
                    f"serialize() of {shown(data)} set {shown(first)}, and then {shown(again)}, on the same headers",
                )

    def test_headers_for_columns_can_be_sent(self, serializer: Serializer) -> None:
        needed(serializer, SupportsSerializeColumn)
        column_headers = needed(serializer, SupportsColumnHeaders).column_headers
        for column in self._columns(serializer, self.columns):
            self._serialize_column(serializer, column)
            made = [list(column_headers("orders", column[:0])) for _ in range(2)]
            for header in made[0]:
                check(is_header(header), f"column_headers() returned the header {shown(header)}; {A_HEADER}")
            check(made[0] == made[1], f"column_headers() returned {shown(made[0])}, and then {shown(made[1])}")

    def test_after_a_lookup_the_same_data_needs_none(self, serializer: Serializer) -> None:
        needed(serializer, SupportsPrepare)
        for data in (None, *(data for data, _expected in self.samples)):
            self._serialize(serializer, data)
            try:
                serializer.serialize("orders", data, self._headers(serializer, ()))
            except NotPreparedError as error:
                fail(f"serialize() of {shown(data)} needed another lookup each time: {error}", error)

    def test_a_lookup_ends_within_its_time(self, serializer: Serializer) -> None:
        prepare = needed(serializer, SupportsPrepare).prepare

        def look_up(data: Any, timeout: float) -> None:
            with contextlib.suppress(Exception):  # it has no answer in that time: `send` raises with it as the cause
                prepare("orders", data, (), timeout=timeout)

        for data, _expected in self.samples:
            for timeout in (0.0, 0.05):
                within(
                    self.timeout,
                    f"prepare() of {shown(data)} with timeout={timeout}",
                    partial(look_up, data, timeout),
                    remedy="it must return or raise when *timeout* is over, since send() waits no longer",
                )

    def test_its_arguments_are_not_changed(self, serializer: Serializer) -> None:
        for data, _expected in self.samples:
            before = copied(data)
            self._serialize(serializer, data)
            check(data == before, f"{shown(before)} was changed into {shown(data)}: it is the caller's")

    def test_an_unsupported_value_is_refused_with_a_reason(self, serializer: Serializer) -> None:
        for data in self.refused:
            error = self._refusal(serializer, data)
            check(
                bool(str(error).strip()),
                f"{shown(data)} was refused by {error!r}, which has no words: the caller of `send` reads them",
            )

    def test_data_that_holds_itself_is_no_recursion_error(self, serializer: Serializer) -> None:
        some: list[Any] = []
        some.append(some)
        for data in (some, {"itself": some}):
            work = partial(serializer.serialize, "orders", data, self._headers(serializer, ()))
            with suppress(Exception):  # any other error refuses the data
                try:
                    self._looked_up(serializer, data, (), work)
                except RecursionError as error:
                    fail(
                        f"serialize() of {shown(data)}, which holds itself, raised RecursionError; refuse too deep "
                        "data with a ValueError",
                        error,
                    )

    def test_a_refusal_does_not_affect_the_next_record(self, serializer: Serializer) -> None:
        for bad in self.refused:
            for data, expected in self.samples:
                self._refusal(serializer, bad)
                made = self._serialize(serializer, data)
                check(made == expected, f"after {shown(bad)} was refused, {shown(data)} became {made!r}")

    def test_every_call_returns_at_once(self, serializer: Serializer) -> None:
        for data in (None, *(data for data, _expected in self.samples)):
            check_does_not_wait(
                f"serialize() of {shown(data)}",
                lambda data=data: self._attempt(serializer, data),  # type: ignore[misc]
                timeout=self.timeout,
                waiting="the caller of send() waits for it; what has to wait belongs into prepare()",
            )

    def test_many_threads_serialize_at_once(self, serializer: Serializer) -> None:
        samples = [*self.samples, (None, None)]

        def work(first: int) -> None:
            for turn in range(_TIMES):
                data, expected = samples[(first + turn) % len(samples)]
                made = self._serialize(serializer, data)
                check(made == expected, f"by many threads at once, {shown(data)} became {made!r}")

        works: list[Callable[[], object]] = [lambda first=first: work(first) for first in range(_THREADS)]  # type: ignore[misc]
        together(self.timeout * 3, works, call="serialize()")

    def test_threads_may_change_at_any_line(self, serializer: Serializer) -> None:
        if not self.samples:
            pytest.skip("`samples` is empty: None alone is the same in every order")
        samples = [*self.samples, (None, None)]
        for data, _expected in samples:
            self._serialize(serializer, data)  # lookups come first: their waits are no part of an order

        def work(first: int) -> None:
            for turn in range(_CALLS):
                data, expected = samples[(first + turn) % len(samples)]
                made = self._serialize(serializer, data)
                check(made == expected, f"{shown(data)} became {made!r}, and should be {expected!r}")

        check_orders([partial(work, first) for first in range(_SCHEDULED)], _IN_VARIABLES)

    def test_close_ends_background_work(self, started_threads: StartedThreads, serializer: Serializer) -> None:
        with self._closed_after(serializer, started_threads):
            for data in (None, *(data for data, _expected in self.samples)):
                self._serialize(serializer, data)

    # Whole columns

    def test_a_column_becomes_the_same_bytes_as_its_cells(self, serializer: Serializer) -> None:
        for column in self._columns(serializer, self.columns):
            for part in (column, column[1:], column[:-1], column[:0]):
                made = self._serialize_column(serializer, part)
                for row, (cell, one) in enumerate(zip(_cells(part), made, strict=True)):
                    expected = self._serialize(serializer, cell)
                    check(
                        one is expected is None
                        or (one is not None and expected is not None and self.alike(one, expected)),
                        f"row {row} of a column of {part.type} became {one!r}, and serialize() of {shown(cell)} makes "
                        f"{expected!r}",
                    )

    def test_a_column_has_the_same_type_for_any_rows(self, serializer: Serializer) -> None:
        for column in self._columns(serializer, self.columns):
            expected = self._made_of_column(serializer, column[:0]).type
            for part in (column, column[:1], column[-1:], *_only_nulls(column)):
                made = self._made_of_column(serializer, part).type
                check(
                    made == expected,
                    f"serialize_column() of {len(part)} rows of {part.type} returned an array of {made}, and of "
                    f"{expected} for no rows; give pyarrow.array() the type",
                )

    def test_a_column_of_an_unsupported_type_is_refused_even_if_empty(self, serializer: Serializer) -> None:
        for column in self._columns(serializer, self.refused_columns):
            for part in (column, column[:0]):
                self._column_refusal(serializer, part)

    def test_many_threads_serialize_columns_at_once(self, serializer: Serializer) -> None:
        columns = [
            (column, self._serialize_column(serializer, column)) for column in self._columns(serializer, self.columns)
        ]

        def work(first: int) -> None:
            for turn in range(_THREADS):
                column, expected = columns[(first + turn) % len(columns)]
                made = self._serialize_column(serializer, column)
                check(made == expected, f"by many threads at once, a column of {column.type} became {made!r}")

        works: list[Callable[[], object]] = [lambda first=first: work(first) for first in range(_THREADS)]  # type: ignore[misc]
        together(self.timeout * 3, works, call="serialize_column()")

    def test_threads_of_columns_may_change_at_any_line(self, serializer: Serializer) -> None:
        given = self._columns(serializer, self.columns)
        columns = [(part, self._serialize_column(serializer, part)) for each in given for part in (each, each[:1])]

        def work(first: int) -> None:
            for turn in range(_CALLS):
                column, expected = columns[(first + turn) % len(columns)]
                made = self._serialize_column(serializer, column)
                check(made == expected, f"a column of {column.type} became {shown(made)}, and alone {shown(expected)}")

        check_orders([partial(work, first) for first in range(_SCHEDULED)], _IN_VARIABLES)

    def alike(self, made: bytes, expected: bytes) -> bool:
        """Return whether a column's row equals the same value alone; override it for formats with several encodings."""
        return made == expected


def _cells(column: Any) -> list[Any]:
    try:
        cells: list[Any] = column.to_pylist()
    except ValueError as error:  # of nanoseconds, which pyarrow converts only if pandas is installed
        fail(
            f"the suite cannot read a column of {column.type} as Python's values: {error}; leave it out of `columns`",
            error,
        )
    return cells


def _only_nulls(column: Any) -> Sequence[Any]:
    """Return two nulls of the column's type, if it has nulls, and if pyarrow can make them."""
    import pyarrow as pa

    if column.null_count:
        with contextlib.suppress(pa.ArrowException):
            return [pa.nulls(2, column.type)]
    return []
