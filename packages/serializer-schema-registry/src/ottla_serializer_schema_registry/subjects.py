"""The subject under which the registry keeps a schema."""

from __future__ import annotations

from typing import Final

TOPIC: Final = "topic"
RECORD: Final = "record"
TOPIC_RECORD: Final = "topic-record"


def subject_of(strategy: str, *, topic: str, part: str, name: str | None) -> str:
    """Return the subject. *name* is that of the schema's record; *part* is "key" or "value"."""
    match strategy:
        case "record":
            return str(name)
        case "topic-record":
            return f"{topic}-{name}"
    return f"{topic}-{part}"
