"""Each suite finds an optional ability whose name is misspelt, and names the right one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.interfaces import (
    Authenticator,
    Interceptor,
    Mechanism,
    Partitioner,
    RecordEncoder,
    Serializer,
    SupportsPartitionColumn,
    TopicView,
    Transport,
)
from ottla_testkit.conformance.harness.abilities import check_spelling


def plugin(name: str, value: object) -> object:
    return type("Plugin", (), {name: value})()


@pytest.mark.parametrize(
    ("contract", "written", "right"),
    [
        (Partitioner, "on_newbatch", "on_new_batch"),
        (Partitioner, "onNewBatch", "on_new_batch"),
        (Partitioner, "partition_columns", "partition_column"),
        (Partitioner, "partitionrecord", "partition_record"),
        (Partitioner, "apended", "appended"),
        (Serializer, "serialise_column", "serialize_column"),
        (Serializer, "serialize_columns", "serialize_column"),
        (Serializer, "use_encoders", "use_encoder"),
        (RecordEncoder, "cut_row", "cut_rows"),
        (RecordEncoder, "murmur_partitions", "murmur2_partitions"),
        (RecordEncoder, "jsonRows", "json_rows"),
        (Transport, "open_ower", "open_over"),
        (Interceptor, "on_send_tables", "on_send_table"),
        (Interceptor, "on_table_acknowledged", "on_table_acknowledgement"),
        (Authenticator, "refuse", "refused"),
        (Authenticator, "on_refused", "refused"),
        (Interceptor, "close_", "close"),
        (Interceptor, "Close", "close"),
    ],
)
def test_a_misspelt_method_is_reported_with_the_right_name(contract: type, written: str, right: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=f"has `{written}`, .* is it meant to be `{right}`"):
        check_spelling(plugin(written, lambda self: None), contract)


@pytest.mark.parametrize(
    ("contract", "written", "right"),
    [
        (Partitioner, "stiky", "sticky"),
        (Partitioner, "ignore_keys", "ignores_keys"),
        (Mechanism, "identety", "identity"),
        (Serializer, "set_headers", "sets_headers"),
    ],
)
def test_a_misspelt_attribute_is_reported_with_the_right_name(contract: type, written: str, right: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=f"has `{written}`, .* is it meant to be `{right}`"):
        check_spelling(plugin(written, True), contract)


@pytest.mark.parametrize("name", ["_on_newbatch", "closed", "partitions", "cache"])
def test_an_attribute_of_the_plugin_itself_is_not_reported(name: str) -> None:
    check_spelling(plugin(name, True), Partitioner)


def test_a_misspelt_method_is_reported_beneath_the_protocol_itself() -> None:
    class Misspelt(SupportsPartitionColumn):
        def partition_columns(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
            return [0] * len(keys)

    with pytest.raises(pytest.fail.Exception, match="is it meant to be `partition_column`"):
        check_spelling(Misspelt(), Partitioner)  # type: ignore[abstract]


def test_an_ability_that_is_there_has_no_misspelling() -> None:
    check_spelling(type("Plugin", (), {"close": print, "close_": print})(), Partitioner)
