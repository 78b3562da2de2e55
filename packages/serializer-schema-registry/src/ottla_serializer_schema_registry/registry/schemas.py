"""Schemas as the registry has them, and as a program has them before they are registered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"


@attrs.frozen(kw_only=True)
class Reference:
    """Another schema that a schema uses: the name that the text uses for it, and where the registry has it."""

    name: str
    subject: str
    version: int


@attrs.frozen(kw_only=True)
class Schema:
    """A schema in the form that is registered. `kind` is the registry's `schemaType`."""

    kind: str
    text: str = attrs.field(repr=False)
    references: Sequence[Reference] = ()


@attrs.frozen(kw_only=True)
class RegisteredSchema:
    """A schema of a subject, with what the registry knows it by. Registries before 8.0 have no `guid`.

    *rules* are the names of the rules of its data contract that writers must apply.
    """

    id: int
    schema: Schema
    guid: bytes | None = None
    version: int | None = None
    rules: tuple[str, ...] = ()
