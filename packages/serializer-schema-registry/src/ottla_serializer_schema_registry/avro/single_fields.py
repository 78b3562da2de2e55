"""Records of one field, by which fastavro checks and writes data of any type of a parsed schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def record_of(field: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with this field alone, as fastavro parses it. *named* are the named types of the schema."""
    return {"type": "record", "name": "R", "fields": [field], "__fastavro_parsed": True, "__named_schemas": named}
