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

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import pytest

from ottla.interfaces import Header, Serializer, SupportsSerializeColumn
from ottla_testkit.conformance.harness.checked_layer import check, fail, needed
from ottla_testkit.conformance.harness.concurrent_calls import together, within

TOPICS: Final = ("orders", "x", "a.b-c_d" * 30)
HEADERS: Final[Sequence[tuple[Header, ...]]] = (
    (),
    (("trace", b"1"), ("nothing", None), ("trace", b""), ("\u00e9", b"\0")),
)

_THREADS: Final = 8
_TIMES: Final = 200


class SerializerConformance:
    """Subclass it as `Test...`, and override the fixture `serializer`."""

    samples: ClassVar[Sequence[tuple[Any, bytes]]] = ()
    """Data that the serializer accepts, and the required bytes."""
    refused: ClassVar[Sequence[Any]] = ()
    """Data that the serializer must refuse."""
    columns: ClassVar[Sequence[Any]] = ()
    """For a serializer with `serialize_column`: Arrow arrays that it accepts, with nulls at every depth."""
    refused_columns: ClassVar[Sequence[Any]] = ()
    """Arrow arrays of types that the serializer must refuse."""
    timeout: ClassVar[float] = 10.0
    """Seconds after which a call fails as stuck."""

    @pytest.fixture
    def serializer(self) -> Serializer:
        """The serializer under test; a new one for each test."""
        raise NotImplementedError("give a fixture `serializer` that returns your Serializer")

    def test_it_has_every_method_of_the_contract(self, serializer: Serializer) -> None:
        check(isinstance(serializer, Serializer), f"{serializer!r} lacks a method of ottla.interfaces.Serializer")

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
                        f"{_shown(data)} for topic {topic[:12]!r} with {len(headers)} headers became {made!r}, and "
                        f"should be {expected!r}",
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
                lambda data=data: self._serialize(serializer, data),  # type: ignore[misc]
                remedy="the caller of send() waits for it",
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
        try:
            made = needed(serializer, SupportsSerializeColumn).serialize_column("orders", column)
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
        try:
            needed(serializer, SupportsSerializeColumn).serialize_column("orders", column)
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
            made: Any = serializer.serialize(topic, data, headers)
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

    def _refusal(self, serializer: Serializer, data: Any) -> Exception:
        try:
            made = serializer.serialize("orders", data, ())
        except (TypeError, ValueError) as error:
            return error
        except Exception as error:
            fail(f"serialize() of {_shown(data)} raised {error!r}; it must be a TypeError or a ValueError", error)
        fail(f"serialize() took {_shown(data)}, and made {made!r} of it; it must be refused")


def _shown(data: Any) -> str:
    shown = repr(data)
    return shown if len(shown) < 60 else f"{shown[:60]}..."
