"""The schema that a consumer finds by the id in a record, which producers need not ask a registry for."""

from __future__ import annotations

from ottla_serializer_schema_registry.registry.client import SchemaRegistry, _format, _object, _schema
from ottla_serializer_schema_registry.registry.exchange import Request
from ottla_serializer_schema_registry.registry.schemas import Schema


def schema_by_id(registry: SchemaRegistry, schema_id: int, *, kind: str) -> Schema:
    """Fetch the schema that has an id."""
    request = Request(method="GET", path=f"/schemas/ids/{schema_id}{_format(kind)}")
    answer = registry._asked(request, 30)
    return _schema(_object(answer, request), kind, request)
