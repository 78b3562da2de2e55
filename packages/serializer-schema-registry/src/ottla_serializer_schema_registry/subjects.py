"""The subject under which the registry keeps a schema."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from ottla_serializer_schema_registry.errors import InvalidSchemaError


class SubjectStrategy(StrEnum):
    """What a subject is named after."""

    TOPIC = "topic"
    RECORD = "record"
    TOPIC_RECORD = "topic-record"


def check_name(strategy: SubjectStrategy, name: str | None) -> None:
    """Raise InvalidSchemaError if subjects are named after records, and the schema has no name."""
    if strategy is not SubjectStrategy.TOPIC and not name:
        raise InvalidSchemaError(f"subjects of the strategy {strategy} need a schema that has a name")


def subject_of(strategy: SubjectStrategy, *, topic: str, part: str, name: str | None) -> str:
    """Return the subject. *name* is that of the schema's record; *part* is "key" or "value".

    Raises InvalidSchemaError as `check_name` does.
    """
    check_name(strategy, name)
    match strategy:
        case SubjectStrategy.TOPIC:
            return f"{topic}-{part}"
        case SubjectStrategy.RECORD:
            return f"{name}"
        case SubjectStrategy.TOPIC_RECORD:
            return f"{topic}-{name}"
        case _:
            assert_never(strategy)
