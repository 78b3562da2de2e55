"""A serializer called as the core calls it, with the lookups that it needs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import pytest

from ottla.errors import NotPreparedError, with_article
from ottla.interfaces import Header, Serializer, SupportsPrepare, SupportsSerializeColumn, SupportsSetsHeaders, supports
from ottla.plugins.serializer_lookups import MAX_LOOKUPS
from ottla_testkit.conformance.harness.arrow import pyarrow
from ottla_testkit.conformance.harness.bounded_suite import BoundedSuite
from ottla_testkit.conformance.harness.checked_layer import check, fail, needed
from ottla_testkit.conformance.harness.concurrent_calls import within


class SerializerCalls(BoundedSuite):
    """Make each call and check its result; the suite gives the time limits."""

    lookup_timeout: ClassVar[float]

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
                f"serialize() of {shown(data)} for topic {topic[:12]!r} with {len(headers)} headers raised {error!r}",
                error,
            )
        check(
            made is None or type(made) is bytes,
            f"serialize() of {shown(data)} returned {with_article(type(made).__name__)}; it must be bytes, or None",
        )
        return made  # type: ignore[no-any-return]

    def _columns(self, serializer: Serializer, given: Sequence[Any] | Callable[[], Sequence[Any]]) -> Sequence[Any]:
        """The given columns, for a serializer that takes columns; skips the test if there are none."""
        needed(serializer, SupportsSerializeColumn)
        pyarrow()
        columns = given() if callable(given) else given
        if not columns:
            pytest.skip("no such columns are given")
        return columns

    def _headers(self, serializer: Serializer, headers: Sequence[Header]) -> Sequence[Header]:
        """The headers as the core passes them; a list that a test has made is passed itself."""
        if not (supports(serializer, SupportsSetsHeaders) and serializer.sets_headers):
            return tuple(headers)
        return headers if isinstance(headers, list) else list(headers)

    def _looked_up(
        self, serializer: Serializer, data: Any, headers: Sequence[Header], attempt: Callable[[], Any], **of: str
    ) -> Any:
        """The result of *attempt*, after the lookups that it needs."""
        for _ in range(MAX_LOOKUPS):
            try:
                return attempt()
            except NotPreparedError as error:
                if not supports(serializer, SupportsPrepare):
                    fail(f"{shown(data)} needs a lookup, by {error!r}, and the serializer has no prepare()", error)
                within(
                    self.lookup_timeout + self.timeout,
                    f"prepare() of {shown(data)}",
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
            fail(f"serialize() of {shown(data)} raised {error!r}; it must be a TypeError or a ValueError", error)
        fail(f"serialize() took {shown(data)}, and made {made!r} of it; it must be refused")

    def _serialize_column(self, serializer: Serializer, column: Any) -> list[bytes | None]:
        """Return the rows of a serialized column."""
        made = self._made_of_column(serializer, column).to_pylist()
        return [row.encode() if isinstance(row, str) else row for row in made]

    def _made_of_column(self, serializer: Serializer, column: Any) -> Any:
        import pyarrow as pa  # only a serializer of columns needs it

        serialize_column = needed(serializer, SupportsSerializeColumn).serialize_column
        try:
            made = self._looked_up(serializer, column, (), lambda: serialize_column("orders", column))
        except Exception as error:
            fail(f"serialize_column() of {len(column)} rows of {column.type} raised {error!r}", error)
        is_array = isinstance(made, pa.Array)
        result = f"{with_article(type(made).__name__)}" + (
            f" of {len(made)} rows of {made.type}" if hasattr(made, "type") else ""
        )
        check(
            is_array
            and len(made) == len(column)
            and made.type in (pa.binary(), pa.large_binary(), pa.string(), pa.large_string()),
            f"serialize_column() of {len(column)} rows of {column.type} returned {result}, and must return an Arrow "
            "array of as many bytes or texts: of type binary, large_binary, string or large_string",
        )
        return made

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


A_HEADER: Final = "a header is a pair of a str, and of bytes or None"


def is_header(found: Any) -> bool:
    """Whether it is one."""
    return (
        isinstance(found, tuple)
        and len(found) == 2
        and isinstance(found[0], str)
        and isinstance(found[1], bytes | None)
    )


def shown(data: Any) -> str:
    """Return data as text, for messages."""
    text = repr(data)
    return text if len(text) < 60 else f"{text[:60]}..."
