"""Schemas that refer to others: those are fetched, or registered before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from ottla.errors import quoted
from ottla_serializer_schema_registry.errors import InvalidSchemaError
from ottla_serializer_schema_registry.registry.client import LATEST, SchemaRegistry
from ottla_serializer_schema_registry.registry.exchange import Deadline
from ottla_serializer_schema_registry.registry.schemas import Reference, Schema

MOST_SCHEMAS: Final = 200
"""Schemas that one schema may need, directly and through others: a registry could name new ones for ever."""


@attrs.frozen(kw_only=True)
class NamedText:
    """The text of a schema that another one refers to by this name."""

    name: str
    text: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class LocalSchema:
    """A schema that a program has, and the schemas of the program that it imports.

    Each import is registered with its `name` as the subject before it is referred to.
    """

    schema: Schema
    name: str = ""
    imports: Sequence[LocalSchema] = ()


def fetch_references(registry: SchemaRegistry, schema: Schema, deadline: Deadline) -> Sequence[NamedText]:
    """Fetch all schemas that a schema needs, each after those that it needs itself.

    Raises SchemaRegistryError, and InvalidSchemaError for schemas that need each other in a circle.
    """
    fetched: dict[tuple[str, int], Sequence[NamedText]] = {}
    _fetch(registry, schema, deadline, fetched, ())
    found = [text for texts in fetched.values() for text in texts]
    return list({(each.name, each.text): each for each in found}.values())


def _fetch(
    registry: SchemaRegistry,
    schema: Schema,
    deadline: Deadline,
    fetched: dict[tuple[str, int], Sequence[NamedText]],
    above: tuple[tuple[str, int], ...],
) -> None:
    for reference in schema.references:
        place = (reference.subject, reference.version)
        if place in above:
            raise InvalidSchemaError(
                f"the schema {quoted(reference.name)} refers to itself, through {len(above)} others"
            )
        if place not in fetched:
            if len(fetched) + len(above) >= MOST_SCHEMAS:
                raise InvalidSchemaError(f"the schema needs more than {MOST_SCHEMAS} others")
            found = registry.version(*place, kind=schema.kind, timeout=deadline.remaining())
            _fetch(registry, found.schema, deadline, fetched, (*above, place))
            fetched[place] = (NamedText(name=reference.name, text=found.schema.text),)
        else:
            fetched[place] = (*fetched[place], NamedText(name=reference.name, text=fetched[place][0].text))


def registrable(registry: SchemaRegistry, local: LocalSchema, *, register: bool, deadline: Deadline) -> Schema:
    """Return the schema with references to its imports, which are registered, or looked up if not *register*."""
    return _registrable(registry, local, register, deadline, {})


def _registrable(
    registry: SchemaRegistry, local: LocalSchema, register: bool, deadline: Deadline, known: dict[str, Reference]
) -> Schema:
    references = [_with_version(registry, each, local.schema.kind, deadline) for each in local.schema.references]
    for each in local.imports:
        if each.name not in known:
            schema = _registrable(registry, each, register, deadline, known)
            if register:
                registry.register(each.name, schema, timeout=deadline.remaining())
            found = registry.look_up(each.name, schema, timeout=deadline.remaining(), just_registered=register)
            version = found.version
            assert version is not None, "look_up has checked it"
            known[each.name] = Reference(name=each.name, subject=each.name, version=version)
        references.append(known[each.name])
    return attrs.evolve(local.schema, references=tuple(references))


def _with_version(registry: SchemaRegistry, reference: Reference, kind: str, deadline: Deadline) -> Reference:
    """The reference with the newest version's number, if it names that: the registry takes numbers only."""
    if reference.version != LATEST:
        return reference
    found = registry.version(reference.subject, LATEST, kind=kind, timeout=deadline.remaining())
    assert found.version is not None, "it was checked"
    return attrs.evolve(reference, version=found.version)
