"""The serializer keeps the whole contract."""

from __future__ import annotations

from ottla_serializer_schema_registry import plugin
from ottla_serializer_schema_registry.conformance import AvroConformance


class TestAvro(AvroConformance):
    pass


def test_the_plugin_names_its_conformance_suite() -> None:
    assert plugin.ottla_conformance == f"{AvroConformance.__module__}:{AvroConformance.__name__}"
