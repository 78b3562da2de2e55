"""A transaction that is fully written and waits for its end: what is needed to end it."""

from __future__ import annotations

from typing import Any, Final, Self

import attrs

from ottla.errors import InvalidRecordError

_FORM: Final = 1


@attrs.frozen(kw_only=True)
class PreparedTransaction:
    """A prepared transaction. `ottla.transactions.complete` ends it, in any process, within `transaction.timeout.ms`.

    `written` is False if the transaction has neither records nor offsets, so that there is nothing to end. `level` is
    the level of the feature `transaction.version` that it uses (KIP-890). `cluster_id` is the id of its cluster, which
    `complete` compares; None if the brokers have none, or if an earlier version of Ottla wrote the value.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    level: int
    written: bool = True
    cluster_id: str | None = None

    def to_bytes(self) -> bytes:
        """Serialize the transaction, for a file, a message or a database."""
        return str(self).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Parse the result of `to_bytes`. Raises InvalidRecordError for anything else."""
        import json  # imported late: few transactions are prepared

        try:
            fields = json.loads(bytes(data).decode())
            _check_form(fields)
        except (ValueError, TypeError, KeyError) as cause:
            raise InvalidRecordError(f"this is not a prepared transaction: {cause}") from cause
        return cls(**{name: fields[name] for name in _TYPES}, cluster_id=fields.get("cluster_id"))

    @classmethod
    def from_string(cls, text: str) -> Self:
        """Parse the result of `str`."""
        return cls.from_bytes(text.encode())

    def __str__(self) -> str:
        import json

        return json.dumps({"form": _FORM, **attrs.asdict(self)})


_TYPES: Final[dict[str, type]] = {
    "transactional_id": str,
    "producer_id": int,
    "epoch": int,
    "level": int,
    "written": bool,
}


def _check_form(fields: Any) -> None:
    """Raise ValueError unless *fields* are those of a prepared transaction, in the form that this version writes."""
    if not isinstance(fields, dict) or fields.get("form") != _FORM:
        raise ValueError(f"its format version is not {_FORM}")
    for name, kind in _TYPES.items():
        if type(fields.get(name)) is not kind:
            raise ValueError(f"{name} is not {kind.__name__}")
    if not isinstance(fields.get("cluster_id"), str | None):
        raise ValueError("cluster_id is not str")
