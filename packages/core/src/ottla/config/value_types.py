"""Types of values: the allowed texts and objects, and their conversion.

A value is a Python object, or the string that Java's properties would have. `parse` keeps Kafka's units, so errors and
rules use them; `inside` converts the result to ours.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from ottla.config.values import brief
from ottla.errors.quoting import printable

NAMES: Final = "str | Sequence[str]"
"""The annotation of a list of names."""

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
SHORT_MAX: Final = 2**15 - 1
"""Maximum bytes of a string in Kafka's protocol with a two-byte length, such as a request's client id."""
FOREVER: Final = 1e9
"""Seconds, some 31 years: the longest wait, since system calls overflow with Java's largest long."""

_DIGITS: Final = re.compile(r"[+-]?[0-9]+")


def _unchanged(value: Any) -> Any:
    return value


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ValueType:
    """The type of a setting's value. `parse` raises ValueError with one argument for each problem.

    `annotation` is what type checkers take for it as a keyword of `Producer`. *kind* is that of the plugins that the
    value names; "" if it names none. `limits` are those that `allowed` leaves out for brevity.
    """

    allowed: str
    limits: str = ""
    annotation: str = "str"
    kind: str = ""
    parse: Callable[[object], Any]
    inside: Callable[[Any], Any] = _unchanged


def level(*, minimum: int, maximum: int, also: int | None = None) -> ValueType:
    """A whole number from *minimum* to *maximum*, or *also*."""
    allowed = f"a whole number from {minimum} to {maximum}" + (f", or {also}" if also is not None else "")

    def parse(raw: object) -> int:
        number = _whole(raw)
        if number is None or not (minimum <= number <= maximum or number == also):
            raise ValueError(f"{brief(raw)} is not {allowed}")
        return number

    return ValueType(allowed=allowed, parse=parse, annotation="int | str")


def integer(*, minimum: int, maximum: int = INT_MAX) -> ValueType:
    allowed = f"a whole number of at least {minimum}" + (f" and at most {maximum}" if maximum < INT_MAX else "")

    def parse(raw: object) -> int:
        number = _whole(raw)
        if number is None or number < minimum:
            raise ValueError(f"{brief(raw)} is not {allowed}")
        if number > maximum:
            raise ValueError(f"{brief(raw)} is too large; at most {maximum} is allowed")
        return number

    return ValueType(allowed=allowed, parse=parse, annotation="int | str")


def milliseconds(*, minimum: int = 0, maximum: int = INT_MAX) -> ValueType:
    """Milliseconds in the configuration, seconds inside."""
    number = integer(minimum=minimum, maximum=maximum)
    return attrs.evolve(number, allowed=f"milliseconds, {number.allowed}", inside=_seconds)


def milliseconds_or_never() -> ValueType:
    """Like `milliseconds`; a negative number becomes `FOREVER`."""
    number = integer(minimum=-LONG_MAX, maximum=LONG_MAX)
    return attrs.evolve(
        number,
        allowed="milliseconds, a whole number; negative means never",
        inside=lambda value: FOREVER if value < 0 else _seconds(value),
    )


def choice(table: Mapping[str, Any]) -> ValueType:
    """One of the table's keys, which are lower-case; the value's case is ignored."""
    allowed = "one of " + ", ".join(str(name) for name in table)
    numbers = any(map(_DIGITS.fullmatch, table))
    annotation = "bool | str" if table.keys() == {"true", "false"} else "int | str" if numbers else "str"

    def parse(raw: object) -> Any:
        word = str(raw).strip().lower()
        if word not in table:
            raise ValueError(f"{brief(raw)} is not {allowed}")
        return table[word]

    return ValueType(allowed=allowed, parse=parse, annotation=annotation)


def boolean() -> ValueType:
    return choice({"true": True, "false": False})


def text(*, minimum: int = 0, most_bytes: int | None = None, visible: bool = False) -> ValueType:
    """At least *minimum* characters without surrounding space; *most_bytes* is the limit of its protocol field.

    A *visible* text begins log lines as it is, so it has no line breaks or other characters that `printable` escapes.
    """
    allowed = "a string" + (f" of at least {minimum} character{'s' * (minimum > 1)}" if minimum else "")

    def parse(raw: object) -> str:
        if not isinstance(raw, str) or len(raw.strip()) < minimum:
            raise ValueError(f"{brief(raw)} is not {allowed}")
        stripped = raw.strip()
        if most_bytes is not None:
            _check_bytes(stripped, most_bytes)
        if visible and printable(stripped, limit=len(stripped), hide=False) != stripped:
            raise ValueError(f"{brief(raw)} has line breaks or other characters that would change how log lines look")
        return stripped

    size = f" of at most {most_bytes:,} bytes in UTF-8" if most_bytes is not None else ""
    looks = ", without line breaks or other characters that would change how log lines look" if visible else ""
    return ValueType(allowed=allowed, parse=parse, limits=f"{size}{looks}")


def _check_bytes(written: str, max_bytes: int) -> None:
    try:
        size = len(written.encode())
    except UnicodeEncodeError as cause:
        character = ascii(written[cause.start])
        raise ValueError(f"{brief(written)} cannot be sent: UTF-8 has no bytes for {character}") from None
    if size > max_bytes:
        raise ValueError(f"{brief(written)} has {size} bytes in UTF-8; at most {max_bytes} are allowed")


def items() -> ValueType:
    """A list, or a string with commas between the items; empty items are dropped."""

    def parse(raw: object) -> tuple[object, ...]:
        parts = _split(raw)
        return tuple(part for part in parts if part != "")

    return ValueType(allowed="a list, or a string with commas", parse=parse, annotation=NAMES)


def _whole(raw: object) -> int | None:
    if isinstance(raw, bool):
        return None
    if isinstance(raw, str):
        digits = raw.strip()
        return int(digits) if _DIGITS.fullmatch(digits) else None
    try:
        return operator.index(raw)  # type: ignore[arg-type]  # also takes numpy's integers
    except TypeError:
        return None


def _seconds(value: int) -> float:
    return min(value / 1000, FOREVER)


def _split(raw: object) -> Sequence[object]:
    if isinstance(raw, str):
        return [part.strip() for part in raw.split(",")]
    return raw if isinstance(raw, Sequence) and not isinstance(raw, bytes) else [raw]
