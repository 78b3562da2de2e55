"""A registry with one schema, for conformance suites, which need no other."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ottla_serializer_schema_registry.registry.client import SchemaRegistry
from ottla_serializer_schema_registry.registry.exchange import Answer, Request

PREFIX = b"\0\0\0\1\2"
"""The bytes before data with its schema, whose id is 258."""


class _OneSchema:
    """Answers every request with this schema."""

    def send(self, request: Request, *, timeout: float, retried: Collection[int] = ()) -> Answer:
        return Answer(status=200, body=b'{"id": 258}')


def one_schema() -> SchemaRegistry:
    """Return a registry that has every schema under one id."""
    exchanges: Any = _OneSchema()
    return SchemaRegistry(exchanges)
