"""A transaction that is wholly written and waits for somebody to end it: what that somebody has to know."""

from __future__ import annotations

import json
from typing import Any, Final, Self

import attrs

from ottla.errors import InvalidRecordError

_FORM: Final = 1


@attrs.frozen(kw_only=True)
class PreparedTransaction:
    """Ended by `ottla.transactions.complete`, in any process, before `transaction.timeout.ms` has passed.

    `written` is False when nothing was: then there is nothing to end. `level` is the `transaction.version` it is of.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    level: int
    written: bool = True

    def to_bytes(self) -> bytes:
        """For a file, a message or a database."""
        return str(self).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` made. Raises InvalidRecordError for anything else."""
        try:
            fields = json.loads(bytes(data).decode())
            _check_form(fields)
        except (ValueError, TypeError, KeyError) as cause:
            raise InvalidRecordError(f"this is no prepared transaction: {cause}") from cause
        return cls(**{name: fields[name] for name in _TYPES})

    @classmethod
    def from_string(cls, text: str) -> Self:
        """What `str` made."""
        return cls.from_bytes(text.encode())

    def __str__(self) -> str:
        return json.dumps({"form": _FORM, **attrs.asdict(self)})


_TYPES: Final[dict[str, type]] = {
    "transactional_id": str,
    "producer_id": int,
    "epoch": int,
    "level": int,
    "written": bool,
}


def _check_form(fields: Any) -> None:
    """Raise ValueError unless these are the fields of a prepared transaction, in the form that this version writes."""
    if not isinstance(fields, dict) or fields.get("form") != _FORM:
        raise ValueError(f"it is not of form {_FORM}")
    for name, kind in _TYPES.items():
        if type(fields.get(name)) is not kind:
            raise ValueError(f"{name} is not {kind.__name__}")
