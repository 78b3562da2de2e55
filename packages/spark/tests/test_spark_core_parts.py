"""All private modules of the core that the sink uses. They may change with every version of the core."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import ottla_spark

SOURCE = Path(ottla_spark.__file__).parents[1]

PUBLIC = frozenset(
    {
        "ottla",
        "ottla.config.settings",
        "ottla.errors",
        "ottla.hookspecs",
        "ottla.interfaces",
        "ottla.tables",
        "ottla.transactions",
    }
)

PRIVATE = {
    "ottla.config",
    "ottla.config.allow_lists",
    "ottla.config.plugin_choice",
    "ottla.errors.plugin_origin",
    "ottla.errors.secret",
    "ottla.plugins.column_headers",
    "ottla.plugins.compressors.gzip",
    "ottla.plugins.partitioners.murmur2",
    "ottla.plugins.partitioners.murmur2_hash",
    "ottla.plugins.registry",
    "ottla.plugins.serializer_failures",
    "ottla.plugins.serializers",
    "ottla.plugins.serializers.json_columns",
    "ottla.producer.record_checks",
    "ottla.protocol",
    "ottla.protocol.message",
    "ottla.protocol.messages.create_topics",
    "ottla.protocol.messages.describe_configs",
    "ottla.protocol.messages.describe_transactions",
    "ottla.protocol.messages.fetch",
    "ottla.protocol.messages.init_producer_id",
    "ottla.protocol.messages.list_offsets",
    "ottla.protocol.messages.metadata",
    "ottla.protocol.topic_rights",
    "ottla.protocol.notation",
    "ottla.protocol.primitives",
    "ottla.protocol.binary_arrays",
    "ottla.recordbatch.codecs",
    "ottla.recordbatch.number_columns",
    "ottla.recordbatch.parse_v2",
    "ottla.recordbatch.records_v2",
    "ottla.recordbatch.sealed_records",
    "ottla.recordbatch.batch_sequence",
    "ottla.recordbatch.parsed_batches",
    "ottla.recordbatch.batch_header",
    "ottla.recordbatch.header_v2",
    "ottla.tables.constant_headers",
    "ottla.tables.headers",
    "ottla.tables.sealed",
    "ottla.transactions.admin.blocking_client",
    "ottla.transactions.admin.completion",
    "ottla.transactions.admin.connect",
    "ottla.transactions.admin.descriptions",
    "ottla.transactions.admin.group_offsets",
    "ottla.transactions.admin.open_transactions",
    "ottla.transactions.admin.transaction_owner",
    "ottla.transactions.current_transaction",
    "ottla.transactions.coordinator_request",
    "ottla.transactions.transaction_requests",
}


def imported() -> Iterator[str]:
    """The modules of the core that the sink imports, also under TYPE_CHECKING and in functions."""
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.ImportFrom(module=str(module), level=0):
                    yield module
                case ast.Import(names=names):
                    yield from (alias.name for alias in names)


def test_the_sink_uses_these_private_modules_of_the_core_and_no_others() -> None:
    core = {module for module in imported() if module.split(".")[0] == "ottla"}

    assert core - PUBLIC == PRIVATE
