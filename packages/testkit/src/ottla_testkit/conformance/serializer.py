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
import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import pytest

from ottla.errors import NotPreparedError
from ottla.interfaces import (
    Header,
    Serializer,
    SupportsPrepare,
    SupportsSerializeColumn,
    SupportsSetsHeaders,
    supports,
)
from ottla.plugins.serializer_lookups import MOST_LOOKUPS
from ottla_testkit.conformance.harness.bounded_suite import BoundedSuite, check_contract
from ottla_testkit.conformance.harness.checked_layer import check, fail, needed
from ottla_testkit.conformance.harness.concurrent_calls import together, within
from ottla_testkit.conformance.harness.thread_leaks import StartedThreads

TOPICS: Final = ("orders", "x", "a.b-c_d" * 30)
HEADERS: Final[Sequence[tuple[Header, ...]]] = (
    (),
    (("trace", b"1"), ("nothing", None), ("trace", b""), ("\u00e9", b"\0")),
)

_THREADS: Final = 8
_TIMES: Final = 200


class SerializerConformance(BoundedSuite):
    """Subclass it as `Test...`, and override the fixture `serializer`."""

    subject: ClassVar[str] = "serializer"
    contract: ClassVar[type] = Serializer
    samples: ClassVar[Sequence[tuple[Any, bytes]]] = ()
    """Data that the serializer accepts, and the required bytes."""
    refused: ClassVar[Sequence[Any]] = ()
    """Data that the serializer must refuse."""
    columns: ClassVar[Sequence[Any]] = ()
    """For a serializer with `serialize_column`: Arrow arrays that it accepts, with nulls at every depth."""
    refused_columns: ClassVar[Sequence[Any]] = ()
    """Arrow arrays of types that the serializer must refuse."""
    lookup_timeout: ClassVar[float] = 5.0
    """Seconds that `prepare` may take, of a serializer that needs lookups."""

    @pytest.fixture
    def serializer(self) -> Serializer:
        """The serializer under test; a new one for each test."""
        raise NotImplementedError("give a fixture `serializer` that returns your Serializer")

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
                        f"serialize() of {_shown(data)} for topic {topic[:12]!r} with {len(headers)} headers "
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
                    check(
                        isinstance(header, tuple)
                        and len(header) == 2
                        and isinstance(header[0], str)
                        and isinstance(header[1], bytes | None),
                        f"serialize() of {_shown(data)} set the header {_shown(header)}; a header is a pair of a str, "
                        "and of bytes or None",
                    )
                check(
                    first == again,
                    f"serialize() of {_shown(data)} set {_shown(first)}, and then {_shown(again)}, on the same headers",
                )

    def test_after_a_lookup_the_same_data_needs_none(self, serializer: Serializer) -> None:
        needed(serializer, SupportsPrepare)
        for data in (None, *(data for data, _expected in self.samples)):
            self._serialize(serializer, data)
            try:
                serializer.serialize("orders", data, self._headers(serializer, ()))
            except NotPreparedError as error:
                fail(f"serialize() of {_shown(data)} needed another lookup each time: {error}", error)

    def test_a_lookup_ends_within_its_time(self, serializer: Serializer) -> None:
        prepare = needed(serializer, SupportsPrepare).prepare

        def look_up(data: Any, timeout: float) -> None:
            with contextlib.suppress(Exception):  # it has no answer in that time: `send` raises with it as the cause
                prepare("orders", data, (), timeout=timeout)

        for data, _expected in self.samples:
            for timeout in (0.0, 0.05):
                within(
                    self.timeout,
                    f"prepare() of {_shown(data)} with timeout={timeout}",
                    partial(look_up, data, timeout),
                    remedy="it must return or raise when *timeout* is over, since send() waits no longer",
                )

    def test_its_arguments_are_not_changed(self, serializer: Serializer) -> None:
        for data, _expected in self.samples:
            try:
                before = copy.deepcopy(data)
            except Exception:  # it cannot be copied, a memoryview for instance
                before = data
            self._serialize(serializer, data)
            check(data == before, f"{_shown(before)} was changed into {_shown(data)}: it is the caller's")

    def test_an_unsupported_value_is_refused_with_a_reason(self, serializer: Serializer) -> None:
        for data in self.refused:
            error = self._refusal(serializer, data)
            check(
                bool(str(error).strip()),
                f"{_shown(data)} was refused by {error!r}, which has no words: the caller of `send` reads them",
            )

    def test_a_refusal_does_not_affect_the_next_record(self, serializer: Serializer) -> None:
        for bad in self.refused:
            for data, expected in self.samples:
                self._refusal(serializer, bad)
                made = self._serialize(serializer, data)
                check(made == expected, f"after {_shown(bad)} was refused, {_shown(data)} became {made!r}")

    def test_every_call_returns_at_once(self, serializer: Serializer) -> None:
        for data in (None, *(data for data, _expected in self.samples)):
            within(
                self.timeout,
                f"serialize() of {_shown(data)}",
                lambda data=data: self._attempt(serializer, data),  # type: ignore[misc]
                remedy="the caller of send() waits for it; what has to wait belongs into prepare()",
            )

    def test_many_threads_serialize_at_once(self, serializer: Serializer) -> None:
        samples = [*self.samples, (None, None)]

        def work(first: int) -> None:
            for turn in range(_TIMES):
                data, expected = samples[(first + turn) % len(samples)]
                made = self._serialize(serializer, data)
                check(made == expected, f"by many threads at once, {_shown(data)} became {made!r}")

        works: list[Callable[[], object]] = [lambda first=first: work(first) for first in range(_THREADS)]  # type: ignore[misc]
        together(self.timeout * 3, works, call="serialize()")

    def test_close_ends_background_work(self, started_threads: StartedThreads, serializer: Serializer) -> None:
        with self._closed_after(serializer, started_threads):
            for data in (None, *(data for data, _expected in self.samples)):
                self._serialize(serializer, data)

    # Whole columns

    def test_a_column_becomes_the_same_bytes_as_its_cells(self, serializer: Serializer) -> None:
        for column in self._columns(serializer, self.columns):
            for part in (column, column[1:], column[:-1], column[:0]):
                made = self._serialize_column(serializer, part)
                for row, (cell, one) in enumerate(zip(part.to_pylist(), made, strict=True)):
                    expected = self._serialize(serializer, cell)
                    check(
                        one is expected is None
                        or (one is not None and expected is not None and self.alike(one, expected)),
                        f"row {row} of a column of {part.type} became {one!r}, and serialize() of {_shown(cell)} makes "
                        f"{expected!r}",
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

    def alike(self, made: bytes, expected: bytes) -> bool:
        """Return whether a column's row equals the same value alone; override it for formats with several encodings."""
        return made == expected

    # Shared by the tests

    def _columns(self, serializer: Serializer, columns: Sequence[Any]) -> Sequence[Any]:
        needed(serializer, SupportsSerializeColumn)
        if not columns:
            pytest.skip("no such columns are given")
        return columns

    def _serialize_column(self, serializer: Serializer, column: Any) -> list[bytes | None]:
        """Return the rows of a serialized column."""
        serialize_column = needed(serializer, SupportsSerializeColumn).serialize_column
        try:
            made = self._looked_up(serializer, column, (), lambda: serialize_column("orders", column))
        except Exception as error:
            fail(f"serialize_column() of {len(column)} rows of {column.type} raised {error!r}", error)
        rows = made.to_pylist() if hasattr(made, "to_pylist") else None
        check(
            rows is not None and len(rows) == len(column) and all(isinstance(row, bytes | str | None) for row in rows),
            f"serialize_column() of {len(column)} rows of {column.type} returned {_shown(made)}, and must return an "
            "Arrow array of as many bytes or texts",
        )
        return [row.encode() if isinstance(row, str) else row for row in rows or ()]

    def _column_refusal(self, serializer: Serializer, column: Any) -> None:
        serialize_column = needed(serializer, SupportsSerializeColumn).serialize_column
        try:
            self._looked_up(serializer, column, (), lambda: serialize_column("orders", column))
        except TypeError as error:
            check(bool(str(error).strip()), f"a column of {column.type} was refused without words")
        except Exception as error:
            fail(
                f"serialize_column() of {len(column)} rows of {column.type} raised {error!r}; it must be a TypeError",
                error,
            )
        else:
            fail(
                f"serialize_column() took {len(column)} rows of {column.type}; it must refuse the type, even with no "
                "row"
            )

    def _serialize(
        self, serializer: Serializer, data: Any, *, topic: str = "orders", headers: Sequence[Header] = ()
    ) -> bytes | None:
        try:
            made: Any = self._looked_up(
                serializer,
                data,
                tuple(headers),
                lambda: serializer.serialize(topic, data, self._headers(serializer, headers)),
                topic=topic,
            )
        except Exception as error:
            fail(
                f"serialize() of {_shown(data)} for topic {topic[:12]!r} with {len(headers)} headers raised {error!r}",
                error,
            )
        check(
            made is None or type(made) is bytes,
            f"serialize() of {_shown(data)} returned a {type(made).__name__}; it must be bytes, or None",
        )
        return made  # type: ignore[no-any-return]

    def _headers(self, serializer: Serializer, headers: Sequence[Header]) -> Sequence[Header]:
        """The headers as the core passes them; a list that a test has made is passed itself."""
        if not (supports(serializer, SupportsSetsHeaders) and serializer.sets_headers):
            return tuple(headers)
        return headers if isinstance(headers, list) else list(headers)

    def _looked_up(
        self, serializer: Serializer, data: Any, headers: Sequence[Header], attempt: Callable[[], Any], **of: str
    ) -> Any:
        """What *attempt* makes, after the lookups that it needs."""
        for _ in range(MOST_LOOKUPS):
            try:
                return attempt()
            except NotPreparedError as error:
                if not supports(serializer, SupportsPrepare):
                    fail(f"{_shown(data)} needs a lookup, by {error!r}, and the serializer has no prepare()", error)
                within(
                    self.lookup_timeout + self.timeout,
                    f"prepare() of {_shown(data)}",
                    lambda: serializer.prepare(of.get("topic", "orders"), data, headers, timeout=self.lookup_timeout),
                    remedy="it must return or raise when *timeout* is over",
                )
        return attempt()

    def _attempt(self, serializer: Serializer, data: Any) -> None:
        with contextlib.suppress(NotPreparedError):
            serializer.serialize("orders", data, self._headers(serializer, ()))

    def _refusal(self, serializer: Serializer, data: Any) -> Exception:
        try:
            made = self._looked_up(
                serializer, data, (), lambda: serializer.serialize("orders", data, self._headers(serializer, ()))
            )
        except (TypeError, ValueError) as error:
            return error
        except Exception as error:
            fail(f"serialize() of {_shown(data)} raised {error!r}; it must be a TypeError or a ValueError", error)
        fail(f"serialize() took {_shown(data)}, and made {made!r} of it; it must be refused")


def _shown(data: Any) -> str:
    shown = repr(data)
    return shown if len(shown) < 60 else f"{shown[:60]}..."
