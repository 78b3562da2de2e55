"""The subject under which the registry keeps a schema."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never


class SubjectStrategy(StrEnum):
    """What a subject is named after."""

    TOPIC = "topic"
    RECORD = "record"
    TOPIC_RECORD = "topic-record"


def subject_of(strategy: SubjectStrategy, *, topic: str, part: str, name: str | None) -> str:
    """Return the subject. *name* is that of the schema's record; *part* is "key" or "value"."""
    match strategy:
        case SubjectStrategy.TOPIC:
            return f"{topic}-{part}"
        case SubjectStrategy.RECORD:
            return str(name)
        case SubjectStrategy.TOPIC_RECORD:
            return f"{topic}-{name}"
        case _:
            assert_never(strategy)
