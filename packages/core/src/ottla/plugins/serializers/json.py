"""Values as JSON in UTF-8: one by one, and for `send_table` a column in one call.

Both have the same format: fields that are None are left out, times have milliseconds and their zone, bytes are base64,
and numbers that JSON lacks are text.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import PluginNotFoundError
from ottla.hookspecs import hookimpl
from ottla.interfaces import Header, RecordEncoder, Serializer, SupportsJsonRows, supports
from ottla.plugins.serializers.json_strings import quoted_text

if TYPE_CHECKING:  # it needs pyarrow
    from ottla.plugins.serializers.json_columns import JsonRows


MOST_DIGITS: Final = 1_000_000
"""Digits that are written of a decimal: a short one, such as 1E+999999999, must not take all memory."""


class JsonSerializer:
    """Accepts mappings, sequences, text, bytes, numbers, booleans, dates, times, UUIDs and None."""

    def __init__(self) -> None:
        self._rows: JsonRows | None = None

    def use_encoder(self, encoder: RecordEncoder) -> None:
        """Use the record encoder's `json_rows`, if it has it, which makes rows of structs faster."""
        self._rows = encoder.json_rows if supports(encoder, SupportsJsonRows) else None

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        """The value as JSON; None stays None."""
        try:
            return None if data is None else json_text(data).encode()
        except RecursionError:
            raise ValueError("it is nested too deeply for JSON, or holds itself") from None

    def serialize_column(self, topic: str, column: Any) -> Any:
        """The values of an Arrow column as JSON texts; a null stays null.

        Raises TypeError for a type that JSON lacks.
        """
        try:
            from ottla.plugins.serializers.json_columns import problem, texts
        except ImportError as cause:
            if (cause.name or "").partition(".")[0] != "pyarrow":
                raise
            raise PluginNotFoundError("JSON of a column needs pyarrow; try: pip install 'ottla[arrow]'") from cause
        if reason := problem(column.type):
            raise TypeError(
                f"{reason}; JSON takes text, bytes, numbers, booleans, dates, times, and structs, lists and maps of "
                "these"
            )
        return texts(column, rows=self._rows)


def json_text(data: Any, *, nulls: bool = False) -> str:
    """Return data as JSON, with the fields that are None only if *nulls*. Raises TypeError, ValueError, RecursionError.

    Unlike `json.dumps`, it writes decimals with all their digits.
    """
    match data:
        case None:
            return "null"
        case bool():
            return "true" if data else "false"
        case str():
            return quoted_text(data)
        case int():
            return int.__repr__(data)
        case float():
            return float.__repr__(data) if math.isfinite(data) else _NON_FINITE[str(float(data))]
        case Decimal():
            return _digits(data) if data.is_finite() else _NON_FINITE[str(float(data))]
        case datetime() | time():
            text = data.isoformat(timespec="milliseconds")
            if text == "NaT":  # of pandas, which is a datetime, and none
                raise ValueError("NaT is no time; write None in its place")
            return f'"{text.replace("+00:00", "Z")}"'
        case date():
            return f'"{data.isoformat()}"'
        case bytes() | bytearray() | memoryview():
            return f'"{b64encode(data).decode()}"'
        case Mapping():
            fields = (
                f"{_name(name)}:{json_text(field, nulls=nulls)}"
                for name, field in data.items()
                if nulls or field is not None
            )
            return "{" + ",".join(fields) + "}"
        case Sequence():
            return "[" + ",".join([json_text(item, nulls=nulls) for item in data]) + "]"
    from uuid import UUID  # which few programs need

    if isinstance(data, UUID):
        return f'"{data}"'
    raise TypeError(f"{type(data).__name__} has no JSON form; make it a dict, a list, text or a number first")


_NON_FINITE = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def _name(name: Any) -> str:
    if isinstance(name, str):
        return quoted_text(name)
    if isinstance(name, (bytes, Mapping, list, tuple)) or name is None:
        raise TypeError(f"{type(name).__name__} cannot be the name of a JSON field")
    return quoted_text(json_text(name).strip('"'))


def _digits(number: Decimal) -> str:
    if abs(number.adjusted()) > MOST_DIGITS:
        raise ValueError(f"a number with more than {MOST_DIGITS} digits is too long for JSON")
    return format(number, "f")


@hookimpl
def ottla_serializer() -> Serializer:
    return JsonSerializer()
